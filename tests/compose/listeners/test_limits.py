"""An operator's bounds reach every connection."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.listeners.limits import wire_limits
from svc.config import read_settings
from svc.wire.limits import WireLimits

TEXT = """\
[limits]
max_header_list_bytes = 8192
max_nuisances = 77
max_resets = 88
max_streams = 99
stalled_secs = 3
idle_secs = 4
"""


class LimitTests(SynchronousTestCase):
    def test_as_configured(self) -> None:
        """Each key of [limits] that bounds a connection does."""
        self.assertEqual(
            wire_limits(read_settings(TEXT, "client")),
            WireLimits(
                max_header_list=8192,
                nuisances=77,
                resets=88,
                max_streams=99,
                stalled_secs=3,
                idle_secs=4,
            ),
        )

    def test_defaults(self) -> None:
        """Where nothing is configured the wire's own defaults hold, but for a tunnel's streams."""
        self.assertEqual(wire_limits(read_settings("", "client")), WireLimits(max_streams=4096))
