"""The TLS inside a session, both sides real OpenSSL, joined in memory."""

from __future__ import annotations

import contextlib

from attrs import evolve, field, frozen
from OpenSSL import SSL
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed, SvcError
from svc.model.principal import Role
from svc.pki.end_to_end import ConnectorEnd, PersonEnd
from svc.pki.peers import PeerCheck
from svc.pki.tls import (
    ClientCertificates,
    ClientTLS,
    ServerTLS,
    client_context,
    server_context,
)
from svc.pki.verify import Shown
from tests.pki.support import PERSON, Joined, LegacyClient, World


@frozen
class Shows:
    """A check of peers that keeps how long OpenSSL's chains are."""

    check: PeerCheck
    lengths: list[int] = field(factory=list)

    def accept(self, chain: Shown) -> None:
        self.lengths.append(len(chain))
        self.check.accept(chain)

    def trusts(self, root: bytes) -> bool:
        return self.check.trusts(root)


def shakes_hands(client: ClientTLS, server: ServerTLS) -> bool:
    """Whether a session's two ends, which begin now, accept each other."""
    ends = client.begin(), server.begin()
    left = list(ends)
    try:
        for end, other in (ends, ends[::-1]) * 2:
            if end in left:
                with contextlib.suppress(SSL.WantReadError):
                    end.connection.do_handshake()
                    end.confirm()
                    left.remove(end)
            with contextlib.suppress(SSL.WantReadError):
                other.connection.bio_write(end.connection.bio_read(1 << 16))
    except (SSL.Error, SvcError):
        return False
    return not left


