"""The reactor's lateness, on a clock that a test holds up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.telemetry import reactor_lag
from svc.telemetry.lag import EVERY_SECS, MOST_SAMPLES, ReactorLag
from svc.telemetry.metrics import Metrics
from tests.telemetry.test_metrics import samples


class LagTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.clock = Clock()
        self.told: list[float] = []
        self.lag = ReactorLag(self.clock, lambda late: self.told.append(round(late, 6)))
        self.lag.startService()

    def test_on_time(self) -> None:
        """A reactor that is held by nobody is on time, ten times a second."""
        self.clock.pump([EVERY_SECS] * 10)
        self.assertEqual(self.told, [0.0] * 10)

    def test_a_hold_is_told_for_all_who_came_meanwhile(self) -> None:
        """Whoever came while the reactor was held waited for what was left of it."""
        self.clock.advance(0.43)
        self.assertEqual(self.told, [0.33, 0.23, 0.13, 0.03])

    def test_a_late_timer_delays_no_other(self) -> None:
        """The timer after a late one is due when it was: its own wait is not hidden."""
        self.clock.advance(0.16)
        self.clock.advance(0.08)
        self.assertEqual(self.told, [0.06, 0.04])

    def test_a_long_stop_is_told_at_once(self) -> None:
        """A process that was stopped for a day says so with a bounded number of values."""
        self.clock.advance(86_400.0)
        self.assertEqual(len(self.told), MOST_SAMPLES)
        self.assertGreater(min(self.told), 86_000)
        self.clock.pump([EVERY_SECS] * 2)
        self.assertEqual(len(self.told), MOST_SAMPLES + 2)

    def test_stop(self) -> None:
        """A stop leaves no timer, and may come twice or without a start."""
        self.lag.stopService()
        self.lag.stopService()
        ReactorLag(self.clock, self.told.append).stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clock.advance(1.0)
        self.assertEqual(self.told, [])

    @given(st.lists(st.integers(1, 3000), max_size=30))
    def test_each_tenth_of_a_second_is_told_once(self, holds: list[int]) -> None:
        """However the reactor is held, one timer is told for each tenth that has passed."""
        self.begin()
        for milliseconds in holds:
            self.clock.advance(milliseconds / 1000)
        self.assertLess(abs(len(self.told) - sum(holds) / 100), 1.001)
        self.assertLessEqual(max(self.told, default=0), max(holds, default=0) / 1000 + 1e-6)

    def test_the_series_tells_50_from_250_milliseconds(self) -> None:
        """Both bounds of the goals are bounds of buckets, and the process's series is moved."""
        metrics = Metrics(["proxy"])
        service = reactor_lag(self.clock, metrics)
        service.startService()
        self.addCleanup(service.stopService)
        for late in (0.0, 0.04, 0.2, 0.3):
            service.on_sample(late)
        found = samples(metrics)
        counts = [found[f'svc_reactor_lag_seconds_bucket{{le="{le}"}}'] for le in (0.05, 0.25, 0.5)]
        self.assertEqual(counts, [2, 3, 4])
