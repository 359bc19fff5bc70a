"""Byte streams over calls: transports, half-close, pace, TLS inside."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.rpc import RpcService, streaming
from svc.lanes.join import join_streams
from svc.proto.gate.v1.stream_pb2 import StreamFrame
from svc.rpc.endpoint import StreamClientEndpoint
from svc.rpc.frames import EOF, FrameKind, data_head, open_frame, parse_frame
from svc.rpc.stream import StreamTransport
from tests.rpc.memory import Pair
from tests.support.nothing import nothing


class Recorder(Protocol):
    """Keeps what it is told."""

    transport: Any

    def __init__(self) -> None:
        self.data = b""
        self.lost: BaseException | None = None

    def dataReceived(self, data: Any) -> None:
        self.data += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason.value


@implementer(IHalfCloseableProtocol)
class HalfRecorder(Recorder):
    """As above, and goes on writing after its peer has ended."""

    read_ended = False

    def readConnectionLost(self) -> None:
        self.read_ended = True

    def writeConnectionLost(self) -> None:
        pass


class FrameTests(SynchronousTestCase):
    @settings(deadline=None)
    @given(st.binary(max_size=300))
    def test_data_as_generated(self, payload: Any) -> None:
        """Our data and open frames are those of the generated module."""
        self.assertEqual(
            data_head(len(payload)) + payload, StreamFrame(data=payload).SerializeToString()
        )
        self.assertEqual(open_frame(payload), StreamFrame(open=payload).SerializeToString())
        self.assertEqual(EOF, StreamFrame(eof=True).SerializeToString())
        kind, parsed = parse_frame(data_head(len(payload)) + payload)
        self.assertEqual((kind, bytes(parsed)), (FrameKind.DATA, payload))

    @settings(deadline=None)
    @given(st.binary(max_size=60))
    def test_any_bytes(self, message: Any) -> None:
        """Any message is what the generated module says it is, or Malformed."""
        try:
            kind, payload = parse_frame(message)
        except Malformed:
            return
        frame = StreamFrame.FromString(message)
        if kind is FrameKind.DATA:
            self.assertEqual(frame.data, bytes(payload))
        if kind is FrameKind.OPEN:
            self.assertEqual(frame.open, bytes(payload))


class StreamTests(SynchronousTestCase):
    hops = 1
    server_protocol = HalfRecorder
    client_protocol = HalfRecorder

    def setUp(self) -> None:
        self.served: list[HalfRecorder] = []
        self.ends: list[object] = []
        self.pair = Pair([RpcService("t.T", {"Open": streaming(self.serve)})])

    async def serve(self, call: Any) -> None:
        transport = StreamTransport(call)
        protocol = self.server_protocol()
        self.served.append(protocol)
        transport.start(protocol)
        try:
            await transport.closed
        except CancelledError:
            self.ends.append("cancelled")
            raise
        except SvcError as refusal:
            self.ends.append(refusal.reason)
            raise
        self.ends.append("ok")

    def connect(self, protocol: Any = None) -> Any:
        protocol = protocol or self.client_protocol()

        async def opened() -> Any:
            return self.pair.channel.stream("/t.T/Open")

        endpoint = StreamClientEndpoint(opened)
        connecting = endpoint.connect(Factory.forProtocol(lambda: protocol))
        self.pair.turn()
        self.assertIs(self.successResultOf(connecting), protocol)
        return protocol, self.served[-1]

    def test_bytes_both_ways(self) -> None:
        """What is written arrives whole and in order, whatever the size of writes."""
        client, server = self.connect()
        client.transport.write(b"a" * 10)
        client.transport.writeSequence([b"b" * 20, b"c" * 700_000])
        server.transport.write(b"d" * 300_000)
        self.pair.turn(100)
        self.assertEqual(server.data, b"a" * 10 + b"b" * 20 + b"c" * 700_000)
        self.assertEqual(client.data, b"d" * 300_000)

    def test_one_turn(self) -> None:
        """What a protocol writes goes out in the next turn, which leaves nothing for another."""
        client, server = self.connect()
        before = len(self.pair.clock.getDelayedCalls())
        client.transport.write(b"question")
        self.assertEqual(len(self.pair.clock.getDelayedCalls()), before + 1)
        self.pair.clock.advance(0)
        self.assertEqual(len(self.pair.clock.getDelayedCalls()), before)
        self.pair.turn()
        self.assertEqual(server.data, b"question")

    def test_half_close(self) -> None:
        """Either side may end its writing and still read to the other's end."""
        client, server = self.connect()
        client.transport.write(b"question")
        client.transport.loseWriteConnection()
        self.pair.turn()
        self.assertEqual((server.data, server.read_ended), (b"question", True))
        server.transport.write(b"answer")
        self.pair.turn()
        self.assertEqual((client.data, client.lost), (b"answer", None))
        server.transport.loseConnection()
        self.pair.turn()
        self.assertIsInstance(client.lost, ConnectionDone)
        self.assertIsInstance(server.lost, ConnectionDone)
        self.assertEqual(self.ends, ["ok"])
        self.assertEqual(self.pair.channel.open_streams, 0)

    def test_server_half_closes_first(self) -> None:
        """A server's end of writing does not stop what the client still writes."""
        client, server = self.connect()
        server.transport.loseWriteConnection()
        self.pair.turn()
        self.assertTrue(client.read_ended)
        client.transport.write(b"more")
        client.transport.loseWriteConnection()
        self.pair.turn()
        self.assertEqual(server.data, b"more")
        self.assertIsInstance(client.lost, ConnectionDone)
        self.assertEqual(self.ends, ["ok"])

    def test_client_closes(self) -> None:
        """A client's close reaches the server after all its bytes."""
        client, server = self.connect()
        client.transport.write(b"x" * 500_000)
        client.transport.loseConnection()
        self.pair.turn(100)
        self.assertEqual(len(server.data), 500_000)
        self.assertIsInstance(server.lost, ConnectionDone)
        self.assertIsInstance(client.lost, ConnectionDone)

    def test_client_aborts(self) -> None:
        """A client's abort is an abort at the server."""
        client, server = self.connect()
        client.transport.abortConnection()
        self.pair.turn()
        self.assertIsInstance(client.lost, ConnectionAborted)
        self.assertIsInstance(server.lost, ConnectionLost)
        self.assertEqual(self.ends, ["cancelled"])

    def test_server_aborts(self) -> None:
        """A server's abort is an abort at the client."""
        client, server = self.connect()
        server.transport.abortConnection()
        self.pair.turn()
        self.assertIsInstance(client.lost, ConnectionLost)
        self.assertIsInstance(server.lost, ConnectionAborted)

    def test_a_paused_reader_hears_of_a_break(self) -> None:
        """An abort reaches a client that reads nothing, and what it had not read is dropped."""
        client, server = self.connect()
        client.transport.pauseProducing()
        server.transport.write(b"z" * 2_000_000)
        self.pair.turn(100)
        server.transport.abortConnection()
        self.pair.turn()
        self.assertIsInstance(client.lost, ConnectionLost)
        self.assertEqual(client.data, b"")

    def test_a_paused_reader_keeps_an_orderly_end(self) -> None:
        """A close waits for a client that reads nothing, behind all its bytes."""
        client, server = self.connect()
        client.transport.pauseProducing()
        server.transport.write(b"z" * 100_000)
        server.transport.loseConnection()
        self.pair.turn(100)
        self.assertIsNone(client.lost)
        client.transport.resumeProducing()
        self.pair.turn(100)
        self.assertEqual(len(client.data), 100_000)
        self.assertIsInstance(client.lost, ConnectionDone)

    def test_lost_connection(self) -> None:
        """When the connection goes, both protocols are told of an abort."""
        client, server = self.connect()
        self.pair.client_side.abortConnection()
        self.pair.server_side.abortConnection()
        self.pair.turn()
        self.assertIsInstance(client.lost, ConnectionLost)
        self.assertIsInstance(server.lost, ConnectionLost)

    def test_plain_protocol_closes_on_the_end(self) -> None:
        """A protocol that knows no half-close is closed by its peer's end of writing."""
        client, server = self.connect(Recorder())
        server.transport.loseWriteConnection()
        self.pair.turn()
        self.assertIsInstance(client.lost, ConnectionDone)

    def test_reader_that_pauses(self) -> None:
        """A paused reader pauses the writer's producer; bytes on the way are bounded."""
        client, server = self.connect()
        server.transport.pauseProducing()
        producer = Producer(client.transport, 40 << 20)
        client.transport.registerProducer(producer, True)
        self.pair.turn(200)
        self.assertTrue(producer.is_paused)
        self.assertLess(producer.written, self.hops << 20)
        self.assertEqual(server.data, b"")
        other, across = self.connect()
        other.transport.write(b"goes on")
        self.pair.turn()
        self.assertEqual(across.data, b"goes on")
        producer.left = 3 << 20
        server.transport.resumeProducing()
        self.pair.turn(400)
        self.assertEqual(len(server.data), producer.written)
        self.assertEqual(producer.left, 0)

    def test_pull_producer(self) -> None:
        """A pull producer is asked as long as there is room."""
        client, server = self.connect()
        producer = PullProducer(client.transport, 20)
        client.transport.registerProducer(producer, False)
        client.transport.loseConnection()
        self.pair.turn(200)
        self.assertEqual(len(server.data), 20 * 50_000)
        self.assertIsInstance(client.lost, ConnectionDone)


