"""TLS where a listener is dialed: both ends are ours, and either may refuse the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost, NoProtocol
from twisted.internet.interfaces import IProtocol, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from svc.errors import SvcError
from svc.model.principal import Role
from svc.pki.tls import client_context, server_context
from svc.rpc.client.tls import TlsClient, TlsEndpoint
from svc.rpc.server.tls import TlsServerFactory
from tests.pki.support import ALL, World
from tests.rpc.server.test_tls import Ear, Line


class Asker(Ear):
    greeting = b"from client"


@implementer(IStreamClientEndpoint)
class Below:
    """An endpoint that connects to a line in memory at once."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.tls: Any = None

    def connect(self, protocolFactory: Any) -> Deferred[IProtocol]:
        self.tls = protocolFactory.buildProtocol(None)
        if self.tls is None:
            return fail(NoProtocol())
        self.tls.makeConnection(self.line)
        return succeed(self.tls)


class TlsClientTests(SynchronousTestCase):
    world = World()

    def setUp(self) -> None:
        self.refused: list[SvcError] = []
        self.meet(self.world.identity(Role.PROXY), self.world.identity(Role.USER))

    def meet(self, server: Any, client: Any, roles: Iterable[Role] = ALL) -> None:
        """Both ends, not shaken hands yet."""
        accepts = server_context(server, refused=self.refused.append)
        expects = client_context(
            self.world.verifier, client, roles=frozenset(roles), refused=self.refused.append
        )
        self.served, self.asker = Ear(), Asker()
        self.near, self.far = Line(), Line()
        factory = TlsServerFactory(
            accepts.begin, Factory.forProtocol(lambda: self.served), Clock().seconds
        )
        tls = factory.buildProtocol(cast(Any, None))
        assert tls is not None
        self.server = tls
        self.server.makeConnection(cast(Any, self.far))
        below = Below(self.near)
        connected = TlsEndpoint(expects.begin, below).connect(
            Factory.forProtocol(lambda: self.asker)
        )
        self.assertIs(self.successResultOf(connected), self.asker)
        self.client: TlsClient = below.tls

    def move(self, sizes: Iterable[int] = (1 << 20,)) -> None:
        """Carry bytes both ways, in pieces, until none moves."""
        steps = list(sizes)
        for _ in range(8):
            for line, to in ((self.near, self.server), (self.far, self.client)):
                said, turn = line.taken(), 0
                while said:
                    size = steps[turn % len(steps)]
                    to.dataReceived(said[:size])
                    said, turn = said[size:], turn + 1

    def test_keeps_its_interface(self) -> None:
        """It is an endpoint."""
        verifyObject(IStreamClientEndpoint, TlsEndpoint(cast(Any, None), cast(Any, None)))

    def test_nothing_is_heard_before(self) -> None:
        """Whoever dials speaks first, and the protocol above neither speaks nor hears yet."""
        self.assertTrue(self.near.sent)
        self.assertFalse(self.asker.is_met)
        self.move()
        self.assertTrue(self.asker.is_met)
        self.assertEqual(self.client.negotiatedProtocol, b"h2")
        self.assertIsNotNone(self.client.getPeerCertificate())

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(1, 400), min_size=1, max_size=20), st.integers(0, 40_000))
    def test_any_split(self, sizes: list[int], size: int) -> None:
        """However the bytes are split, both ends hear all of it."""
        self.setUp()
        message = bytes(range(256)) * (size // 256 + 1)
        self.asker.tls.write(message)
        self.served.tls.write(message)
        self.move(sizes)
        self.assertEqual(self.served.heard, b"from client" + message)
        self.assertEqual(self.asker.heard, b"from server" + message)

    def test_we_refuse(self) -> None:
        """A server of another role is refused in the handshake, and hears an alert only."""
        self.meet(
            self.world.identity(Role.CONNECTOR),
            self.world.identity(Role.USER),
            roles=(Role.AUTHORITY,),
        )
        self.move()
        self.assertFalse(self.asker.is_met or self.served.is_met)
        self.assertEqual(self.near.state, "closed")
        self.assertEqual(len(self.refused), 1)
        self.client.connectionLost(Failure(ConnectionDone()))
        assert self.asker.lost is not None
        self.asker.lost.trap(SSL.Error)
        self.assertEqual((self.asker.heard, self.served.heard), (b"", b""))

    def test_they_refuse(self) -> None:
        """A server that takes no certificate of ours ends it, though our handshake was done."""
        other = World("other.example.test")
        self.meet(self.world.identity(Role.PROXY), other.identity(Role.USER))
        self.move()
        self.assertEqual(self.served.heard, b"")
        self.assertIn(self.near.state, ("closed", "aborted"))

    def test_ours_is_over(self) -> None:
        """Where our own certificate is not good now, no handshake begins."""
        world = World()
        identity = world.identity(Role.USER, lifetime=60.0)
        world.clock.advance(1e6)
        context = client_context(
            self.world.verifier, identity, roles=ALL, refused=self.refused.append
        )
        asker, line = Asker(), Line()
        below = Below(line)
        TlsEndpoint(context.begin, below).connect(Factory.forProtocol(lambda: asker))
        self.assertEqual((line.state, asker.is_met, len(self.refused)), ("closed", False, 1))

    def test_cut(self) -> None:
        """An end of the stream that the server has not announced is a loss."""
        self.move()
        self.client.connectionLost(Failure(ConnectionDone()))
        assert self.asker.lost is not None
        self.asker.lost.trap(ConnectionLost)
        self.meet(self.world.identity(Role.PROXY), self.world.identity(Role.USER))
        self.move()
        self.server.loseConnection()
        self.move()
        self.client.connectionLost(Failure(ConnectionDone()))
        self.asker.lost.trap(ConnectionDone)

    def test_not_built(self) -> None:
        """A factory that makes nothing for an address has nothing connected."""
        below = Below(Line())
        factory = Factory()
        factory.buildProtocol = lambda _: None  # type: ignore
        connecting = TlsEndpoint(cast(Any, None), below).connect(cast(Any, factory))
        self.failureResultOf(connecting, NoProtocol)
        self.assertIsNone(below.tls)
