"""A cluster in memory, a forger of certificates, and two TLS ends joined without sockets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, IOPump, connect
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.model.certificate import CertificateRefused, CertificateRequest, NewCertificate
from svc.model.ids import node_id
from svc.model.principal import Principal, Role
from svc.pki import profile
from svc.pki.identity import TransportIdentity, check_material
from svc.pki.issue import der, make_request, prove_key
from svc.pki.root import ClusterKeys, make_cluster, new_key
from svc.pki.verify import ChainVerifier

CLUSTER = "c1.example.test"
BEGIN = 1_900_000_000.0
PERSON = "p" * 26
AGENT = f"agent-{PERSON}"
ALL = frozenset(Role)
ID = "a" * 26
GOOD = f"spiffe://{CLUSTER}/proxy/{ID}"


class Counted:
    """Entropy that never repeats and is the same in each run."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, size: int) -> bytes:
        self._count += 1
        return sha256(b"%d" % self._count).digest()[:size].ljust(size, b"\x11")


class World:
    """One cluster under one clock."""

    def __init__(self, cluster: str = CLUSTER) -> None:
        self.clock = Clock()
        self.entropy = Counted()
        self.keys: ClusterKeys = make_cluster(cluster, self.now, self.entropy)
        self.verifier = ChainVerifier(cluster, self.keys.root_der, self.now)

    def now(self) -> float:
        """Wall time: the clock's seconds after a day in 2030."""
        return BEGIN + self.clock.seconds()

    def issued(
        self,
        role: Role,
        key: ec.EllipticCurvePrivateKey,
        lifetime: float = 86400.0,
        generation: int = 1,
        id: str = "",
        names: tuple[str, ...] = (),
        factor_at: int | None = None,
    ) -> NewCertificate:
        """A certificate from the issuing CA of *role*; nodes are named by their key."""
        csr = make_request(key)
        holder = AGENT if role is Role.AGENT else PERSON
        named = id or (node_id(prove_key(csr).info) if role.is_node else holder)
        principal = Principal(self.keys.cluster, role, named)
        request = CertificateRequest(
            csr=csr,
            principal=principal,
            lifetime=lifetime,
            generation=generation,
            names=names,
            factor_at=factor_at,
        )
        return self.keys.issuer_for(role).sign(request)

    def identity(self, role: Role, lifetime: float = 86400.0, id: str = "") -> TransportIdentity:
        """An identity of *role*, in memory only."""
        key = new_key()
        chain = self.issued(role, key, lifetime, id=id).chain
        return TransportIdentity(check_material(key, chain, self.verifier), self.verifier, self.now)


def forged(
    world: World,
    *,
    uris: Sequence[str],
    kind: str = "transport",
    ca: bool = False,
    key_usage: x509.KeyUsage | None = None,
    usages: Sequence[x509.ObjectIdentifier] | None = None,
    names: Sequence[x509.GeneralName] = (),
    begin: float = BEGIN - 60,
    end: float = BEGIN + 3600,
    extra: Sequence[tuple[x509.ExtensionType, bool]] = (),
    generations: Sequence[str] = ("1",),
    key: Any = None,
) -> tuple[bytes, ...]:
    """A chain signed by the world's own *kind* of CA, which the issuer itself would never sign."""
    authority = world.keys.issuers[kind]
    default = profile.leaf_usages(Role.PROXY if kind == "transport" else Role.USER)
    builder = (
        x509.CertificateBuilder()
        .subject_name(
            x509.Name([x509.NameAttribute(NameOID.SERIAL_NUMBER, each) for each in generations])
        )
        .issuer_name(authority.certificate.subject)
        .public_key((key or new_key()).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(begin, UTC))
        .not_valid_after(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.BasicConstraints(ca, 0 if ca else None), critical=True)
        .add_extension(key_usage or profile.key_usage(authority=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(list(default if usages is None else usages)), critical=False
        )
    )
    alternatives = [*(x509.UniformResourceIdentifier(uri) for uri in uris), *names]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    for extension, critical in extra:
        builder = builder.add_extension(extension, critical=critical)
    return der(builder.sign(authority.key, SHA256())), der(authority.certificate)


class End(Protocol):
    """One application end over TLS: keeps what it received and why it ended."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: Failure | None = None

    def write(self, data: bytes) -> None:
        """Send to the other end."""
        assert self.transport is not None
        self.transport.write(data)

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.received += data

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Keep why."""
        self.ended = reason


@frozen
class Unjudged:
    """A connection whose peer nobody verifies."""

    connection: SSL.Connection

    def confirm(self) -> None:
        """Whoever it is."""


@implementer(IOpenSSLClientConnectionCreator)
class LegacyClient:
    """A client of a context not made by us."""

    def __init__(self, context: SSL.Context) -> None:
        self._context = context

    def clientConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Called by Twisted for each connection."""
        return self.begin().connection

    def begin(self) -> Unjudged:
        """Called for each connection of ours."""
        connection = SSL.Connection(self._context, None)
        connection.set_connect_state()
        return Unjudged(connection)


class Joined:
    """A TLS server end and a TLS client end in one process, each having written its greeting."""

    def __init__(self, server: Any, client: Any) -> None:
        self.clock = Clock()
        self.server, self.client = End(), End()
        above = self._wrap(server, False, self.server)
        below = self._wrap(client, True, self.client)
        self.server_tls, self.client_tls = above, below
        self._pump: IOPump = connect(
            above, FakeTransport(above, True), below, FakeTransport(below, False)
        )
        self.server.write(b"from server")
        self.client.write(b"from client")
        self.pump()

    def pump(self) -> None:
        """Carry bytes both ways until nothing moves."""
        for _ in range(6):
            self.clock.advance(0.001)
            self._pump.flush()

    @property
    def passed(self) -> bool:
        """Whether the greetings crossed both ways and both ends live."""
        alive = self.server.ended is None and self.client.ended is None
        greetings = (self.server.received, self.client.received)
        return alive and greetings == (b"from client", b"from server")

    def _wrap(self, creator: Any, is_client: bool, end: End) -> TLSMemoryBIOProtocol:
        inner = Factory.forProtocol(lambda: end)
        factory = TLSMemoryBIOFactory(creator, is_client, inner, clock=self.clock)
        protocol = factory.buildProtocol(None)
        assert isinstance(protocol, TLSMemoryBIOProtocol)
        return protocol


class VerifierTests(SynchronousTestCase):
    """One cluster and its verifier."""

    def setUp(self) -> None:
        self.world = World()
        self.verifier = self.world.verifier

    def refusal(self, chain, roles=ALL) -> CertificateRefused:  # type: ignore[no-untyped-def]
        error = self.assertRaises(CertificateRefused, self.verifier.verify, chain, roles)
        assert isinstance(error, CertificateRefused)
        return error

    def assertRefused(self, reason: str, chain, roles=ALL) -> None:  # type: ignore[no-untyped-def]
        self.assertEqual(self.refusal(chain, roles).reason, f"certificate_{reason}")
