"""The kind by itself: what every kind keeps, and what is its own."""

from __future__ import annotations

from svc.plugins.kind_vnc import DIALER, LOCAL
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.testing.contracts.kind import KindContract


class VncTests(KindContract, SynchronousTestCase):
    """The contract, and displays."""

    word = "vnc"
    good_table = {"address": "desk1.internal", "display": 2}

    def test_displays(self) -> None:
        """A display counts from the first port, on either side."""
        target = DIALER.parse("desk1", self.good_table, "connector.resources[0]")
        self.assertEqual(target.address, "desk1.internal:5902")
        self.assertEqual(LOCAL.native_port({"display": "2"}), 5902)
        for display in (-1, 100, True, "2"):
            table = {**self.good_table, "display": display}
            refusal = self.assertRaises(ConfigError, DIALER.parse, "desk1", table, "r")
            self.assertEqual(refusal.where, "r.display")
