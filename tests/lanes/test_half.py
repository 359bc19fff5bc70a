"""One end's half of a lane: what it says, and what it takes for the word to go on."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.lanes.half import LaneHalf, reach_lane
from svc.lanes.preface import GO, Preface, Side
from svc.lanes.rendezvous import RENDEZVOUS_SECS

PREFACE = Preface(Side.PERSON, bytes(32))


class Line(StringTransport):
    """A TCP connection that remembers how it was ended."""

    aborted = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        pass

    def setTcpKeepAlive(self, enabled: bool) -> None:
        self.keeps_alive = enabled

    def abortConnection(self) -> None:
        self.aborted = True


class LaneReceiver:
    """Keeps what a half delivers; may pause it with the first bytes."""

    def __init__(self, half: LaneHalf, pauses: bool = False) -> None:
        self.half, self.pauses = half, pauses
        self.heard: list[bytes] = []
        self.words: list[str] = []

    def lane_data(self, data: bytes) -> None:
        self.heard.append(data)
        if self.pauses:
            self.half.pause()

    def lane_read_ended(self) -> None:
        self.words.append("read ended")

    def lane_write_ended(self) -> None:
        self.words.append("write ended")

    def lane_lost(self, reason: Failure) -> None:
        self.words.append("lost")


class HalfTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.line = Line()
        self.half = LaneHalf(PREFACE)
        self.half.makeConnection(self.line)

    def test_it_says_its_preface_and_waits(self) -> None:
        """Nothing but the preface is sent, on a connection whose loss would be noticed."""
        self.assertEqual(self.line.value(), PREFACE.encode())
        self.assertTrue(self.line.keeps_alive)
        self.assertNoResult(self.half.joined)

    def test_the_word_in_pieces(self) -> None:
        """The word may come byte by byte; the half is paused with its last one."""
        for byte in GO[:-1]:
            self.half.dataReceived(bytes((byte,)))
        self.assertNoResult(self.half.joined)
        self.half.dataReceived(GO[-1:])
        self.assertIs(self.successResultOf(self.half.joined), self.half)
        self.assertEqual(self.line.producerState, "paused")

    def test_another_word(self) -> None:
        """Anything else is no word: the half hangs up."""
        self.half.dataReceived(b"svc-lane-v1 no\n")
        self.assertTrue(self.line.aborted)
        self.assertNoResult(self.half.joined)
        self.half.connectionLost(Failure(ConnectionLost()))
        self.failureResultOf(self.half.joined, ConnectionLost)

    def test_an_end_before_the_word(self) -> None:
        """A Proxy that ends the connection first does not join it."""
        self.half.readConnectionLost()
        self.assertTrue(self.line.aborted)

    def test_what_comes_right_behind_the_word(self) -> None:
        """It is delivered once, when somebody reads, and before what follows."""
        self.half.dataReceived(GO + b"early")
        taker = LaneReceiver(self.half)
        self.half.hand_to(taker)
        self.assertEqual(taker.heard, [])
        self.half.resume()
        self.half.pause()
        self.half.resume()
        self.half.dataReceived(b"later")
        self.assertEqual(taker.heard, [b"early", b"later"])

    def test_paused_by_what_came_early(self) -> None:
        """A reader that pauses amid the first bytes stays paused."""
        self.half.dataReceived(GO + b"early")
        self.half.hand_to(LaneReceiver(self.half, pauses=True))
        self.half.resume()
        self.assertEqual(self.line.producerState, "paused")

    def test_what_is_told(self) -> None:
        """Each end and the loss reach whoever took it."""
        self.half.dataReceived(GO)
        taker = LaneReceiver(self.half)
        self.half.hand_to(taker)
        self.half.writeConnectionLost()
        self.half.readConnectionLost()
        self.half.connectionLost(Failure(ConnectionLost()))
        self.assertEqual(taker.words, ["write ended", "read ended", "lost"])


class ReachTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.line = Line()
        self.connecting: Deferred[Any] = Deferred()

    def connect(self, factory: Factory) -> Deferred[Any]:
        self.factory = factory
        return self.connecting

    def reach(self) -> Deferred[LaneHalf]:
        endpoint: Any = self
        return Deferred.fromCoroutine(reach_lane(endpoint, PREFACE, self.clock))

    def connected(self) -> Any:
        half: Any = self.factory.buildProtocol(None)
        half.makeConnection(self.line)
        self.connecting.callback(half)
        return half

    def test_joined(self) -> None:
        """It fires with the half, and no timer is left."""
        reaching = self.reach()
        half = self.connected()
        half.dataReceived(GO)
        self.assertIs(self.successResultOf(reaching), half)
        self.assertEqual(self.clock.calls, [])

    def test_nobody_answers(self) -> None:
        """A dial, and a wait for the other half, each end after the time of a meeting."""
        reaching = self.reach()
        self.clock.advance(RENDEZVOUS_SECS)
        self.failureResultOf(reaching)
        self.connecting = Deferred()
        reaching = self.reach()
        self.connected()
        self.clock.advance(RENDEZVOUS_SECS)
        self.failureResultOf(reaching)
        self.assertTrue(self.line.aborted)
        self.assertEqual(self.clock.calls, [])

    def test_no_connection(self) -> None:
        """A dial that fails is passed on."""
        self.connecting = fail(ConnectionRefusedError())
        self.failureResultOf(self.reach(), ConnectionRefusedError)

    def test_cancelled(self) -> None:
        """Whoever gives up leaves no connection behind."""
        reaching = self.reach()
        self.connected()
        reaching.cancel()
        self.failureResultOf(reaching)
        self.assertTrue(self.line.aborted)
