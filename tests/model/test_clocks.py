"""Clocks that do not agree, told with their difference."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Fault
from svc.model.clocks import MAX_APART_SECS, ClockWrong, check_clock, since, utc
from tests.pki.support import BEGIN


class ClockTests(SynchronousTestCase):
    def test_within(self) -> None:
        """Clocks that differ by no more than a signed request may be old are let pass."""
        for theirs in (BEGIN, BEGIN - MAX_APART_SECS, BEGIN + MAX_APART_SECS):
            check_clock(theirs, BEGIN, "")

    def test_apart(self) -> None:
        """The refusal says by how much, in which direction, both times, and what to do."""
        for offset, said in (
            (-90, "90 s behind"),
            (31, "31 s ahead"),
            (-3600, "1 h 0 min"),
        ):
            refusal = self.assertRaises(ClockWrong, check_clock, BEGIN + offset, BEGIN, "set it")
            self.assertEqual((refusal.reason, refusal.fault), ("clock_wrong", Fault.PRECONDITION))
            for part in (said, utc(BEGIN), utc(BEGIN + offset), "; set it"):
                self.assertIn(part, refusal.text)

    def test_no_calendar(self) -> None:
        """A time that no calendar knows is refused like any other."""
        for theirs in (-(2.0**63), 2.0**63):
            self.assertRaises(ClockWrong, check_clock, theirs, BEGIN, "")

    def test_lengths(self) -> None:
        """A length of time is told in seconds, and a long one in larger units."""
        told = [since(seconds) for seconds in (0.4, 599, 1500, 7260, 200_000)]
        self.assertEqual(told, ["0 s", "599 s", "25 min", "2 h 1 min", "2 days"])
