"""A full read is worked off in turns: in order, to its end, with nothing read meanwhile."""

from __future__ import annotations

from typing import cast

from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, PingFrame, SettingsFrame
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.interfaces.rpc import IRpcCall, RpcService
from svc.rpc.call import MessageEnd
from svc.rpc.server.server import RpcServerFactory
from svc.rpc.stream import StreamTransport
from svc.wire.framing import prefix
from svc.wire.limits import WireLimits
from tests.rpc.memory import Pair
from tests.support.nothing import nothing

COUNT = 200
_HEAD = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a.B/C"),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


class Steps(Clock):
    """One turn at a time: what a call schedules for now comes in the next, as with a reactor."""

    def step(self) -> None:
        for call in [each for each in self.calls if each.getTime() <= self.seconds()]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class TurnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.heard: list[bytes] = []

        async def serve(call: IRpcCall) -> None:
            while (message := await call.receive()) is not None:
                self.heard.append(message)

        self.clock = Steps()
        limits = WireLimits(turn_work=20)
        factory = RpcServerFactory(
            [RpcService("a.B", {"C": serve})],
            self.clock,
            admit=nothing,
            limits=limits,
            plaintext=True,
        )
        server = factory.buildProtocol(None)
        assert server is not None
        self.server = server
        self.transport = StringTransport()
        self.server.makeConnection(self.transport)
        self.sent = [b"%d" % number for number in range(COUNT)]
        frames = [SettingsFrame(0), HeadersFrame(1, Encoder().encode(_HEAD), flags=["END_HEADERS"])]
        frames += [DataFrame(1, prefix(len(each)) + each) for each in self.sent]
        frames.append(DataFrame(1, b"", flags=["END_STREAM"]))
        self.data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(
            frame.serialize() for frame in frames
        )

    def test_in_turns(self) -> None:
        """Nothing more is read until all of it has been worked off, a little at a time."""
        self.server.dataReceived(self.data)
        self.assertLess(len(self.heard), 20)
        self.assertEqual(self.transport.producerState, "paused")
        turns = 0
        while self.transport.producerState == "paused":
            before = len(self.heard)
            self.clock.step()
            self.assertLessEqual(len(self.heard) - before, 20)
            turns += 1
        self.assertGreater(turns, COUNT // 20 - 1)
        self.assertEqual(self.heard, self.sent)

    def test_what_tls_had_already(self) -> None:
        """Bytes that come although we asked for none keep their place."""
        half = len(self.data) // 2
        self.server.dataReceived(self.data[:half])
        self.server.dataReceived(self.data[half:])
        self.assertLess(len(self.heard), 20)
        for _ in range(COUNT):
            self.clock.step()
        self.assertEqual(self.heard, self.sent)

    def test_lost_meanwhile(self) -> None:
        """What a peer said before it went is heard."""
        self.server.dataReceived(self.data)
        self.server.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.heard, self.sent)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_ended_meanwhile(self) -> None:
        """A connection that is ended reads again, or its peer's goodbye would not be heard."""
        self.server.dataReceived(self.data)
        self.server.close("drained")
        self.assertEqual(self.transport.producerState, "producing")
        heard = len(self.heard)
        self.server.dataReceived(PingFrame(0, b"12345678").serialize())
        self.clock.step()
        self.assertEqual(len(self.heard), heard)


class WritingTests(SynchronousTestCase):
    """What is written between two reads costs one turn of the reactor."""

    def setUp(self) -> None:
        self.calls: list[IRpcCall] = []

        async def serve(call: IRpcCall) -> None:
            self.calls.append(call)
            await Deferred()

        self.clock = Steps()
        factory = RpcServerFactory(
            [RpcService("a.B", {"C": serve})],
            self.clock,
            admit=nothing,
            limits=WireLimits(),
            plaintext=True,
        )
        server = factory.buildProtocol(None)
        assert server is not None
        self.server = server
        self.transport = StringTransport()
        self.server.makeConnection(self.transport)
        frames = [SettingsFrame(0), HeadersFrame(1, Encoder().encode(_HEAD), flags=["END_HEADERS"])]
        self.server.dataReceived(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(each.serialize() for each in frames)
        )
        self.stream = StreamTransport(cast(MessageEnd, self.calls[0]))
        self.stream.start(Protocol())
        while self._is_due():
            self.clock.step()
        self.transport.clear()

    def _is_due(self) -> bool:
        return any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls())

    def test_one_turn(self) -> None:
        """All that one turn wrote to a stream goes out in the next, which leaves none to come."""
        self.stream.write(b"a" * 100)
        self.stream.write(b"b" * 100)
        self.clock.step()
        self.assertEqual(self.transport.value().count(b"a" * 100 + b"b" * 100), 1)
        self.assertFalse(self._is_due())

    def test_asked_meanwhile(self) -> None:
        """What asks to run before the next writing while one is prepared is not forgotten."""
        self.server.before_writing(
            lambda: self.server.before_writing(lambda: self.stream.write(b"later"))
        )
        for _ in range(3):
            self.clock.step()
        self.assertIn(b"later", self.transport.value())

    def test_one_that_fails(self) -> None:
        """A function that fails before the writing holds back nothing of the others."""

        def fail() -> None:
            raise RuntimeError("a fault of the caller")

        self.stream.write(b"of another")
        self.server.before_writing(fail)
        self.assertRaises(RuntimeError, self.clock.step)
        self.clock.step()
        self.assertIn(b"of another", self.transport.value())


class FaultTests(SynchronousTestCase):
    """A fault in what is told of one call."""

    def test_others_are_written(self) -> None:
        """What others have to say is written all the same, once each has its turn."""
        heard: list[int] = []

        async def serve(call: IRpcCall) -> None:
            heard.append(len(await call.receive() or b""))

        pair = Pair([RpcService("a.B", {"C": serve})])
        first, second = (pair.channel.stream("/a.B/C") for _ in range(2))
        pair.turn()

        def failing(_size: int) -> None:
            first._stream.on_sent = None
            raise ValueError("a fault of this test")

        first._stream.on_sent = failing
        for each in (first, second):
            each.write([b"x" * 200_000], 200_000)
        with self.assertRaises(ValueError):
            pair.turn()
        pair.turn()
        self.assertIn(200_000, heard)
