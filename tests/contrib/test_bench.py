"""What the bench's table says of a figure and its goal."""

from __future__ import annotations

import json
from math import inf
from os import getpid
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.bench.inside import Lag, p99_row
from contrib.bench.machine import with_descendants
from contrib.bench.rows import Goal, less_is_better, more_is_better, table, write
from contrib.bench.trips import Way, echo_server, measured


class RowTests(SynchronousTestCase):
    """Rows, their ratios and their goals."""

    def test_ratio(self) -> None:
        """A ratio above 1 is better for us, whichever way the figure counts."""
        self.assertEqual(more_is_better("a", 3.0, "/s", "peer", 2.0).ratio, 1.5)
        self.assertEqual(less_is_better("a", 2.0, "ms", "peer", 3.0).ratio, 1.5)

    def test_without_goal(self) -> None:
        """A row without a goal is neither met nor missed."""
        row = more_is_better("a", 1.0, "/s", "peer", 2.0)
        self.assertEqual((row.goal, row.met), ("", None))

    def test_value(self) -> None:
        """A goal for the figure bounds it on the side that is worse."""
        goal = Goal(value=5)
        for figure, much, little in ((4.0, False, True), (5.0, True, True), (6.0, True, False)):
            self.assertEqual(more_is_better("a", figure, "/s", "peer", 1.0, goal).met, much)
            self.assertEqual(less_is_better("a", figure, "ms", "peer", 1.0, goal).met, little)

    def test_ratio_goal(self) -> None:
        """A goal for the ratio is met from there on."""
        goal = Goal(ratio=0.5)
        self.assertTrue(more_is_better("a", 1.0, "/s", "peer", 2.0, goal).met)
        self.assertFalse(more_is_better("a", 0.9, "/s", "peer", 2.0, goal).met)
        self.assertFalse(less_is_better("a", 2.1, "ms", "peer", 1.0, goal).met)

    def test_both(self) -> None:
        """Of two limits each one must be kept, and the table names both."""
        goal = Goal(ratio=10, value=8)
        rows = [less_is_better("a", ours, "ms", "peer", 90.0, goal) for ours in (8.0, 8.5, 9.5)]
        self.assertEqual([row.met for row in rows], [True, False, False])
        self.assertFalse(less_is_better("a", 8.0, "ms", "peer", 70.0, goal).met)
        self.assertEqual(rows[0].goal, "≥ 10 times, ≤ 8 ms")

    def test_forms(self) -> None:
        """The table has a line a row under its head; the file has every field."""
        rows = [
            more_is_better("a", 1.0, "/s", "peer", 2.0),
            less_is_better("b", 9.0, "ms", "peer", 9.0, Goal(value=8)),
        ]
        lines = table(rows).splitlines()
        self.assertEqual([line.split()[-1] for line in lines], ["met", "-", "no"])
        path = Path(self.mktemp())
        write(rows, path)
        kept = json.loads(path.read_text("utf-8"))
        self.assertEqual([(one["name"], one["met"]) for one in kept], [("a", None), ("b", False)])


class LagTests(SynchronousTestCase):
    """What is read from a role's own histogram of its reactor's lateness."""

    def lag(self, ten: int = 0, fifty: int = 0, hundred: int = 0, more: int = 0) -> Lag:
        """With so many in the buckets up to 10, 50 and 100 ms, and above."""
        found, total = {}, 0.0
        for bound, count in ((0.01, ten), (0.05, fifty), (0.1, hundred), (inf, more)):
            total += count
            found[bound] = total
        lag = Lag()
        lag.add(dict.fromkeys(found, 0.0), found)
        return lag

    def test_within_a_bucket(self) -> None:
        """A share is taken from where it lies between the bounds of its bucket."""
        self.assertAlmostEqual(self.lag(ten=100).at(0.5), 5.0)
        self.assertAlmostEqual(self.lag(ten=90, fifty=10).at(0.95), 30.0)
        self.assertAlmostEqual(self.lag(fifty=4).at(0.5), 30.0)

    def test_above_all_bounds(self) -> None:
        """What is above every bound is told as the highest."""
        self.assertAlmostEqual(self.lag(ten=1, more=99).at(0.99), 100.0)

    def test_only_what_came_between(self) -> None:
        """What was counted before the block is in no figure, and blocks are added up."""
        lag = self.lag(ten=2)
        lag.add(dict.fromkeys(lag.counts, 50.0), {0.01: 50.0, 0.05: 52.0, 0.1: 52.0, inf: 52.0})
        self.assertEqual(lag.counts, {0.01: 2.0, 0.05: 4.0, 0.1: 4.0, inf: 4.0})

    def test_nothing_counted(self) -> None:
        """No timer is no figure."""
        self.assertRaises(AssertionError, self.lag().at, 0.99)

    def test_goal(self) -> None:
        """The p99 is to be 50 ms at most."""
        alone = self.lag(ten=1)
        late = (self.lag(fifty=100), self.lag(ten=99, hundred=1), self.lag(ten=98, hundred=2))
        rows = [p99_row("a", each, "alone", alone) for each in late]
        self.assertEqual([row.met for row in rows], [True, True, False])


class TripTests(SynchronousTestCase):
    """Small round trips."""

    def test_measured(self) -> None:
        """Each message that came back is counted, and the CPU time of the processes on its way."""
        with echo_server() as port:
            found = measured(Way(("127.0.0.1", port), [getpid()]), 100, 2, 0.05)
        self.assertGreater(found.per_second, 0)
        self.assertGreater(found.cpu_micros, 0)

    def test_descendants(self) -> None:
        """Who is started by a process counts with it."""
        with echo_server():
            found = with_descendants([getpid()])
        self.assertIn(getpid(), found)
        self.assertGreater(len(found), 1)
