"""A word with the target before a session: it opens by the expected answer and by nothing else."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.testing import AccumulatingProtocol, MemoryReactor, StringTransport
from twisted.protocols.policies import WrappingFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.kinds.prelude import PreludeEndpoint


@implementer(IStreamClientEndpoint)
@frozen
class Wrapping:
    """Wraps what connects, as ``wrapClientTLS`` does."""

    below: TCP4ClientEndpoint

    def connect(self, factory: Any) -> Any:
        """See IStreamClientEndpoint."""
        return self.below.connect(WrappingFactory(factory))


class PreludeTests(SynchronousTestCase):
    """Over the reactor's own TCP endpoint, as dialers have it."""

    def setUp(self) -> None:
        self.reactor: Any = MemoryReactor()
        self.begin(TCP4ClientEndpoint(self.reactor, "192.0.2.1", 7))

    def begin(self, below: Any) -> None:
        endpoint = PreludeEndpoint(
            below=below,
            line=b"SELECT 2\r\n",
            answer=b"+OK\r\n",
            what="the database",
        )
        factory: Any = Factory()
        factory.protocol, factory.protocolConnectionMade = AccumulatingProtocol, None
        self.connecting = endpoint.connect(factory)
        transport: Any = StringTransport()
        self.transport = transport
        self.transport.protocol = self.reactor.tcpClients[-1][2].buildProtocol(None)
        self.transport.protocol.makeConnection(self.transport)

    def hear(self, data: bytes) -> None:
        """As the reactor brings it: to whatever the transport's protocol is then."""
        self.transport.protocol.dataReceived(data)

    def test_expected(self) -> None:
        """The session begins behind the answer, with the bytes that came after it."""
        self.assertEqual(self.transport.value(), b"SELECT 2\r\n")
        self.hear(b"+O")
        self.assertNoResult(self.connecting)
        self.hear(b"K\r\nfirst")
        protocol: Any = self.successResultOf(self.connecting)
        self.hear(b", second")
        self.assertEqual(protocol.data, b"first, second")
        self.assertIs(protocol.transport, self.transport)

    def test_over_a_wrapper(self) -> None:
        """Where TLS stands below, which wraps the protocol, the session has the bytes too."""
        below = TCP4ClientEndpoint(self.reactor, "192.0.2.1", 7)
        self.begin(Wrapping(below))
        self.hear(b"+OK\r\nfirst")
        protocol: Any = self.successResultOf(self.connecting)
        self.hear(b", second")
        self.assertEqual(protocol.data, b"first, second")
        self.transport.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertTrue(protocol.closed)

    def test_another_answer(self) -> None:
        """Any other line ends the dial; the target's words are not repeated."""
        self.hear(b"-ERR password of root is x\r\n")
        refusal = self.failureResultOf(self.connecting, SvcError).value
        self.assertEqual(refusal.text, "the target refused the database")
        self.assertTrue(self.transport.disconnected)

    def test_no_end(self) -> None:
        """A target that answers without an end of line is given up."""
        self.hear(b"x" * 4097)
        self.hear(b"x")
        self.failureResultOf(self.connecting, Malformed)
        self.assertTrue(self.transport.disconnected)

    def test_gone(self) -> None:
        """A target that closes instead of answering is not connected."""
        self.transport.protocol.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(self.connecting, ConnectionDone)

    def test_given_up(self) -> None:
        """Whoever waits no longer leaves no connection behind."""
        self.connecting.cancel()
        self.failureResultOf(self.connecting, CancelledError)
        self.assertTrue(self.transport.disconnected)