class Producer:
    """Writes while it may."""

    def __init__(self, transport: Any, left: Any) -> None:
        self.transport, self.left, self.written, self.is_paused = transport, left, 0, True
        self.resumeProducing()

    def resumeProducing(self) -> None:
        self.is_paused = False
        while self.left and not self.is_paused:
            size = min(self.left, 65536)
            self.left -= size
            self.written += size
            self.transport.write(b"p" * size)
            if self.written % (1 << 18) == 0 and self.transport._producer is None:
                break

    def pauseProducing(self) -> None:
        self.is_paused = True

    def stopProducing(self) -> None:
        self.is_paused, self.left = True, 0


class PullProducer:
    """Writes one piece whenever asked."""

    def __init__(self, transport: Any, count: Any) -> None:
        self.transport, self.count = transport, count

    def resumeProducing(self) -> None:
        if self.count:
            self.count -= 1
            self.transport.write(b"q" * 50_000)
        else:
            self.transport.unregisterProducer()

    def stopProducing(self) -> None:
        self.count = 0


class JoinedTests(StreamTests):
    """Everything above, with a relay that joins a served call to a call it makes."""

    hops = 2

    def setUp(self) -> None:
        super().setUp()
        self.back = self.pair
        self.pair = JoinedPair(self.back, self.join)
        self.joined: list[object] = []

    async def join(self, call: Any) -> None:
        stream = self.back.channel.stream("/t.T/Open")
        self.joined.append(await join_streams(call, stream, counted=nothing))


