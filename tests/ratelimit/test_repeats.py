"""What happens again and again is said once in a while."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.ratelimit.repeats import KEPT, RepeatCounter, RepeatSeries


class RepeatsTests(SynchronousTestCase):
    """Counted, and said at once, then once a minute."""

    def setUp(self) -> None:
        self.at = 1000.0
        self.repeats = RepeatCounter(lambda: self.at)

    def noted(self, key: str, *seconds: float) -> list[tuple[int, int] | None]:
        """What is said at each of these times, as count and how many of them were not said."""
        found: list[tuple[int, int] | None] = []
        for each in seconds:
            self.at = 1000.0 + each
            said = self.repeats.note(key)
            found.append(None if said is None else (said.count, said.unreported))
        return found

    def test_once_a_minute(self) -> None:
        """The first is said, then none for a minute, then how many there were."""
        self.assertEqual(
            self.noted("a", 0, 1, 30, 59, 60, 61, 119, 121),
            [(1, 1), None, None, None, (5, 4), None, None, (8, 3)],
        )
        self.assertEqual(self.noted("b", 122), [(1, 1)])

    def test_after_a_silence_it_is_new(self) -> None:
        """What did not happen for a minute is said at once, with those that were not said."""
        self.assertEqual(self.noted("a", 0, 1, 2), [(1, 1), None, None])
        self.at = 1000.0 + 500
        self.assertEqual(
            self.repeats.note("a"),
            RepeatSeries(first=self.at, last=self.at, count=1, unreported=3, reported=self.at),
        )

    def test_clock_set_back(self) -> None:
        """A clock that goes back makes nothing silent for ever."""
        self.assertEqual(self.noted("a", 0, -5000, -4999), [(1, 1), (1, 1), None])

    def test_limited(self) -> None:
        """No more is remembered than a fixed number."""
        for number in range(3 * KEPT):
            self.noted(str(number), 0)
        self.assertEqual(self.noted("0", 1), [(1, 1)])
        self.assertEqual(self.noted(str(3 * KEPT - 1), 1), [None])
