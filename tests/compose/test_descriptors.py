"""A role's limit of open files."""

from __future__ import annotations

from resource import RLIM_INFINITY
from typing import cast

from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.descriptors import REPORT_SECS, SPARE, RefusedByTheSystem, make_room


class RoomTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.events: list[LogEvent] = []
        observer = cast(ILogObserver, self.events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def room(self, connections: int, soft: int, hard: int, refuses: bool = False) -> int:
        """What the soft limit is afterwards."""
        now = [(soft, hard)]

        def put(both: tuple[int, int]) -> None:
            if refuses:
                raise ValueError("not allowed")
            now.append(both)

        make_room(connections, 0, lambda: now[-1], put)
        self.assertEqual(now[-1][1], hard)
        return now[-1][0]

    def test_raised(self) -> None:
        """The soft limit becomes the hard one, and nothing is said where that is enough."""
        self.assertEqual(self.room(8192, 1024, 8192 + SPARE), 8192 + SPARE)
        self.assertEqual(self.room(8192, 1024, RLIM_INFINITY), RLIM_INFINITY)
        self.assertEqual(self.room(8192, 20_000, 20_000), 20_000)
        self.assertEqual(self.events, [])

    def test_too_low(self) -> None:
        """Where it cannot be enough, a warning says what there is and what is needed."""
        for soft, hard, refuses in ((1024, 4096, False), (1024, 99_999, True)):
            self.events.clear()
            left = self.room(8192, soft, hard, refuses)
            [told] = self.events
            self.assertEqual((told["open_files"], told["needed"]), (left, 8192 + SPARE))


class RefusedTests(SynchronousTestCase):
    """Connections that the system has no descriptor for, as Twisted tells of them."""

    def test_told_now_and_then(self) -> None:
        """Thousands are a few warnings, which say how many; nothing is heard after the stop."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        clock, port = Clock(), Logger(namespace="twisted.internet.tcp")
        watch = RefusedByTheSystem(clock)
        watch.startService()
        for _ in range(1000):
            port.info("EMFILE recovery: Closed socket from {address}", address=("192.0.2.1", 1))
        port.info("Re-reserving EMFILE recovery file descriptor.")
        clock.advance(REPORT_SECS)
        port.info("Could not accept new connection ({acceptError})", acceptError="ECONNABORTED")
        port.info("Could not accept new connection ({acceptError})", acceptError="ENFILE")
        watch.stopService()
        clock.advance(REPORT_SECS)
        port.info("Could not accept new connection ({acceptError})", acceptError="EMFILE")
        told = [one["count"] for one in events if one["log_level"] is LogLevel.warn]
        self.assertEqual(told, [1, 1000])
