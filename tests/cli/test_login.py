"""What ``svc login`` says before it asks, and after it signed in."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from click.testing import CliRunner
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.accounts.passwords import PasswordRefused, check_password
from svc.cli.local_login import LocalWords, PasskeyWords
from svc.cli.login import next_steps
from svc.errors import Fault, SvcError, UsageError
from svc.join.account import RULE_METHOD
from svc.model.cluster.account import PASSWORD_DIFFERENT, PASSWORD_MIN
from svc.proto.gate.v1 import account_pb2 as pb


@frozen
class _Machine:
    """Reaches an Authority that answers one question."""

    answer: Any

    async def unary(self, method: str, asked: Any, of: Any) -> Any:
        assert (method, of) == (RULE_METHOD, pb.PasswordRuleResponse)
        if isinstance(self.answer, SvcError):
            raise self.answer
        return self.answer


class PasswordRuleTests(SynchronousTestCase):
    """A person who chooses a password."""

    def test_told_before_it_is_asked_for(self) -> None:
        """Who enrolls reads what this Authority wants of a password before typing one."""
        for answer, told in (
            (pb.PasswordRuleResponse(least=17), "at least 17 characters, "),
            (
                SvcError("no such method", fault=Fault.UNIMPLEMENTED),
                "your Authority asks for (12 by default), ",
            ),
        ):
            self.assertIn(told, self.said(answer))

    def said(self, answer: Any) -> str:
        """What stands on stderr when the password is asked for."""
        words = LocalWords(
            name="ada",
            enrolls=True,
            is_first=False,
            code_file=None,
            has_key=False,
            passkey=PasskeyWords(False, False),
        )
        machine: Any = _Machine(answer)
        with CliRunner().isolation(input=b"CODE\n") as (_, err, _):
            running = Deferred.fromCoroutine(words.run(machine, None))
            refused = self.failureResultOf(running, UsageError).value
            said: str = err.getvalue().decode()
        self.assertIn("New password", str(refused))
        return said

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
