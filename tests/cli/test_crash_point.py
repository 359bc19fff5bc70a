"""``SVC_CRASH_AT``, as far as a process that is to go on can show it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.cli import Globals
from svc.cli.roles import crash_point
from svc.errors import ConfigError


class CrashPoint(SynchronousTestCase):
    """The variable's forms."""

    def test_without_it_nothing_happens(self) -> None:
        """A process without the variable passes every point."""
        crash_point(Globals(None, {}))("before_commit")

    def test_other_points_and_earlier_times_are_passed(self) -> None:
        """Only the Nth time at the named point counts."""
        crash = crash_point(Globals(None, {"SVC_CRASH_AT": "before_commit:3"}))
        for _ in range(2):
            crash("before_commit")
        for _ in range(5):
            crash("after_commit")

    def test_a_wrong_number_is_refused(self) -> None:
        """A number that can never come names the variable."""
        for wrong in ("a:0", "a:-1", "a:x", "a:1.5"):
            with self.assertRaises(ConfigError) as caught:
                crash_point(Globals(None, {"SVC_CRASH_AT": wrong}))
            self.assertIn("SVC_CRASH_AT", caught.exception.text)
