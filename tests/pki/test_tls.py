"""TLS between our own ends, both sides real OpenSSL, joined in memory."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.errors import SvcError
from svc.join.channel import PinnedCluster
from svc.model.certificate import CertificateFacts, CertificateRefused
from svc.model.principal import Principal, Role
from svc.pki.handshake import Contexts, PeerVerifier, log_refusal
from svc.pki.identity import check_material
from svc.pki.issue import der
from svc.pki.peers import PinnedRoot, exactly
from svc.pki.root import new_key
from svc.pki.tls import (
    H2,
    ClientCertificates,
    ClientTLS,
    client_context,
    server_context,
)
from tests.pki.support import CLUSTER, Joined, LegacyClient, World
from tests.support.proof import proves

PROXY = frozenset({Role.PROXY})


def shown_by(transport: Any) -> tuple[x509.Certificate, ...]:
    """The verified chain of a TLS transport's peer, leaf first; empty without one."""
    return tuple(transport.getHandle().get_verified_chain(as_cryptography=True) or ())


@implementer(IOpenSSLClientConnectionCreator)
class Resuming:
    """Offers a session kept from an earlier connection in its handshake."""

    def __init__(self, client: ClientTLS, session: SSL.Session) -> None:
        self._client = client
        self._session = session

    def clientConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called by Twisted for each connection."""
        connection = self._client.clientConnectionForTLS(protocol)
        connection.set_session(self._session)
        return connection


@implementer(IOpenSSLClientConnectionCreator)
class Unwatched:
    """A client whose TLS library forgets to ask about certificates."""

    def __init__(self, client: ClientTLS) -> None:
        self._client = client

    def clientConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called by Twisted for each connection."""
        connection = self._client.clientConnectionForTLS(protocol)
        connection.set_verify(SSL.VERIFY_NONE)
        return connection


