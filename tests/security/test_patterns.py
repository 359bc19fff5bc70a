"""Texts made to keep a pattern busy."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

_READ = """
from svc.errors import ConfigError
from svc.kinds.address import read_address
try:
    read_address({"address": "a-" * 120 + "!:1"}, "r", None)
except ConfigError:
    print("refused")
"""


class PatternTests(SynchronousTestCase):
    def test_address_is_refused_at_once(self) -> None:
        """A target's address with one wrong mark at its end is refused, not tried for ever."""
        found = subprocess.run(
            [sys.executable, "-c", _READ], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(found.stdout.strip(), "refused")
