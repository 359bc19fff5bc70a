"""A role's limit of open files."""

from __future__ import annotations

from resource import RLIM_INFINITY
from typing import cast

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.descriptors import SPARE, make_room


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

        make_room(connections, lambda: now[-1], put)
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