class ListenerTests(SynchronousTestCase):
    """A listener of ours and those who call it."""

    def setUp(self) -> None:
        self.world = World()
        self.refused: list[SvcError] = []
        self.judged: list[CertificateFacts] = []
        self.proxy = self.world.identity(Role.PROXY)

    def client(self, identity=None, world=None, **kept):  # type: ignore[no-untyped-def]
        verifier = (world or self.world).verifier
        kept.setdefault("roles", PROXY)
        return client_context(verifier, identity, refused=self.refused.append, **kept)

    def server(self, *asked, **kept):  # type: ignore[no-untyped-def]
        return server_context(self.proxy, *asked, refused=self.refused.append, **kept)

    def reasons(self) -> list[str]:
        return [error.reason for error in self.refused]

    def assertNothingPassed(self, joined: Joined) -> None:
        self.assertEqual(joined.server.received, b"")
        self.assertIsNotNone(joined.server.ended)
        self.assertIsNotNone(joined.client.ended)

    def test_without_certificate(self) -> None:
        """A caller without a certificate is served where certificates are optional."""
        joined = Joined(self.server(), self.client())
        self.assertTrue(joined.passed)
        self.assertEqual(joined.server_tls.negotiatedProtocol, b"h2")
        self.assertEqual(shown_by(joined.server_tls), ())

    def test_with_certificate(self) -> None:
        """A caller's verified chain can be asked of the transport, leaf first."""
        connector = self.world.identity(Role.CONNECTOR)
        joined = Joined(self.server(), self.client(connector))
        self.assertTrue(joined.passed)
        facts = self.world.verifier.verify(shown_by(joined.server_tls), frozenset(Role))
        self.assertEqual(facts, connector.facts)
        shown = self.world.verifier.verify(shown_by(joined.client_tls), PROXY)
        self.assertEqual(shown, self.proxy.facts)

    def test_required(self) -> None:
        """Where a certificate is required, a caller without one is refused in the handshake."""
        joined = Joined(self.server(ClientCertificates.REQUIRED), self.client())
        self.assertNothingPassed(joined)

    def test_not_asked(self) -> None:
        """Where no certificate is asked for, none is shown."""
        connector = self.world.identity(Role.CONNECTOR)
        joined = Joined(self.server(ClientCertificates.NONE), self.client(connector))
        self.assertTrue(joined.passed)
        self.assertEqual(shown_by(joined.server_tls), ())

    def test_foreign_caller(self) -> None:
        """A certificate of another root ends the handshake even where none was needed."""
        stranger = World().identity(Role.CONNECTOR)
        verifier = self.world.verifier
        joined = Joined(self.server(), client_context(verifier, stranger, roles=PROXY))
        self.assertNothingPassed(joined)

    def test_foreign_server(self) -> None:
        """A server of another root is refused before the client has sent a byte."""
        joined = Joined(self.server(), self.client(world=World()))
        self.assertNothingPassed(joined)
        self.assertEqual(joined.client.received, b"")

    def test_wrong_role_of_server(self) -> None:
        """A server of our cluster in another role is refused."""
        joined = Joined(self.server(), self.client(roles=frozenset({Role.AUTHORITY})))
        self.assertNothingPassed(joined)
        self.assertEqual(self.reasons(), ["certificate_role"])

    def test_wrong_server(self) -> None:
        """A client that expects one Proxy does not speak to another."""
        other = Principal(self.world.keys.cluster, Role.PROXY, "a" * 26)
        joined = Joined(self.server(), self.client(expect=exactly(other)))
        self.assertNothingPassed(joined)
        self.assertEqual(self.reasons(), ["certificate_name"])
        good = Joined(self.server(), self.client(expect=exactly(self.proxy.principal)))
        self.assertTrue(good.passed)

    def test_role_of_caller(self) -> None:
        """A listener for operators refuses a Connector's certificate in the handshake."""
        connector = self.world.identity(Role.CONNECTOR)
        server = self.server(ClientCertificates.REQUIRED, roles=frozenset({Role.OPERATOR}))
        joined = Joined(server, self.client(connector))
        self.assertNothingPassed(joined)
        self.assertEqual(self.reasons(), ["certificate_role"])

    def test_person_cannot_serve(self) -> None:
        """A person's certificate never serves TLS."""
        self.proxy = self.world.identity(Role.USER)
        joined = Joined(self.server(), self.client(roles=frozenset({Role.USER})))
        self.assertNothingPassed(joined)

    def test_caller_expired(self) -> None:
        """A caller whose own clock let it use an expired leaf is refused by the listener's."""
        connector = self.world.identity(Role.CONNECTOR, lifetime=10)
        connector._now = lambda: connector.facts.not_before
        self.world.clock.advance(12)
        joined = Joined(self.server(), self.client(connector))
        self.assertNothingPassed(joined)
        self.assertEqual(self.reasons(), ["certificate_expired"])

    def test_other_protocol(self) -> None:
        """A caller that offers only protocols we do not serve is refused."""
        joined = Joined(self.server(), self.client(alpn=(b"http/1.1",)))
        self.assertNothingPassed(joined)

    def test_older_tls(self) -> None:
        """A caller that speaks at most TLS 1.2 gets nowhere."""
        old = CertificateOptions(
            insecurelyLowerMinimumTo=TLSVersion.TLSv1_2, lowerMaximumSecurityTo=TLSVersion.TLSv1_2
        )
        creator = LegacyClient(old.getContext())
        self.assertNothingPassed(Joined(self.server(), creator))

    def older(self, newest: int, suites: bytes = b"ALL:@SECLEVEL=0", who=None):  # type: ignore[no-untyped-def]
        """A client of one version; of TLS 1.2 as many suites as OpenSSL has."""
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(newest)
        context.set_max_proto_version(newest)
        context.set_cipher_list(suites)
        context.set_alpn_protos([b"h2"])
        if who is not None:
            leaf, above = who.material.certificates[:2]
            context.use_certificate(leaf)
            context.use_privatekey(who.material.key)
            context.add_extra_chain_cert(above)
        return LegacyClient(context)

    def test_tls12_by_setting_only(self) -> None:
        """A listener told so takes TLS 1.2, with ephemeral keys and AEAD only; 1.1 no one takes."""
        server = self.server(also_tls12=True)
        joined = Joined(server, self.older(SSL.TLS1_2_VERSION))
        self.assertTrue(joined.passed)
        handle = joined.server_tls.getHandle()
        self.assertEqual(handle.get_protocol_version_name(), "TLSv1.2")
        self.assertRegex(handle.get_cipher_name(), r"^ECDHE-ECDSA-(AES\d+-GCM|CHACHA20)")
        for suite in (
            b"ECDHE-ECDSA-AES128-SHA256",
            b"ECDHE-ECDSA-AES256-SHA",
            b"AES128-GCM-SHA256",
        ):
            with self.subTest(suite=suite):
                refused = Joined(server, self.older(SSL.TLS1_2_VERSION, suite + b":@SECLEVEL=0"))
                self.assertNothingPassed(refused)
        for newest in (SSL.TLS1_1_VERSION, SSL.TLS1_VERSION):
            self.assertNothingPassed(Joined(server, self.older(newest)))
        self.assertNothingPassed(Joined(self.server(), self.older(SSL.TLS1_2_VERSION)))
        usual = Joined(server, self.client())
        self.assertTrue(usual.passed)
        self.assertEqual(usual.server_tls.getHandle().get_protocol_version_name(), "TLSv1.3")

    def test_tls12_judges_alike(self) -> None:
        """Over TLS 1.2 a certificate is asked for and judged as ever, and only once."""
        server = self.server(also_tls12=True, expect=self.judged.append)
        connector = self.world.identity(Role.CONNECTOR)
        joined = Joined(server, self.older(SSL.TLS1_2_VERSION, who=connector))
        self.assertTrue(joined.passed)
        self.assertEqual(self.judged, [connector.facts])
        self.assertEqual(len(shown_by(joined.server_tls)), 3)
        self.assertFalse(joined.client_tls.getHandle().renegotiate_pending())
        joined.client_tls.getHandle().renegotiate()
        joined.client.write(b"again")
        joined.pump()
        self.assertEqual(self.judged, [connector.facts])
        stranger = World().identity(Role.CONNECTOR)
        refused = Joined(server, self.older(SSL.TLS1_2_VERSION, who=stranger))
        self.assertNothingPassed(refused)

    def hello(self, name: bytes) -> bytes:
        """A stock client's first bytes, its server name replaced."""
        placeholder = b"x" * len(name)
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_alpn_protos([b"h2"])
        connection = SSL.Connection(context, None)
        connection.set_tlsext_host_name(placeholder)
        connection.set_connect_state()
        self.assertRaises(SSL.WantReadError, connection.do_handshake)
        raw = connection.bio_read(65536)
        self.assertEqual(raw.count(placeholder), 1)
        return raw.replace(placeholder, name)

    def answer(self, hello: bytes, at_once: int = 65536) -> tuple[bytes, bool]:
        """What a server says to a first message, and whether it hung up."""
        transport = StringTransport()
        server = TLSMemoryBIOFactory(
            self.server(ClientCertificates.REQUIRED), False, Factory.forProtocol(Protocol), Clock()
        ).buildProtocol(None)
        assert server is not None
        server.makeConnection(transport)
        for at in range(0, len(hello), at_once):
            server.dataReceived(hello[at : at + at_once])
        return transport.value()[:1], transport.disconnecting or transport.disconnected

    def test_server_names(self) -> None:
        """Whatever name a client asks for, it gets the one certificate or an alert."""
        for name in (
            b"proxy.example",
            b"PROXY.exAMPle",
            b"other",
            b"\xff\xfe\x80.example",
            b"nul\0.example",
            bytes(13),
            b"." * 13,
            b"'; drop table",
        ):
            with self.subTest(name=name):
                said, is_over = self.answer(self.hello(name))
                self.assertIn((said, is_over), ((b"\x16", False), (b"\x15", True)))
        self.assertEqual(self.answer(self.hello(b"a" * 255))[0], b"\x16")
        hello = self.hello(b"proxy.example")
        self.assertEqual(self.answer(hello, 1), (b"\x16", False))
        too_long = bytearray(hello)
        at = hello.index(b"proxy.example")
        too_long[at - 2 : at] = (256).to_bytes(2, "big")  # a name past the end of its list
        self.assertEqual(self.answer(bytes(too_long)), (b"\x15", True))

    def test_server_name_changes_no_rule(self) -> None:
        """A name in any spelling does not spare a caller the certificate."""
        for name in ("localhost", "LOCALHOST", "elsewhere.example"):
            caller = self.client(server_name=name)
            self.assertNothingPassed(Joined(self.server(ClientCertificates.REQUIRED), caller))

    def test_never_judged(self) -> None:
        """A connection whose peer nobody judged is ended when the handshake is done."""
        joined = Joined(self.server(), Unwatched(self.client(world=World())))
        self.assertEqual((joined.server.received, joined.client.received), (b"", b""))
        self.assertIsNotNone(joined.client.ended)
        self.assertEqual(self.reasons(), ["certificate_chain"])

    def test_no_resumption(self) -> None:
        """A session kept from one connection does not stand for a certificate in the next."""
        connector = self.world.identity(Role.CONNECTOR)
        client = self.client(connector)
        server = self.server(ClientCertificates.REQUIRED, expect=self.judged.append)
        first = Joined(server, client)
        resuming = Resuming(client, first.client_tls.getHandle().get_session())
        again = Joined(server, resuming)
        self.assertTrue(again.passed)
        # To the issuing CA, which the first connection led to the root.
        self.assertEqual(len(shown_by(again.server_tls)), 2)
        self.assertEqual(len(self.judged), 2)


