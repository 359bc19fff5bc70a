"""The lean reactor: Twisted's own contracts of reactors, and what is done otherwise in it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.abstract import FileDescriptor
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.test.reactormixins import ReactorBuilder
from twisted.internet.test.test_core import SystemEventTestsBuilder
from twisted.internet.test.test_fdset import ReactorFDSetTestsBuilder
from twisted.internet.test.test_time import TimeTestsBuilder
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.reactor import MAX_EVENTS, TURN_SECS, LeanReactor

LEAN = f"{LeanReactor.__module__}.{LeanReactor.__qualname__}"
BUILDERS: tuple[type[ReactorBuilder], ...] = (
    ReactorFDSetTestsBuilder,
    SystemEventTestsBuilder,
    TimeTestsBuilder,
)
LEFT_OUT = ("__dict__", "__weakref__", "test_lostFileDescriptor")
"""The test is not for epoll, as it says itself of Twisted's own, which it knows by name."""


def _of_twisted() -> dict[str, type[SynchronousTestCase]]:
    """Twisted's contracts, each as a case about the lean reactor alone."""
    cases: dict[str, type[SynchronousTestCase]] = {}
    for builder in BUILDERS:
        name = f"Lean{builder.__name__}"
        body = {word: value for word, value in vars(builder).items() if word not in LEFT_OUT}
        body.update(_reactors=[LEAN], __module__=__name__)
        lean: Any = type(name, (ReactorBuilder,), body)
        cases.update(lean.makeTestCaseClasses())
    return cases


globals().update(_of_twisted())
# They test nothing themselves, and a loader would find them here.
del ReactorFDSetTestsBuilder, SystemEventTestsBuilder, TimeTestsBuilder


class Ear(FileDescriptor):
    """One end of a pair of sockets; says what it is told to when it is readable."""

    def __init__(self, reactor: Any, heard: Callable[[Ear], Any]) -> None:
        super().__init__(reactor)
        self.ours, self.far = socket.socketpair()
        self.ours.setblocking(False)
        self.reasons: list[Failure] = []
        self.fails_when_lost = False
        self._heard = heard

    def fileno(self) -> int:
        return self.ours.fileno()

    def logPrefix(self) -> str:
        return "ear"

    def doRead(self) -> Any:
        return self._heard(self)

    def doWrite(self) -> Any:
        return self._heard(self)

    def connectionLost(self, reason: Failure) -> None:
        self.reasons.append(reason)
        if self.fails_when_lost:
            raise LookupError("lost")

    def end(self) -> None:
        self.ours.close()
        self.far.close()


