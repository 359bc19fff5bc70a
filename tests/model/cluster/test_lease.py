"""When an observer may take a lease over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.cluster.lease import LeaderLease, Watch

TERM = 15.0


class WatchTests(SynchronousTestCase):
    """What one observer concludes from what it has seen."""

    def test_nothing_seen(self) -> None:
        """Who has not looked yet takes nothing."""
        self.assertFalse(Watch().may_take(1e9, TERM))

    def test_free(self) -> None:
        """A lease that was given up may be taken at once."""
        self.assertTrue(Watch().saw(LeaderLease(4), 10.0).may_take(10.0, TERM))

    @given(st.lists(st.tuples(st.floats(0.1, 20.0), st.booleans()), max_size=40))
    def test_silence(self, looks: list[tuple[float, bool]]) -> None:
        """A held lease may be taken only after the same beat was seen for the whole term."""
        lease, at, heard = LeaderLease(1, "a", "i"), 0.0, 0.0
        watch = Watch().saw(lease, at)
        for after, has_beaten in looks:
            at += after
            if has_beaten:
                lease, heard = (
                    LeaderLease(epoch=1, owner="a", instance="i", beats=lease.beats + 1),
                    at,
                )
            watch = watch.saw(lease, at)
            self.assertEqual(watch.may_take(at, TERM), at - heard >= TERM)