class JoinedPair(Pair):
    """The front connection; a turn moves both."""

    def __init__(self, back: Any, join: Any) -> None:
        self.back = back
        super().__init__([RpcService("t.T", {"Open": streaming(join)})])

    def turn(self, times: Any = 30) -> None:
        for _ in range(times):
            super().turn(1)
            self.back.turn(1)


class JoinTests(SynchronousTestCase):
    """Two served calls joined, as a session's two halves at the Proxy."""

    def setUp(self) -> None:
        self.waiting: Deferred[None] | None = None
        self.results: list[Any] = []
        self.pair = Pair(
            [RpcService("t.T", {"Left": streaming(self.left), "Right": streaming(self.right)})]
        )

    async def left(self, call: Any) -> None:
        self.first = call
        self.over: Deferred[None] = Deferred()
        await self.over

    async def right(self, call: Any) -> None:
        try:
            self.results.append(await join_streams(call, self.first, counted=nothing))
        finally:
            self.over.callback(None)

    def both(self) -> Any:
        left = self.pair.channel.stream("/t.T/Left")
        self.pair.turn()
        right = self.pair.channel.stream("/t.T/Right")
        self.pair.turn()
        return left, right

    def test_messages_pass(self) -> None:
        """Messages of any size pass both ways, and one caller's end is both calls' end."""
        left, right = self.both()
        sending = Deferred.fromCoroutine(left.send(b"x" * 2_000_000))
        [message] = self.pair.settle(right.receive(), 200)
        self.assertEqual(len(message), 2_000_000)
        self.successResultOf(sending)
        right_sent = Deferred.fromCoroutine(right.send(b"back"))
        self.assertEqual(self.pair.settle(left.receive()), [b"back"])
        self.successResultOf(right_sent)
        left.end()
        self.assertEqual(self.pair.settle(right.receive()), [None])
        self.assertEqual(self.pair.settle(left.receive()), [None])
        self.assertEqual(self.results[0].from_second, 2_000_005)
        self.assertEqual(self.pair.channel.open_streams, 0)

    def test_caller_resets(self) -> None:
        """A caller that resets breaks the other call."""
        left, right = self.both()
        received = self.pair.settle(right.receive())
        left.cancel()
        self.pair.turn()
        self.assertEqual(received[0].value.fault.value, "cancelled")

    def test_broken_beside_a_reader_that_stopped(self) -> None:
        """A break passes what is queued for a caller that does not read: nothing of it stays."""
        left, right = self.both()
        sending = [left.send(b"x" * 3_000_000), right.send(b"y" * 3_000_000)]
        sent = [Deferred.fromCoroutine(each).addErrback(lambda _: None) for each in sending]
        self.pair.turn(200)
        queued = [stream.queued for stream in self.pair.server.wire.streams.values()]
        self.assertTrue(all(queued), queued)
        left.cancel()
        self.pair.turn()
        self.assertEqual(self.pair.server.wire.streams, {})
        self.assertEqual(self.pair.channel.open_streams, 0)
        self.assertEqual([self.successResultOf(each) for each in sent], [None, None])
        [broken] = self.pair.settle(right.receive())
        self.assertEqual(broken.value.fault.value, "cancelled")
