"""A session's stream that moves from a joined tunnel to a lane, on memory transports."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import (
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
)
from twisted.internet.interfaces import IHalfCloseableProtocol, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.interfaces.rpc import RpcService, streaming
from svc.lanes.half import LaneHalf
from svc.lanes.join import join_streams
from svc.lanes.preface import GO, PREFACE_BYTES, Preface, Side
from svc.lanes.rendezvous import RENDEZVOUS_SECS
from svc.rpc.endpoint import StreamClientEndpoint
from svc.tunnel.moves import MovingEndpoint, move
from svc.tunnel.moving import MovingStream
from tests.rpc.memory import Pair
from tests.support.examples import examples
from tests.support.nothing import nothing


@implementer(IHalfCloseableProtocol)
class Carried(Protocol):
    """What the session carries: keeps what it hears."""

    transport: Any

    def __init__(self) -> None:
        self.heard = bytearray()
        self.heard_end = False
        self.lost: BaseException | None = None

    def dataReceived(self, data: bytes) -> None:
        assert not self.heard_end and self.lost is None
        self.heard += data

    def readConnectionLost(self) -> None:
        assert not self.heard_end
        self.heard_end = True

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        assert self.lost is None
        self.lost = reason.value


class Source:
    """A push producer that counts how often it was told to stop and to go on."""

    is_paused = False

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def stopProducing(self) -> None:
        pass


class LaneTransport:
    """A TCP connection to the splicing Proxy, in memory; full past 64 KiB."""

    FULL = 1 << 16

    def __init__(self) -> None:
        self.protocol: Any = None
        self.other: LaneTransport | None = None
        self.out: deque[bytes | None] = deque()
        self.queued = 0
        self.is_paused = False
        self.is_lost = False
        self.wrote_end = self.write_ended = self.read_ended = False
        self.producer: Any = None

    def setTcpNoDelay(self, on: bool) -> None:
        pass

    def setTcpKeepAlive(self, on: bool) -> None:
        pass

    def write(self, data: bytes) -> None:
        assert not self.wrote_end
        self.out.append(data)
        self.queued += len(data)
        if self.producer is not None and self.queued >= self.FULL:
            self.producer.pauseProducing()

    def loseWriteConnection(self) -> None:
        if not self.wrote_end:
            self.wrote_end = True
            self.out.append(None)

    def loseConnection(self) -> None:
        self.loseWriteConnection()
        self.lose(ConnectionDone())

    def abortConnection(self) -> None:
        if not self.is_lost:
            self.lose(ConnectionAborted())
            if self.other is not None:
                self.other.lose(ConnectionLost())

    def lose(self, reason: Exception) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.protocol.connectionLost(Failure(reason))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def move(self) -> None:
        """Bring one piece across, if the other end reads; our own end needs no reader."""
        other = self.other
        if other is None or not self.out:
            return
        if self.out[0] is None and not self.write_ended and not self.is_lost:
            self.write_ended = True
            self.protocol.writeConnectionLost()
        if other.is_lost or other.is_paused:
            return
        piece = self.out.popleft()
        if piece is not None:
            self.queued -= len(piece)
            if self.producer is not None and not self.queued:
                self.producer.resumeProducing()
            other.protocol.dataReceived(piece)
            return
        other.read_ended = True
        other.protocol.readConnectionLost()


class Session:
    """Two persons' ends of one joined session, and the lane they may take."""

    def __init__(self, after: int | None = None) -> None:
        self.asked: list[MovingStream] = []
        methods = {"Left": streaming(self.left), "Right": streaming(self.right)}
        self.pair = Pair([RpcService("t.T", methods)])
        self.streams = [self.connect("Left", after), self.connect("Right", None)]
        self.ends: list[Carried] = [stream.inner for stream in self.streams]
        self.lanes: list[LaneTransport] = []

    async def left(self, call: Any) -> None:
        self.first, self.over = call, Deferred[None]()
        await self.over

    async def right(self, call: Any) -> None:
        try:
            await join_streams(self.first, call, counted=nothing)
        except Exception as broken:
            self.over.errback(broken)
            raise
        self.over.callback(None)

    def connect(self, method: str, after: int | None) -> MovingStream:
        async def opened() -> Any:
            return self.pair.channel.stream(f"/t.T/{method}")

        endpoint = MovingEndpoint(
            below=StreamClientEndpoint(opened),
            clock=self.pair.clock,
            after=after,
            ask=self.asked.append,
        )
        endpoint.connect(Factory.forProtocol(Carried)).addErrback(lambda _: None)
        self.pair.turn()
        assert endpoint.stream is not None
        return endpoint.stream

    def make_lane(self) -> list[LaneHalf]:
        """Two halves that have met; neither end has been told yet."""
        self.lanes = [LaneTransport(), LaneTransport()]
        halves = []
        for side, transport in zip(Side, self.lanes, strict=True):
            half = LaneHalf(Preface(side, bytes(32)))
            half.joined.addErrback(lambda _: None)
            transport.protocol = half
            half.makeConnection(transport)
            assert transport.out.popleft() == Preface(side, bytes(32)).encode()
            transport.queued -= PREFACE_BYTES
            halves.append(half)
        for transport in self.lanes:
            transport.protocol.dataReceived(GO)
        one, two = self.lanes
        one.other, two.other = two, one
        return halves

    def turn(self, times: int = 20) -> None:
        for _ in range(times):
            self.pair.turn(1)
            for lane in self.lanes:
                lane.move()