class OwnLeafTests(SynchronousTestCase):
    """What the process does with its own leaf as time goes by."""

    def setUp(self) -> None:
        self.world = World()
        self.proxy = self.world.identity(Role.PROXY, lifetime=30)
        self.refused: list[SvcError] = []
        self.server = server_context(self.proxy, refused=self.refused.append)
        self.client = client_context(self.world.verifier, None, roles=PROXY)

    def test_new_material(self) -> None:
        """A renewed leaf is used by the next handshake while the old connection lives."""
        old = Joined(self.server, self.client)
        key = new_key()
        chain = self.world.issued(Role.PROXY, key, generation=2, id=self.proxy.principal.id).chain
        before = self.proxy.facts
        self.proxy.replace(self.proxy.accept(key, chain))
        new = Joined(self.server, self.client)
        old.client.write(b", more")
        old.pump()
        self.assertEqual(old.server.received, b"from client, more")
        shown = [
            self.world.verifier.verify(shown_by(each.client_tls), PROXY).sha256
            for each in (old, new)
        ]
        self.assertEqual(shown, [before.sha256, self.proxy.facts.sha256])
        self.assertNotEqual(shown[0], shown[1])

    @proves("G-IDN-05", "G-OPEN-77", "X-48")
    def test_expired_as_server(self) -> None:
        """Once our leaf has expired we serve no new connection; an open one goes on."""
        old = Joined(self.server, self.client)
        self.world.clock.advance(32)
        self.assertLess(self.proxy.seconds_left(), 0)
        new = Joined(self.server, self.client)
        self.assertEqual((new.server.received, new.client.received), (b"", b""))
        self.assertIsNotNone(new.server.ended)
        self.assertIsNotNone(new.client.ended)
        self.assertEqual([error.reason for error in self.refused], ["certificate_expired"])
        old.client.write(b", more")
        old.pump()
        self.assertEqual(old.server.received, b"from client, more")

    @proves("G-IDN-05", "G-OPEN-77")
    def test_expired_as_client(self) -> None:
        """Once our leaf has expired we begin no connection either."""
        authority = self.world.identity(Role.AUTHORITY)
        client = client_context(
            self.world.verifier,
            self.proxy,
            roles=frozenset({Role.AUTHORITY}),
            refused=self.refused.append,
        )
        self.assertTrue(Joined(server_context(authority), client).passed)
        self.world.clock.advance(32)
        late = Joined(server_context(authority), client)
        self.assertEqual((late.server.received, late.client.received), (b"", b""))
        self.assertIsNotNone(late.client.ended)
        self.assertEqual([error.reason for error in self.refused], ["certificate_expired"])

    def test_recovers(self) -> None:
        """A listener that refused for its expired leaf serves again with a new one."""
        self.world.clock.advance(32)
        self.assertFalse(Joined(self.server, self.client).passed)
        key = new_key()
        chain = self.world.issued(Role.PROXY, key, generation=2, id=self.proxy.principal.id).chain
        self.proxy.replace(check_material(key, chain, self.world.verifier))
        self.assertTrue(Joined(self.server, self.client).passed)


