"""Whoever tries again waits longer each time, and begins anew after a success."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.backoff import Backoff, share
from tests.support.proof import proves


class BackoffTests(SynchronousTestCase):
    @proves("G-OPEN-45")
    def test_doubles_to_the_longest(self) -> None:
        """The wait is the first one after one failure, doubles, and stops at the longest."""
        waits = Backoff(first=1.0, longest=60.0)
        self.assertEqual([waits.next() for _ in range(8)], [1, 2, 4, 8, 16, 32, 60, 60])

    def test_no_end(self) -> None:
        """However often it failed, the wait stays the longest one."""
        self.assertEqual(Backoff(first=1.0, longest=60.0, failures=100_000).next(), 60)

    def test_first_is_bounded(self) -> None:
        """A first wait above the longest is the longest."""
        self.assertEqual(Backoff(first=9.0, longest=2.0).next(), 2)

    def test_counts_and_resets(self) -> None:
        """Every wait counts a failure; after a success the first wait comes again."""
        waits = Backoff(first=0.5, longest=30.0)
        waits.next()
        waits.next()
        self.assertEqual(waits.failures, 2)
        waits.reset()
        self.assertEqual((waits.failures, waits.next()), (0, 0.5))

    def test_shortened(self) -> None:
        """A wait that is shortened this once is counted like any other."""
        waits = Backoff(first=1.0, longest=60.0, failures=4)
        self.assertEqual([waits.next(at_most=3.0), waits.next()], [3, 32])

    def test_jitter(self) -> None:
        """The jitter is given the limited wait, and what it makes of it is waited."""
        due: list[float] = []

        def none(seconds: float) -> float:
            due.append(seconds)
            return 0.0

        waits = Backoff(first=4.0, longest=6.0, jitter=none)
        self.assertEqual([waits.next(), waits.next()], [0.0, 0.0])
        self.assertEqual(due, [4.0, 6.0])


class ShareTests(SynchronousTestCase):
    def test_from_nothing_to_all(self) -> None:
        """It is 0 at the least, half in the middle, and always below 1."""
        drawn = [share(byte.__mul__) for byte in (b"\0", b"\x80", b"\xff")]
        self.assertEqual((drawn[0], round(drawn[1], 2)), (0.0, 0.5))
        self.assertTrue(0.999 < drawn[2] < 1, drawn)