class Contract:
    """What our own rooms rely on, of both reactors."""

    make: type[EPollReactor]

    def setUp(self) -> None:
        self.reactor: Any = self.make()
        self.addCleanup: Any
        for each in self.reactor._internalReaders:
            self.addCleanup(each.connectionLost, None)

    def ear(self, heard: Callable[[Ear], Any]) -> Ear:
        ear = Ear(self.reactor, heard)
        self.addCleanup(ear.end)
        self.reactor.addReader(ear)
        ear.far.send(b"word")
        return ear

    def test_an_error_while_reading(self) -> None:
        """It is logged, ends that descriptor, and disturbs no other."""
        check: Any = self
        others: list[Ear] = []
        ears = [
            self.ear(others.append),
            self.ear(lambda _: 1 / 0),
            self.ear(others.append),
        ]
        self.reactor.doIteration(0)
        check.assertEqual(others, [ears[0], ears[2]])
        [reason] = ears[1].reasons
        check.assertIs(reason.type, ZeroDivisionError)
        check.assertEqual(len(check.flushLoggedErrors(ZeroDivisionError)), 1)
        self.reactor.doIteration(0)
        check.assertEqual(others, [ears[0], ears[2]] * 2)

    def test_an_error_while_it_is_lost(self) -> None:
        """Likewise."""
        check: Any = self
        others: list[Ear] = []
        first = self.ear(lambda _: ConnectionError("gone"))
        first.fails_when_lost = True
        second = self.ear(others.append)
        self.reactor.doIteration(0)
        check.assertEqual((len(first.reasons), others), (1, [second]))
        check.assertEqual(len(check.flushLoggedErrors(LookupError)), 1)

    def test_removed_by_another(self) -> None:
        """One that another removes within the same turn is not called."""
        check: Any = self
        called: list[Ear] = []
        ears: list[Ear] = []

        def heard(ear: Ear) -> None:
            called.append(ear)
            for each in ears:
                self.reactor.removeReader(each)

        ears += [self.ear(heard), self.ear(heard)]
        self.reactor.doIteration(0)
        check.assertEqual(len(called), 1)

    def test_more_than_one_poll_takes(self) -> None:
        """Each of very many that are ready gets its turn."""
        check: Any = self
        called: set[Ear] = set()

        def heard(ear: Ear) -> None:
            called.add(ear)
            self.reactor.removeReader(ear)

        ears = {self.ear(heard) for _ in range(MAX_EVENTS + 50)}
        self.reactor.doIteration(0)
        self.reactor.doIteration(0)
        check.assertEqual(called, ears)

    def test_both_at_once(self) -> None:
        """One that may be read and written is called for both."""
        check: Any = self
        called: list[Ear] = []
        ear = self.ear(called.append)
        self.reactor.addWriter(ear)
        self.reactor.doIteration(0)
        check.assertEqual(called, [ear, ear])

    def test_a_peer_that_is_gone(self) -> None:
        """Whoever reads is told an end; whoever writes only, a loss."""
        check: Any = self
        ear = Ear(self.reactor, lambda each: os.read(each.fileno(), 9) and None)
        self.addCleanup(ear.end)
        self.reactor.addWriter(ear)
        ear.far.close()
        self.reactor.doIteration(0)
        [reason] = ear.reasons
        check.assertTrue(reason.check(ConnectionLost))

    def test_the_next_turn(self) -> None:
        """Calls of the next turn run in their order; one that fails disturbs no other."""
        check: Any = self
        done: list[str] = []
        self.reactor.callLater(0, done.append, "first")
        self.reactor.callLater(0, lambda: 1 / 0)
        self.reactor.callLater(0, self.reactor.callLater, 0, done.append, "later")
        self.reactor.callLater(0, done.append, "last")
        check.assertEqual(self.reactor.timeout(), 0)
        self.reactor.runUntilCurrent()
        check.assertEqual(done, ["first", "last"])
        check.assertEqual(len(check.flushLoggedErrors(ZeroDivisionError)), 1)
        self.reactor.runUntilCurrent()
        check.assertEqual(done, ["first", "last", "later"])
        check.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_what_a_thread_set_going(self) -> None:
        """What a thread's answer asks for runs before the next poll."""
        check: Any = self
        done: list[str] = []
        self.reactor.callFromThread(self.reactor.callLater, 0, done.append, "asked for")
        self.reactor.runUntilCurrent()
        check.assertEqual(done, ["asked for"])

    def test_another_turn(self) -> None:
        """A call of the next turn can be cancelled, by another one too, and be put off."""
        check: Any = self
        done: list[str] = []
        calls = [self.reactor.callLater(0, done.append, str(number)) for number in range(4)]
        calls[1].cancel()
        calls[2].reset(60)
        coming: list[Any] = []
        self.reactor.callLater(0, lambda: coming[0].cancel())
        coming.append(self.reactor.callLater(0, done.append, "last"))
        check.assertEqual(len(self.reactor.getDelayedCalls()), 5)
        self.reactor.runUntilCurrent()
        check.assertEqual(done, ["0", "3"])
        check.assertEqual(self.reactor.getDelayedCalls(), [calls[2]])
        check.assertGreater(self.reactor.timeout(), 50)
        calls[2].cancel()

    def test_timers(self) -> None:
        """They run at their time, once each, also when it was changed or others were cancelled."""
        check: Any = self
        done: list[Any] = []
        now = [100.0]
        self.reactor.seconds = lambda: now[0]
        later = self.reactor.callLater
        calls = {name: later(at, done.append, name) for name, at in (("a", 5), ("b", 7), ("c", 9))}
        many = [later(8, done.append, "never") for _ in range(200)]
        check.assertEqual(self.reactor.timeout(), 5)
        calls["c"].reset(6)  # sooner
        calls["b"].reset(2)
        calls["b"].reset(1)
        calls["a"].delay(3)
        later(6, lambda: 1 / 0)
        for each in many:
            each.cancel()
        check.assertEqual(self.reactor.timeout(), 1)
        check.assertEqual(len(self.reactor.getDelayedCalls()), 4)
        for at, expected in ((101, "b"), (105, "b"), (106, "bc"), (107.9, "bc"), (120, "bca")):
            now[0] = at
            self.reactor.runUntilCurrent()
            check.assertEqual("".join(done), expected)
        check.assertEqual(len(check.flushLoggedErrors(ZeroDivisionError)), 1)
        check.assertEqual(self.reactor.getDelayedCalls(), [])
        check.assertIsNone(self.reactor.timeout())


