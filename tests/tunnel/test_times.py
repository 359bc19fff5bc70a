"""When a Connector renews its lease."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.keepalive import DIALER_SILENCE
from svc.tunnel.times import TunnelTimes
from tests.support.proof import proves

_SECS = st.floats(0.05, 86_400)


class RenewalTests(SynchronousTestCase):
    @proves("G-OPEN-45")
    def test_in_place_of_a_ping(self) -> None:
        """By default the second ping that would be due is a renewal, within 30 s."""
        self.assertEqual(TunnelTimes().renewal(90.0), 2 * DIALER_SILENCE * 15.0)

    @given(_SECS, _SECS, _SECS)
    def test_never_later(self, renew: float, keepalive: float, lease: float) -> None:
        """It comes no later than was asked, and not much more than twice as often."""
        longest = min(renew, lease / 3)
        found = TunnelTimes(renew=renew, keepalive_interval=keepalive).renewal(lease)
        self.assertLessEqual(found, longest)
        self.assertGreater(found, longest / 2.001)