class EndToEndTests(SynchronousTestCase):
    """The TLS inside a session: one person, one Connector, nobody else."""

    def setUp(self) -> None:
        self.world = World()
        self.connector = self.world.identity(Role.CONNECTOR)
        self.person = self.world.identity(Role.USER)
        self.server = ConnectorEnd(self.connector).session(self.person.facts.sha256)
        self.client = PersonEnd(self.person).session(self.connector.principal.id)

    def assertRefused(self, joined: Joined) -> None:
        self.assertEqual((joined.server.received, joined.client.ended is None), (b"", False))

    def test_both_named(self) -> None:
        """Person and Connector that the grant names speak to each other."""
        joined = Joined(self.server, self.client)
        self.assertTrue(joined.passed)
        self.assertEqual(joined.server_tls.negotiatedProtocol, b"svc-e2e")
        self.assertEqual(joined.server_tls.getHandle().get_protocol_version_name(), "TLSv1.3")

    def test_issuer_verified_once(self) -> None:
        """A context's later chains end at the issuing CA that its first one led to the root."""
        checks = []
        for end in ("server", "client"):
            tls = getattr(self, end)
            check = Shows(tls.verifier.check)
            checks.append(check)
            setattr(self, end, evolve(tls, verifier=evolve(tls.verifier, check=check)))
        for _ in range(3):
            self.assertTrue(Joined(self.server, self.client).passed)
        self.assertEqual([[3, 2, 2]] * 2, [check.lengths for check in checks])

    def test_issuer_of_another_root(self) -> None:
        """Issuing CAs that were verified vouch for nobody of another cluster's."""
        other = World()
        stranger = PersonEnd(other.identity(Role.USER)).session(self.connector.principal.id)
        impostor = ConnectorEnd(other.identity(Role.CONNECTOR)).session(self.person.facts.sha256)
        for _ in range(2):
            self.assertRefused(Joined(self.server, stranger))
            self.assertFalse(Joined(impostor, self.client).passed)
            self.assertTrue(Joined(self.server, self.client).passed)

    def test_issuer_of_a_later_leaf(self) -> None:
        """Behind an issuing CA that was verified, each certificate is judged as ever."""
        self.assertTrue(Joined(self.server, self.client).passed)
        self.test_other_certificate_of_the_person()
        self.test_node_as_person()
        self.test_other_connector()

    def test_nothing_older(self) -> None:
        """A peer that offers TLS 1.2 is refused by either end, whatever a listener takes."""
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
        context.set_alpn_protos([b"svc-e2e"])
        leaf, above = self.person.material.certificates[:2]
        context.use_certificate(leaf)
        context.use_privatekey(self.person.material.key)
        context.add_extra_chain_cert(above)
        self.assertRefused(Joined(self.server, LegacyClient(context)))
        listener = server_context(
            self.connector, ClientCertificates.REQUIRED, also_tls12=True, alpn=(b"svc-e2e",)
        )
        joined = Joined(listener, self.client)
        self.assertEqual(joined.client_tls.getHandle().get_protocol_version_name(), "TLSv1.3")

    def test_other_certificate_of_the_person(self) -> None:
        """Another certificate of the very same person is refused: the grant names one."""
        again = PersonEnd(self.world.identity(Role.USER)).session(self.connector.principal.id)
        self.assertRefused(Joined(self.server, again))

    def test_proxy_in_between(self) -> None:
        """A Proxy that answers with its own certificate gets no byte."""
        proxy = self.world.identity(Role.PROXY)
        between = ConnectorEnd(proxy).session(self.person.facts.sha256)
        self.assertRefused(Joined(between, self.client))

    def test_prepared(self) -> None:
        """Keys that were made ahead serve one session, with the Connector that its grant names."""
        end, id = PersonEnd(self.person), self.connector.principal.id
        end.prepare()
        first, second = (end.session(id).begin().connection for _ in range(2))
        hellos = []
        for connection in (first, second):
            self.assertRaises(SSL.WantReadError, connection.do_handshake)
            hellos.append(connection.bio_read(1 << 14))
        self.assertEqual(2, len(set(hellos)))
        end.prepare()
        self.assertFalse(shakes_hands(end.session("a" * 26), self.server))
        end.prepare()
        self.assertTrue(shakes_hands(end.session(id), self.server))

    def test_prepared_by_older_material(self) -> None:
        """What was prepared is not used once our certificate is another, or no longer good."""
        end, id = PersonEnd(self.person), self.connector.principal.id
        end.prepare()
        before = self.person.material
        self.person.replace(self.world.identity(Role.USER).material)
        self.assertFalse(shakes_hands(end.session(id), self.server))
        self.person.replace(before)
        self.assertTrue(shakes_hands(end.session(id), self.server))
        end.prepare()
        self.world.clock.advance(100_000)
        self.assertFalse(shakes_hands(end.session(id), self.server))
        end.prepare()
        self.assertFalse(shakes_hands(end.session(id), self.server))

    def test_begun_before_the_grant(self) -> None:
        """A handshake that began early takes the grant's Connector; without a grant, nobody."""
        granted: list[str] = []

        def connector_id() -> str:
            if not granted:
                raise Malformed("no grant yet")
            return granted[0]

        person = PersonEnd(self.person)
        self.assertRefused(Joined(self.server, person.begun(connector_id)))
        granted.append("b" * 26)
        self.assertRefused(Joined(self.server, person.begun(connector_id)))
        granted[:] = [self.connector.principal.id]
        self.assertTrue(Joined(self.server, person.begun(connector_id)).passed)

    def test_other_connector(self) -> None:
        """Another Connector of the cluster gets no byte."""
        other = ConnectorEnd(self.world.identity(Role.CONNECTOR)).session(self.person.facts.sha256)
        self.assertRefused(Joined(other, self.client))

    def test_node_as_person(self) -> None:
        """A node cannot take a person's place, even if the grant named its certificate."""
        proxy = self.world.identity(Role.PROXY)
        server = ConnectorEnd(self.connector).session(proxy.facts.sha256)
        client = client_context(
            self.world.verifier, proxy, roles=frozenset({Role.CONNECTOR}), alpn=(b"svc-e2e",)
        )
        self.assertRefused(Joined(server, client))

    def test_without_certificate(self) -> None:
        """A peer that shows no certificate is refused."""
        client = client_context(
            self.world.verifier, None, roles=frozenset({Role.CONNECTOR}), alpn=(b"svc-e2e",)
        )
        self.assertRefused(Joined(self.server, client))

    def test_without_protocol(self) -> None:
        """A peer that names no protocol, or another one, is refused."""
        for alpn in ((), (b"h2",)):
            client = client_context(
                self.world.verifier, self.person, roles=frozenset({Role.CONNECTOR}), alpn=alpn
            )
            self.assertRefused(Joined(self.server, client))

    def test_listener_is_no_end(self) -> None:
        """An ordinary listener of the named Connector does not pass for a session's end."""
        server = server_context(self.connector, ClientCertificates.REQUIRED)
        self.assertRefused(Joined(server, self.client))

    def test_other_person_of_another_root(self) -> None:
        """A person of another root with the same id is refused."""
        stranger = World().identity(Role.USER, id=PERSON)
        client = client_context(
            self.world.verifier, stranger, roles=frozenset({Role.CONNECTOR}), alpn=(b"svc-e2e",)
        )
        server = ConnectorEnd(self.connector).session(stranger.facts.sha256)
        self.assertRefused(Joined(server, client))
