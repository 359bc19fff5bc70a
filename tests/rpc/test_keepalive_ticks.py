"""Waits that end at common times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.keepalive import TICK_SECS, CommonTicks


class TickTests(SynchronousTestCase):
    @given(st.floats(0, 4e9), st.floats(2 * TICK_SECS, 1e5))
    def test_shortened(self, now: float, seconds: float) -> None:
        """A wait ends with a tick, and is a tick shorter at most, and no longer."""
        wait = CommonTicks(lambda: now).shortened(seconds)
        over = (now + wait) % TICK_SECS
        self.assertLess(min(over, TICK_SECS - over), 1e-5)
        self.assertLessEqual(wait, seconds)
        self.assertGreaterEqual(wait, seconds - TICK_SECS)
