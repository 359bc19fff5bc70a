"""The heap of a process that has started."""

from __future__ import annotations

import gc
import weakref
from queue import Queue

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.heap import settle_heap


class Ring:
    """What only a collection frees."""

    def __init__(self) -> None:
        self.own = self


class SettledTests(SynchronousTestCase):
    def test_what_was_there(self) -> None:
        """It is looked at no more; what is made later is collected as ever."""
        self.addCleanup(gc.unfreeze)
        lost = weakref.ref(Ring())
        before = Ring()
        clock = Clock()
        settle_heap(clock, lambda: None).join()
        self.assertIsNone(lost(), "garbage is not kept")
        self.assertGreater(gc.get_freeze_count(), 10_000)
        self.assertNotIn(before, gc.get_objects())
        later = weakref.ref(Ring())
        gc.collect()
        self.assertIsNone(later())

    def test_looked_at_again(self) -> None:
        """Memory is looked at again, ever more rarely."""
        self.addCleanup(gc.unfreeze)
        clock, times, looks = Clock(), list[float](), Queue[float]()
        settle_heap(clock, lambda: looks.put(clock.seconds())).join()
        while clock.seconds() < 3600:
            self.assertEqual(looks.get(timeout=30), clock.seconds())
            [call] = clock.getDelayedCalls()
            times.append(call.getTime() - clock.seconds())
            clock.advance(times[-1])
        self.assertEqual(times[:8], [10, 20, 40, 80, 160, 320, 600, 600])
