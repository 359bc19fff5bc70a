"""What test processes keep under the temporary directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.wheels import ROOT

_USE = (
    "from tests.support.temporary import process_directory\n"
    "made = process_directory('svc-here-')\n"
    "(made / 'file').touch()\n"
    "print(made)\n"
)


class TemporaryTests(SynchronousTestCase):
    def test_gone_with_its_process(self) -> None:
        """A directory for as long as a process lasts goes with it, and what is in it."""
        done = subprocess.run(
            [sys.executable, "-c", _USE], check=True, cwd=ROOT, capture_output=True, text=True
        )
        self.assertIn("svc-here-", done.stdout)
        self.assertFalse(Path(done.stdout.strip()).exists())
