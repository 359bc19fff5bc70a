"""Which way a command takes: the host's control socket, or a Proxy."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.tree import every_command
from tests.system.admin_commands import ANYWHERE, ON_THE_HOST, REMOTE

ROOT = "svc authority"


class TableTests(SynchronousTestCase):
    """The table that the system's test types."""

    def test_whole(self) -> None:
        """Every command is in it, once."""
        names = {
            name.removeprefix(ROOT).strip() for name in every_command() if name.startswith(ROOT)
        }
        known = [*REMOTE, *ON_THE_HOST, *ANYWHERE]
        self.assertEqual(sorted(names), sorted(known))
