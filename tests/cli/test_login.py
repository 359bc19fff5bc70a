"""What ``svc login`` says before it asks, and after it signed in."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.accounts.passwords import PasswordRefused, check_password
from svc.cli.local_login import PASSWORD_RULE, LocalWords, PasskeyWords
from svc.cli.login import next_steps
from svc.errors import UsageError
from svc.model.cluster.account import PASSWORD_DIFFERENT, PASSWORD_MIN


class PasswordRuleTests(SynchronousTestCase):
    """A person who chooses a password."""

    def test_told_before_it_is_asked_for(self) -> None:
        """Who enrolls reads what a password must be before typing one."""
        words = LocalWords(
            name="ada",
            enrolls=True,
            is_first=False,
            code_file=None,
            has_key=False,
            passkey=PasskeyWords(False, False),
        )
        unreached: Any = None
        with CliRunner().isolation(input=b"CODE\n") as (_, err, _):
            running = Deferred.fromCoroutine(words.run(unreached, None))
            refused = self.failureResultOf(running, UsageError).value
            said = err.getvalue().decode()
        self.assertIn("New password", str(refused))
        self.assertIn(PASSWORD_RULE, said)

    def test_is_what_the_authority_checks(self) -> None:
        """A password that just keeps the rule is taken; one that just breaks it is refused."""
        good = "abcdefghijklmnop"[:PASSWORD_DIFFERENT].ljust(PASSWORD_MIN, "a")
        check_password(good, "eve", PASSWORD_MIN)
        for bad in (good[1:], good.replace("b", "a"), f"eve{good}"):
            self.assertRaises(PasswordRefused, check_password, bad, "eve", PASSWORD_MIN)


class NextStepsTests(SynchronousTestCase):
    """The commands that are printed after a sign-in."""

    def test_administrators(self) -> None:
        """An administrator is told how to administer, with the directory that was given."""
        first, *others = next_steps(("administrators", "staff"), " --dir /a")
        self.assertTrue(first.startswith("svc authority --dir /a status "))
        self.assertEqual(others, next_steps(("staff",), " --dir /a"))
        self.assertTrue(all(one.startswith("svc ") and "--dir /a" in one for one in others))