def _joining(pin: str, world: World, cluster: str) -> ClientTLS:
    """As whoever joins the cluster asks its Authority."""
    return ClientTLS(
        Contexts(None, server=False, alpn=H2),
        PeerVerifier(
            check=PinnedCluster(pin.lower(), cluster, world.now),
            required=True,
            alpn=H2,
            refused=log_refusal,
        ),
    )


class JoinerTests(SynchronousTestCase):
    """A joiner that knows nothing but the pin of the root."""

    def setUp(self) -> None:
        self.world = World()
        self.authority = self.world.identity(Role.AUTHORITY)

    def joined(self, identity, world=None, send_root=True):  # type: ignore[no-untyped-def]
        world = world or self.world
        server = server_context(identity, ClientCertificates.NONE, send_root=send_root)
        client = _joining(self.world.keys.ca_pin, self.world, self.world.keys.cluster)
        return Joined(server, client)

    def test_pinned(self) -> None:
        """A joiner accepts an authority whose chain ends in the pinned root."""
        self.assertTrue(self.joined(self.authority).passed)

    def test_root_not_sent(self) -> None:
        """A chain that leaves out the root cannot be compared with the pin."""
        self.assertEqual(self.joined(self.authority, send_root=False).server.received, b"")

    def test_other_root(self) -> None:
        """An authority of another root is refused before the token leaves."""
        other = World().identity(Role.AUTHORITY)
        self.assertEqual(self.joined(other).server.received, b"")

    def test_other_role(self) -> None:
        """A Proxy of the same cluster cannot take the token."""
        self.assertEqual(self.joined(self.world.identity(Role.PROXY)).server.received, b"")

    def test_other_cluster(self) -> None:
        """A root that the pin names, but of a cluster not asked for, is refused."""
        other = World("c2.example.test")
        server = server_context(other.identity(Role.AUTHORITY), send_root=True)
        client = _joining(other.keys.ca_pin, other, self.world.keys.cluster)
        self.assertEqual(Joined(server, client).server.received, b"")


class PinTests(SynchronousTestCase):
    """What a pin accepts, apart from what OpenSSL thinks of the chain."""

    def test_last_certificate(self) -> None:
        """The chain must end in the very certificate that the pin names."""
        world, other = World(), World()
        certificates = [*world.identity(Role.AUTHORITY).material.certificates, world.keys.root]
        chain = [der(one) for one in certificates]
        PinnedRoot(CLUSTER, world.keys.ca_pin, world.now).accept(chain)
        for pin, shown in (
            (other.keys.ca_pin, chain),
            (world.keys.ca_pin, chain[:2]),
            (world.keys.ca_pin, [*chain[:2], other.keys.root_der]),
            ("", chain),
        ):
            check = PinnedRoot(CLUSTER, pin, world.now)
            self.assertRaises(CertificateRefused, check.accept, shown)