@implementer(IStreamClientEndpoint)
class Dials:
    """An endpoint whose dials end as a test says."""

    def __init__(self, *ends: Deferred[Any]) -> None:
        self._ends = deque(ends)

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        return self._ends.popleft()


class MovingTests(SynchronousTestCase):
    def test_no_lane_in_words(self) -> None:
        """A session whose lane cannot be dialed stays; the log says why in words."""
        session = Session()
        clock, preface = session.pair.clock, Preface(Side.PERSON, bytes(32))
        endpoint = Dials(fail(ConnectionRefusedError()), Deferred())
        with capturedLogs() as logs:
            for _ in range(2):
                moving = Deferred.fromCoroutine(move(session.streams[0], endpoint, preface, clock))
                clock.advance(RENDEZVOUS_SECS)
                self.assertIsNone(self.successResultOf(moving))
        self.assertEqual(
            [event["error"] for event in logs if "error" in event],
            ["connection refused", "timed out"],
        )

    def moved(self, after: int | None = None) -> Session:
        """A session both of whose ends have moved."""
        session = Session(after)
        for stream, half in zip(session.streams, session.make_lane(), strict=True):
            stream.move_to(half)
        session.turn()
        return session

    def test_it_asks_once_it_has_carried_enough(self) -> None:
        """A session asks for a lane with the byte that makes it worth it, once."""
        session = Session(after=10)
        session.ends[0].transport.write(b"12345")
        session.turn()
        self.assertEqual(session.asked, [])
        session.ends[1].transport.write(b"67890")
        session.turn()
        self.assertEqual(session.asked, [session.streams[0]])
        session.ends[0].transport.write(b"more")
        session.turn()
        self.assertEqual(len(session.asked), 1)

    def test_it_asks_after_many_messages(self) -> None:
        """Likewise with the message that makes it worth it; twenty round trips do not."""
        session = Session(after=1 << 20)
        one, two = session.ends
        for trip in range(1, 33):
            one.transport.write(b"?")
            session.turn()
            two.transport.write(b"!")
            session.turn()
            if trip <= 20:
                self.assertEqual(session.asked, [])
        self.assertEqual(session.asked, [session.streams[0]])

    def test_both_directions_move(self) -> None:
        """What is written after a move takes the lane, behind all that took the tunnel."""
        session = Session()
        one, two = session.ends
        one.transport.write(b"a" * 300_000)
        two.transport.write(b"b" * 300_000)
        for stream, half in zip(session.streams, session.make_lane(), strict=True):
            stream.move_to(half)
        one.transport.write(b"c" * 1000)
        two.transport.write(b"d" * 1000)
        session.turn(100)
        self.assertEqual(two.heard, b"a" * 300_000 + b"c" * 1000)
        self.assertEqual(one.heard, b"b" * 300_000 + b"d" * 1000)

    def test_both_close(self) -> None:
        """Once both ends have said their end, the lane closes, then the call, in order."""
        session = self.moved()
        one, two = session.ends
        one.transport.write(b"last words")
        one.transport.loseConnection()
        session.turn()
        self.assertEqual((bytes(two.heard), two.heard_end), (b"last words", True))
        self.assertIsNone(one.lost)
        two.transport.write(b"dropped, as it was closed there")
        two.transport.loseConnection()
        session.turn(60)
        self.assertIsInstance(one.lost, ConnectionDone)
        self.assertIsInstance(two.lost, ConnectionDone)
        self.assertEqual(bytes(one.heard), b"")
        self.assertEqual(session.pair.channel.open_streams, 0)
        self.assertEqual([lane.is_lost for lane in session.lanes], [True, True])
        self.assertEqual(session.pair.clock.calls, [])

    def test_an_end_said_before_the_move(self) -> None:
        """A half-close in the tunnel stands; the other direction still moves."""
        session = Session()
        one, two = session.ends
        one.transport.write(b"question")
        one.transport.loseWriteConnection()
        session.turn()
        for stream, half in zip(session.streams, session.make_lane(), strict=True):
            stream.move_to(half)
        session.turn()
        two.transport.write(b"answer")
        session.turn()
        self.assertEqual((bytes(two.heard), two.heard_end), (b"question", True))
        self.assertEqual(bytes(one.heard), b"answer")
        two.transport.loseConnection()
        session.turn(60)
        self.assertTrue(one.heard_end)
        self.assertIsInstance(one.lost, ConnectionDone)
        self.assertIsInstance(two.lost, ConnectionDone)

    def test_the_lane_breaks(self) -> None:
        """A lane that breaks breaks the session at both ends, and the call."""
        for breaking in (0, 1):
            session = self.moved()
            session.ends[0].transport.write(b"x" * 1000)
            session.lanes[breaking].abortConnection()
            session.turn(60)
            session.pair.clock.advance(10)
            session.turn(60)
            for end in session.ends:
                self.assertNotIsInstance(end.lost, (ConnectionDone, type(None)))
            self.assertEqual(session.pair.channel.open_streams, 0)

    def test_the_call_breaks(self) -> None:
        """A call that is broken, by a policy or a Proxy that is gone, breaks the lane at once."""
        session = self.moved()
        session.over.errback(Exception("the grant has ended"))
        session.pair.client_side.abortConnection()
        session.pair.server_side.abortConnection()
        session.turn(60)
        for end in session.ends:
            self.assertNotIsInstance(end.lost, (ConnectionDone, type(None)))
        self.assertEqual([lane.is_lost for lane in session.lanes], [True, True])
        self.flushLoggedErrors()

    def test_an_abort(self) -> None:
        """An abort at one end is a break at the other, whatever the lane holds."""
        session = self.moved()
        one, two = session.ends
        one.transport.write(b"x" * 1000)
        one.transport.abortConnection()
        session.turn(60)
        self.assertNotIsInstance(one.lost, (ConnectionDone, type(None)))
        self.assertNotIsInstance(two.lost, (ConnectionDone, type(None)))

    def test_a_writer_is_paced_wherever_it_is(self) -> None:
        """A producer that the tunnel had paused goes on in the lane, and is paused by it."""
        session = Session()
        one, two = session.ends
        two.transport.pauseProducing()
        source = Source()
        one.transport.registerProducer(source, True)
        while not source.is_paused:
            one.transport.write(b"t" * 65536)
            session.turn(2)
        for stream, half in zip(session.streams, session.make_lane(), strict=True):
            stream.move_to(half)
        self.assertFalse(source.is_paused)
        one.transport.write(b"l" * LaneTransport.FULL)
        self.assertTrue(source.is_paused)
        session.turn()
        self.assertTrue(source.is_paused)
        two.transport.resumeProducing()
        session.turn(200)
        self.assertFalse(source.is_paused)
        self.assertEqual(two.heard.lstrip(b"t"), b"l" * LaneTransport.FULL)
        one.transport.unregisterProducer()

    def test_a_lane_that_speaks_before_its_turn(self) -> None:
        """Bytes in a lane whose writer has not said that it moved break the session."""
        session = Session()
        one, _ = session.make_lane()
        session.streams[0].move_to(one)
        session.lanes[1].write(b"forged")
        session.streams[0].readConnectionLost()
        session.turn(60)
        self.assertNotIsInstance(session.ends[0].lost, (ConnectionDone, type(None)))

    def test_a_move_to_nowhere(self) -> None:
        """A peer that says it moved where there is no lane breaks the session."""
        session = Session()
        session.streams[1].transport.say_moved()
        session.turn(60)
        self.assertIsNone(session.ends[0].lost)
        session.pair.clock.advance(RENDEZVOUS_SECS)
        session.turn(60)
        self.assertNotIsInstance(session.ends[0].lost, (ConnectionDone, type(None)))

    def test_a_move_told_before_the_lane_is_there(self) -> None:
        """The other end's word may come through the tunnel before the Proxy's in the lane."""
        session = Session()
        one, two = session.make_lane()
        session.streams[0].move_to(one)
        session.ends[0].transport.write(b"ahead")
        session.turn()
        self.assertEqual(bytes(session.ends[1].heard), b"")
        session.streams[1].move_to(two)
        session.turn()
        self.assertEqual(bytes(session.ends[1].heard), b"ahead")
        session.pair.clock.advance(RENDEZVOUS_SECS)
        session.turn()
        self.assertEqual([end.lost for end in session.ends], [None, None])

    def test_a_lane_that_comes_too_late(self) -> None:
        """A lane for a session that is over, or has one, is closed and changes nothing."""
        session = self.moved()
        [extra, _] = session.make_lane()
        session.streams[0].move_to(extra)
        self.assertTrue(extra.transport.is_lost)
        self.assertIsNone(session.ends[0].lost)

    def test_a_close_waits_for_a_slow_reader(self) -> None:
        """What was said before a close is read at the other end's own pace, as in the tunnel."""
        session = self.moved()
        one, two = session.ends
        two.transport.loseWriteConnection()
        session.turn()
        one.transport.write(b"to be read later")
        two.transport.pauseProducing()
        one.transport.loseConnection()
        session.turn()
        session.pair.clock.advance(25)
        session.turn()
        self.assertEqual([one.lost, two.lost], [None, None])
        two.transport.resumeProducing()
        session.turn(60)
        self.assertEqual(bytes(two.heard), b"to be read later")
        two.transport.loseConnection()
        session.turn(60)
        self.assertIsInstance(one.lost, ConnectionDone)
        self.assertIsInstance(two.lost, ConnectionDone)

    def test_a_lane_that_comes_while_it_closes(self) -> None:
        """The other end, which has moved, is heard out by an end that is closing already."""
        session = Session()
        one, two = session.ends
        halves = session.make_lane()
        one.transport.loseConnection()
        session.streams[1].move_to(halves[1])
        two.transport.write(b"dropped")
        session.streams[0].move_to(halves[0])
        session.turn(60)
        self.assertTrue(two.heard_end)
        two.transport.loseConnection()
        session.turn(60)
        self.assertIsInstance(one.lost, ConnectionDone)
        self.assertIsInstance(two.lost, ConnectionDone)
        self.assertEqual(bytes(one.heard), b"")

    def test_what_never_left_is_no_end(self) -> None:
        """A lane that is lost with our last words still in it is a break here too."""
        session = self.moved()
        one, two = session.ends
        two.transport.loseWriteConnection()
        session.turn()
        self.assertTrue(one.heard_end)
        session.lanes[1].pauseProducing()
        one.transport.write(b"never leaves")
        one.transport.loseConnection()
        session.lanes[0].lose(ConnectionLost())
        session.turn(60)
        session.pair.clock.advance(10)
        session.turn(60)
        self.assertNotIsInstance(one.lost, (ConnectionDone, type(None)))

    def test_a_second_move(self) -> None:
        """A peer that says twice that it moved breaks the session."""
        session = self.moved()
        session.streams[0].transport.say_moved()
        session.turn(60)
        self.assertNotIsInstance(session.ends[1].lost, (ConnectionDone, type(None)))

    def test_a_paused_reader_in_the_lane(self) -> None:
        """An end that was paused in the tunnel is paused in the lane, whenever the move is told."""
        session = Session()
        one, two = session.ends
        first, second = session.make_lane()
        session.streams[1].move_to(second)
        two.transport.pauseProducing()
        session.streams[0].move_to(first)
        one.transport.write(b"not yet")
        session.turn()
        two.transport.resumeProducing()
        two.transport.pauseProducing()
        session.turn()
        heard = bytes(two.heard)
        two.transport.resumeProducing()
        session.turn()
        self.assertEqual((heard, bytes(two.heard)), (b"", b"not yet"))

    @settings(deadline=None, max_examples=examples(60))
    @given(st.data())
    def test_any_order(self, choose: Any) -> None:
        """Whatever is written, read and moved when: each byte arrives once and in order."""
        session = Session()
        halves = session.make_lane()
        to_move = {0, 1}
        sent: list[bytearray] = [bytearray(), bytearray()]
        for _ in range(choose.draw(st.integers(1, 25))):
            end = choose.draw(st.integers(0, 1))
            transport = session.ends[end].transport
            act = choose.draw(st.sampled_from(("write", "move", "pause", "resume", "turn")))
            if act == "write":
                size = choose.draw(st.sampled_from((1, 10, 5_000, 200_000)))
                piece = bytes((len(sent[end]) % 251,)) * size
                sent[end] += piece
                transport.write(piece)
            elif act == "move" and end in to_move:
                to_move.discard(end)
                session.streams[end].move_to(halves[end])
            elif act == "pause":
                transport.pauseProducing()
            elif act == "resume":
                transport.resumeProducing()
            else:
                session.turn(choose.draw(st.integers(1, 4)))
        if len(to_move) == 1:
            # The Proxy joins both or none.
            [end] = to_move
            session.streams[end].move_to(halves[end])
        for end in (0, 1):
            session.ends[end].transport.resumeProducing()
            session.ends[end].transport.loseWriteConnection()
        session.turn(300)
        for end in (0, 1):
            self.assertEqual(session.ends[end].heard, sent[1 - end])
            self.assertTrue(session.ends[end].heard_end)
            session.ends[end].transport.loseConnection()
        session.turn(60)
        for end in (0, 1):
            self.assertIsInstance(session.ends[end].lost, ConnectionDone)
        self.assertEqual(session.pair.channel.open_streams, 0)