class LeanTests(Contract, SynchronousTestCase):
    make = LeanReactor

    def busy(self) -> tuple[list[str], list[Ear]]:
        """Three that are ready, of which each takes longer than a turn; what is done in order."""
        done: list[str] = []
        now = [0.0]
        self.reactor.seconds = lambda: now[0]

        def heard(ear: Ear) -> None:
            done.append("event")
            now[0] += 2 * TURN_SECS

        return done, [self.ear(heard) for _ in range(3)]

    def test_many_events_that_take_long(self) -> None:
        """What is due does not wait for the last of them; no event comes twice."""
        done, _ = self.busy()
        self.reactor.callLater(TURN_SECS, done.append, "due")
        self.reactor.callFromThread(done.append, "from a thread")
        self.reactor.doIteration(0)
        self.assertEqual(done, ["event", "from a thread", "due", "event", "event"])

    def test_an_end_after_a_long_turn(self) -> None:
        """It is told in that poll: those before it could be ready in each, and take all of it."""
        done, ears = self.busy()
        ears[2].far.close()
        self.reactor.doIteration(0)
        self.assertEqual(done, ["event"] * 3)

    def last_words(self, size: int) -> tuple[list[bytes], Ear]:
        """One whose peer has said its last word, and is read so many bytes at a time; what came."""
        heard: list[bytes] = []

        def read(ear: Ear) -> ConnectionDone | None:
            heard.append(os.read(ear.fileno(), size))
            return None if heard[-1] else ConnectionDone()

        ear = self.ear(read)
        ear.far.shutdown(socket.SHUT_WR)
        return heard, ear

    def test_last_words(self) -> None:
        """They are read in one turn with the end behind them."""
        heard, ear = self.last_words(64)
        self.reactor.doIteration(0)
        self.assertEqual((heard, len(ear.reasons)), ([b"word", b""], 1))
        self.assertNotIn(ear, self.reactor.getReaders())

    def test_last_words_in_parts(self) -> None:
        """A peer that leaves much behind takes no turn for itself: two readings a turn."""
        heard, ear = self.last_words(1)
        self.reactor.doIteration(0)
        self.assertEqual((b"".join(heard), ear.reasons), (b"wo", []))
        self.reactor.doIteration(0)
        self.reactor.doIteration(0)
        self.assertEqual((b"".join(heard), len(ear.reasons)), (b"word", 1))

    def test_last_words_to_one_who_stops(self) -> None:
        """Whoever stops reading at a word hears the end when it reads again."""
        heard: list[bytes] = []

        def stop(ear: Ear) -> ConnectionDone | None:
            self.reactor.removeReader(ear)
            heard.append(os.read(ear.fileno(), 64))
            return None if heard[-1] else ConnectionDone()

        ear = self.ear(stop)
        ear.far.shutdown(socket.SHUT_WR)
        for _ in range(2):
            self.reactor.doIteration(0)
            self.assertEqual((heard, ear.reasons), ([b"word"], []))
        self.reactor.addReader(ear)
        self.reactor.doIteration(0)
        self.assertEqual((heard, len(ear.reasons)), ([b"word", b""], 1))

    def test_another_that_got_the_number(self) -> None:
        """The end of a connection that has gone is none of the one that has its number now."""
        done, ears = self.busy()
        ears[2].far.close()
        heirs: list[Ear] = []

        def exchange() -> None:
            number = ears[2].fileno()
            self.reactor.removeReader(ears[2])
            ears[2].ours.close()
            heir = Ear(self.reactor, lambda _: done.append("heir"))
            self.addCleanup(heir.end)
            if heir.fileno() != number:
                os.dup2(heir.fileno(), number)
                heir.ours.close()
                heir.ours = socket.socket(fileno=number)
            heirs.append(heir)
            self.reactor.addReader(heir)

        self.reactor.callLater(TURN_SECS, exchange)
        self.reactor.doIteration(0)
        self.assertEqual(done, ["event"] * 2)
        self.assertEqual([one.reasons for one in heirs], [[]])


class StockTests(Contract, SynchronousTestCase):
    make = EPollReactor
