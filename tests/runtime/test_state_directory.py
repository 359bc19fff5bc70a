"""The directory of a role: its own, and one process's at a time."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.runtime.state_directory import StateDirectory


class ClaimTests(SynchronousTestCase):
    """Claiming it."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp()).absolute()

    def refused(self) -> str:
        """Why it cannot be claimed."""
        refusal: ConfigError = self.assertRaises(ConfigError, StateDirectory(self.path).claim)
        self.assertEqual(refusal.where, "state_dir")
        return refusal.what

    def test_one_at_a_time(self) -> None:
        """Whoever comes second is told, and comes in once the first has let go."""
        first = StateDirectory(self.path)
        first.claim()
        self.assertIn("another process is using it", self.refused())
        first.release()
        StateDirectory(self.path).claim()

    def test_open_to_others(self) -> None:
        """One that others can enter is refused, with the command that closes it."""
        self.path.mkdir(mode=0o755)
        self.path.chmod(0o755)
        self.assertIn(f"run chmod 700 {self.path}", self.refused())

    def test_a_lock_that_cannot_be_opened(self) -> None:
        """On a disk that takes nothing, or where something else has its name, that is said."""
        (self.path / "lock").mkdir(mode=0o700, parents=True)
        self.path.chmod(0o700)
        self.assertIn(f"{self.path / 'lock'}: cannot be opened: is a directory", self.refused())
