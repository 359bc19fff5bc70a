"""Sessions in their lanes from socket to socket: the same bytes and ends as through the layers."""

from __future__ import annotations

import socket
from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.lanes.half import LaneHalf
from svc.lanes.preface import GO, PREFACE_BYTES, Preface, Side
from svc.lanes.relay import Relay, RelayEnded, RelaySide
from svc.model.principal import Role
from svc.pki.end_to_end import ConnectorEnd, PersonEnd
from svc.rpc.tls_records import RECORD_BYTES
from svc.tunnel.moving import MovingStream
from svc.tunnel.tls import SessionTls
from tests.pki.support import World as Certificates
from tests.support.examples import examples

PERSON, TARGET = 0, 1
MUCH = 1 << 22
PATTERN = bytes(range(251))
STILL = 5
CERTIFICATES = Certificates()
CONNECTOR, USER = (CERTIFICATES.identity(role) for role in (Role.CONNECTOR, Role.USER))


class Line(Connection):
    """Twisted's connection over one end of a pair, whose far end the test holds."""

    connected = 1

    def __init__(self, reactor: Any, protocol: Protocol) -> None:
        ours, self.far = socket.socketpair()
        self.far.setblocking(False)
        super().__init__(ours, protocol, reactor)

    def setTcpNoDelay(self, enabled: bool) -> None:
        """A pair of Unix sockets has no such option."""

    setTcpKeepAlive = setTcpNoDelay

    def logPrefix(self) -> str:
        return "line"


def received(far: socket.socket, most: int) -> bytes | None:
    """What has come, None at the end."""
    try:
        return far.recv(most) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


class Call:
    """The session's call through the tunnel, in memory."""

    def __init__(self) -> None:
        self.other: Call
        self.stream: MovingStream
        self.out: deque[bytes | None] = deque()
        self.is_over = False

    def write(self, data: bytes) -> None:
        self.out.append(data)

    def say_moved(self) -> None:
        self.out.append(None)

    def pump(self) -> None:
        while self.out and not self.is_over:
            said = self.out.popleft()
            if said is None:
                self.other.stream.peer_moved()
            else:
                self.other.stream.dataReceived(said)

    def end(self, reason: Exception) -> None:
        for call in (self, self.other):
            if not call.is_over:
                call.is_over = True
                call.stream.connectionLost(Failure(reason))

    def loseConnection(self) -> None:
        self.end(ConnectionDone())

    def abortConnection(self) -> None:
        self.end(ConnectionLost())

    def loseWriteConnection(self) -> None:
        raise AssertionError("all that is said is said in the lane")

    def nothing(self, *_: Any) -> None:
        pass

    registerProducer = unregisterProducer = pauseProducing = resumeProducing = nothing


