"""End-to-end TLS inside a byte stream, with half-close."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, CertificateOptions, optionsForClientTLS
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyClass

from svc.interfaces.rpc import IHalfCloseableTransport, RpcService, streaming
from svc.lanes.relay import Relay
from svc.lanes.tls import HalfCloseTLS, HalfCloseTLSEndpoint, HalfCloseTLSFactory
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.stream import StreamTransport
from tests.lanes.test_relay import Wire
from tests.rpc.certificates import TestCA
from tests.rpc.memory import Pair


@implementer(IHalfCloseableProtocol)
class Ends(Protocol):
    """Keeps what it is told."""

    transport: Any

    def __init__(self) -> None:
        self.data, self.read_ended = b"", False
        self.lost: BaseException | None = None

    def dataReceived(self, data: Any) -> None:
        self.data += data

    def readConnectionLost(self) -> None:
        self.read_ended = True

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason.value


class HalfCloseTLSTests(SynchronousTestCase):
    def setUp(self) -> None:
        ca = TestCA("cluster")
        leaf = ca.leaf("spiffe://c/connector/x").both
        self.server_options = CertificateOptions(
            privateKey=leaf.privateKey.original, certificate=leaf.original
        )
        self.client_options = optionsForClientTLS(
            "localhost", trustRoot=Certificate.loadPEM(ca.pem)
        )
        self.pair = Pair([RpcService("t.T", {"Open": streaming(self.serve)})])
        self.server = Ends()
        self.client = Ends()

    async def serve(self, call: Any) -> None:
        transport = StreamTransport(call)
        factory = HalfCloseTLSFactory(
            self.server_options,
            False,
            Factory.forProtocol(lambda: self.server),
            self.pair.clock,
        )
        transport.start(factory.buildProtocol(transport.getPeer()))
        try:
            await transport.closed
        except CancelledError:
            pass

    def connect(self, client: Any = None) -> None:
        async def opened() -> Any:
            return self.pair.channel.stream("/t.T/Open")

        endpoint = HalfCloseTLSEndpoint(
            self.client_options, StreamClientEndpoint(opened), self.pair.clock
        )
        connecting = endpoint.connect(Factory.forProtocol(lambda: client or self.client))
        self.pair.turn()
        self.assertIs(self.successResultOf(connecting), client or self.client)

    def test_interface(self) -> None:
        """The transport says that it can end its writing alone."""
        verifyClass(IHalfCloseableTransport, HalfCloseTLS)

    def test_half_close(self) -> None:
        """The client ends its writing, and the answer that follows still arrives."""
        self.connect()
        self.client.transport.write(b"question" * 10_000)
        self.client.transport.loseWriteConnection()
        self.client.transport.write(b"dropped")
        self.pair.turn()
        self.assertEqual(self.server.data, b"question" * 10_000)
        self.assertTrue(self.server.read_ended)
        self.server.transport.write(b"answer" * 50_000)
        self.pair.turn()
        self.assertEqual(self.client.data, b"answer" * 50_000)
        self.assertIsNone(self.client.lost)
        self.server.transport.loseConnection()
        self.pair.turn()
        self.assertIsInstance(self.client.lost, ConnectionDone)
        self.assertIsInstance(self.server.lost, ConnectionDone)
        self.assertEqual(self.pair.channel.open_streams, 0)

    def test_end_before_the_handshake(self) -> None:
        """What was written and ended before the handshake arrives, then the end."""

        class Hasty(Ends):
            def connectionMade(self) -> None:
                self.transport.write(b"hasty")
                self.transport.loseWriteConnection()

        self.connect(Hasty())
        self.assertEqual((self.server.data, self.server.read_ended), (b"hasty", True))

    def test_plain_close(self) -> None:
        """A full close is a full close."""
        self.connect()
        self.server.transport.write(b"bye")
        self.server.transport.loseConnection()
        self.pair.turn()
        self.assertEqual(self.client.data, b"bye")
        self.client.transport.loseConnection()
        self.pair.turn()
        self.assertIsInstance(self.client.lost, ConnectionDone)
        self.assertIsInstance(self.server.lost, ConnectionDone)

    def test_cut_is_no_end(self) -> None:
        """Whoever carries the bytes cannot fake their end."""
        self.connect()
        self.client.transport.write(b"part")
        self.pair.turn()
        self.client.transport.transport.loseConnection()
        self.pair.turn()
        self.assertEqual((self.server.data, self.server.read_ended), (b"part", False))
        self.assertIsInstance(self.server.lost, ConnectionLost)

    def test_relay_passes_half_close(self) -> None:
        """A relay between a plain transport and this TLS passes half-close both ways."""
        relay, plain = Relay(), Wire()
        self.connect(relay.right)
        relay.left.makeConnection(plain)
        relay.left.dataReceived(b"all of it")
        relay.left.readConnectionLost()
        self.pair.turn()
        self.assertEqual((self.server.data, self.server.read_ended), (b"all of it", True))
        self.server.transport.write(b"thanks")
        self.server.transport.loseWriteConnection()
        self.pair.turn()
        self.assertEqual(plain.value(), b"thanks")
        self.assertTrue(plain.disconnecting)