class End:
    """One end of the session: a tool or target outside, TLS inside, a half of the lane."""

    def __init__(self, reactor: Any, begin: Any, number: int) -> None:
        self.relay = Relay()
        self.ended: list[RelayEnded] = []
        self.relay.done.addCallback(self.ended.append)
        outside, inside = self.relay.left, self.relay.right
        self.outside = Line(reactor, outside)
        outside.makeConnection(self.outside)
        self.tls = SessionTls(begin, inside)
        self.call = Call()
        self.call.stream = self.stream = MovingStream(
            inner=self.tls, clock=Clock(), after=None, ask=lambda _: None
        )
        self.half = LaneHalf(Preface((Side.PERSON, Side.CONNECTOR)[number], bytes(32)))
        self.lane = Line(reactor, self.half)
        self.said = bytearray()
        self.heard = bytearray()
        self.heard_end = False
        self.carried = bytearray()
        self.lane_ended = False

    def say(self, size: int) -> None:
        """The tool says so many bytes, as far as the kernel takes them."""
        begin = len(self.said) % len(PATTERN)
        data = (PATTERN * (size // len(PATTERN) + 2))[begin : begin + size]
        try:
            self.said += data[: self.outside.far.send(data)]
        except OSError:
            pass  # Full, or gone.

    def hear(self) -> None:
        """The tool takes what has come."""
        while not self.heard_end:
            piece = received(self.outside.far, 1 << 20)
            self.heard_end = piece is None
            if not piece:
                return
            self.heard += piece


class World:
    """Both ends, moved to their lane, whose two sockets the test joins by hand."""

    def __init__(self, *, is_fused: bool) -> None:
        self.reactor: Any = EPollReactor()
        accepts = ConnectorEnd(CONNECTOR).session(USER.facts.sha256)
        expects = PersonEnd(USER).session(CONNECTOR.facts.principal.id)
        self.ends = (
            End(self.reactor, expects.begin, PERSON),
            End(self.reactor, accepts.begin, TARGET),
        )
        one, other = self.ends
        one.call.other, other.call.other = other.call, one.call
        for end in self.ends:
            end.stream.makeConnection(end.call)
        self.pump()
        for end in self.ends:
            end.half.makeConnection(end.lane)
        self.spin()
        for end in self.ends:
            assert len(end.lane.far.recv(999)) == PREFACE_BYTES
            end.lane.far.send(GO)
            end.lane.startReading()
        self.spin()
        for end in self.ends:
            end.stream.move_to(end.half)
        self.pump()
        for end in self.ends:
            fused = end.stream._fused
            assert fused is not None
            if not is_fused:
                fused.end()

    def pump(self) -> None:
        for _ in range(6):
            for end in self.ends:
                end.call.pump()

    def spin(self, times: int = 4) -> None:
        for _ in range(times):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0)
            self.pump()

    def carry(self, number: int, most: int) -> None:
        """Bring so many bytes of the lane from this end to the other, and the end after them."""
        end, other = self.ends[number], self.ends[1 - number]
        if not end.lane_ended and len(end.carried) < most:
            piece = received(end.lane.far, most - len(end.carried))
            end.lane_ended = piece is None
            end.carried += piece or b""
        try:
            if end.carried:
                del end.carried[: other.lane.far.send(end.carried[:most])]
            if end.lane_ended and not end.carried:
                other.lane.far.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            end.carried.clear()

    def settle(self) -> None:
        """Until nothing moves any more."""
        before: list[Any] = []
        still = 0
        while still < STILL:
            for number, end in enumerate(self.ends):
                self.carry(number, MUCH)
                end.hear()
            self.spin()
            now = [
                (len(end.heard), end.heard_end, len(end.carried), end.lane_ended, len(end.ended))
                for end in self.ends
            ]
            still = still + 1 if now == before else 0
            before = now

    def do(self, step: tuple[Any, ...]) -> None:
        word, number, *rest = step
        end = self.ends[number]
        if word == "say":
            end.say(rest[0])
        elif word == "carry":
            self.carry(number, rest[0])
        elif word == "hear":
            end.hear()
        elif word == "end":
            with_end = end.outside.far
            try:
                with_end.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        elif word == "spin":
            self.spin(1)
        elif word == "break":
            end.outside.far.close()
            end.heard_end = True
        elif word == "cut":
            end.lane.far.close()

    def result(self) -> list[Any]:
        """What was said and heard, and how it ended."""
        return [(bytes(e.said), bytes(e.heard), e.heard_end, e.ended) for e in self.ends]

    def close(self) -> None:
        for end in self.ends:
            end.relay.abort()
            end.stream.abortConnection()
        self.spin()
        for end in self.ends:
            for line in (end.outside, end.lane):
                line.far.close()
        for reader in list(self.reactor._internalReaders):
            reader.connectionLost(None)
        self.reactor._poller.close()


SIZES = st.one_of(
    st.integers(1, 300),
    st.integers(RECORD_BYTES - 2, RECORD_BYTES + 2),
    st.integers(40_000, 150_000),
)
SOME = st.one_of(st.integers(1, 40), st.integers(100, 20_000), st.just(MUCH))
WHO = st.sampled_from((PERSON, TARGET))
STEPS = st.one_of(
    st.tuples(st.just("say"), WHO, SIZES),
    st.tuples(st.just("carry"), WHO, SOME),
    st.tuples(st.just("carry"), WHO, SOME),
    st.tuples(st.just("hear"), WHO),
    st.tuples(st.just("spin"), WHO),
    st.tuples(st.just("spin"), WHO),
    st.tuples(st.just("end"), WHO),
)
BREAKS = st.tuples(st.sampled_from(("break", "cut")), WHO)


class FusedTests(SynchronousTestCase):
    def played(self, steps: list[tuple[Any, ...]], *, is_fused: bool) -> list[Any]:
        world = World(is_fused=is_fused)
        try:
            for step in steps:
                world.do(step)
            world.settle()
            return world.result()
        finally:
            world.close()

    @settings(max_examples=examples(100), deadline=None)
    @given(st.lists(STEPS, max_size=24))
    def test_any_order(self, steps: list[tuple[Any, ...]]) -> None:
        """However it is split, paused and ended: what is said is heard, and each end is told.

        Which of two tools ended first is known where only one did: an end that is on its way passes
        in fewer turns where it goes past the layers.
        """
        ends = []
        both_end = {PERSON, TARGET} <= {number for word, number, *_ in steps if word == "end"}
        for is_fused in (True, False):
            # What is said depends on how much the sockets take, and so on who reads how much.
            played = self.played(steps, is_fused=is_fused)
            (said, heard, *_), (said_back, heard_back, *_) = played
            self.assertEqual((heard_back, heard), (said, said_back))
            ends.append(
                [
                    (heard_end, [(one.is_clean, both_end or one.first) for one in ended])
                    for *_, heard_end, ended in played
                ]
            )
        self.assertEqual(*ends)

    @settings(max_examples=50, deadline=None)
    @given(st.lists(STEPS, max_size=12), BREAKS, st.lists(STEPS, max_size=4))
    def test_any_break(
        self, before: list[tuple[Any, ...]], broken: tuple[Any, ...], after: list[tuple[Any, ...]]
    ) -> None:
        """A tool that goes, or a lane that is cut: nothing that was not said is heard."""
        for is_fused in (True, False):
            (said, heard, *_), (said_back, heard_back, *_) = self.played(
                [*before, broken, *after], is_fused=is_fused
            )
            self.assertEqual(said[: len(heard_back)], heard_back)
            self.assertEqual(said_back[: len(heard)], heard)

    def test_a_small_message(self) -> None:
        """It goes in one turn at each end, past the layers between."""
        world = World(is_fused=True)
        self.addCleanup(world.close)
        person, target = world.ends
        passed: list[bytes] = []
        for end in world.ends:
            self.patch(end.stream, "write", passed.append)
            self.patch(end.stream, "lane_data", passed.append)
        world.do(("say", PERSON, 100))
        world.spin(1)
        world.carry(PERSON, MUCH)
        world.spin(1)
        target.hear()
        self.assertEqual((bytes(target.heard), passed), (bytes(person.said), []))
        self.assertEqual(person.relay.left.received, 100)
        self.assertEqual(target.relay.right.received, 100)

    def test_not_a_gate(self) -> None:
        """A side that does more with its bytes than pass them on is never passed by."""

        class Counting(RelaySide):
            def dataReceived(self, data: bytes) -> None:
                super().dataReceived(data)

        world = World(is_fused=True)
        self.addCleanup(world.close)
        person = world.ends[PERSON]
        person.stream._lengthen()
        person.relay.left.__class__ = Counting
        person.stream._shorten()
        self.assertIsNone(person.stream._fused)

    def test_over(self) -> None:
        """When the session ends, its sockets read for themselves again."""
        world = World(is_fused=True)
        for end in world.ends:
            self.assertIn("doRead", vars(end.lane))
            end.stream.loseConnection()
            self.assertNotIn("doRead", vars(end.lane))
            self.assertNotIn("doRead", vars(end.outside))
        world.close()

    def test_aborted(self) -> None:
        """A socket that was aborted reads nothing more, though it is not the session's any more."""
        world = World(is_fused=True)
        self.addCleanup(world.close)
        person = world.ends[PERSON]
        world.do(("say", PERSON, 100))
        person.outside.abortConnection()
        person.stream._lengthen()
        self.assertIsNone(person.outside.doRead())
        self.assertEqual(person.relay.left.received, 0)
