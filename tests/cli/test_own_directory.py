"""``--dir`` of the person's commands, and questions that a script cannot be asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.terminal import terminal
from tests.cli.tree import every_command

_NOT_PERSONS = (
    "authority",
    "proxy",
    "connector",
    "all",
    "init",
    "demo",
    "service",
    "reload",
    "setup",
    "upgrade",
    "_policy-guard",
)
_ASK = "from svc.cli import *; from svc.cli.confirmation import *; confirm('Really?')"


class DirectoryTests(SynchronousTestCase):
    """A person with several identities names one in the same way everywhere."""

    def test_every_command_takes_it(self) -> None:
        """Every command of a person takes --dir, those that make an identity too."""
        for name, command in every_command().items():
            words = name.split()[1:]
            if words and words[0] not in _NOT_PERSONS:
                with self.subTest(command=name):
                    self.assertTrue(any("--dir" in one.opts for one in command.params))

    def test_names_the_configuration(self) -> None:
        """It is the same as --config with the client.toml there, so only one of them is given."""
        directory = Path(self.mktemp())
        for words in (["status"], ["logout"], ["requests", "list"], ["open"]):
            with self.subTest(words=words):
                done = terminal(*words, "--dir", str(directory))
                self.assertEqual(done.status, 1)
                self.assertIn(str(directory / "client.toml"), done.stderr)
                self.assertIn("svc login", done.stderr)
                both = terminal("--config", "x.toml", *words, "--dir", str(directory))
                self.assertEqual(both.status, 64)
                self.assertIn("--dir and --config", both.stderr)

    def test_first_sign_in_elsewhere(self) -> None:
        """A directory where nobody signed in yet does not sign in from another one."""
        done = terminal("login", "--dir", self.mktemp())
        self.assertEqual(done.status, 64)
        self.assertIn("--proxy: required for the first sign-in in", done.stderr)


class WhyTests(SynchronousTestCase):
    """``svc why`` before it asks anybody."""

    def test_shortened_id(self) -> None:
        """What can be no beginning of an id is not asked about, and what is wanted is said."""
        for word in ("066b", "066b…", "0" * 7, "0" * 33, "066b01cg"):
            done = terminal("why", word)
            self.assertEqual(done.status, 64)
            self.assertIn(
                "the id as the refusal printed it, 32 hex digits, or at least", done.stderr
            )


class QuestionTests(SynchronousTestCase):
    """What asks yes or no says which option answers it in a script."""

    def test_without_a_terminal(self) -> None:
        """Nobody is asked where nobody can answer; the option is named, and nothing is dialed."""
        for words in (
            ["request", "--decision", "ab" * 16],
            ["requests", "approve", "ab" * 16],
            ["requests", "deny", "ab" * 16],
            ["authority", "policy", "approve", "ab" * 16],
        ):
            with self.subTest(words=words):
                done = terminal(*words)
                self.assertEqual(done.status, 64, done.stderr)
                self.assertIn("stdin is not a terminal", done.stderr)
                self.assertIn("--yes", done.stderr)

    def test_answers(self) -> None:
        """No changes nothing, and is told apart from an interruption."""
        for answer, said in (("y", ""), ("n", "NotConfirmed"), ("\x04", "Abort")):
            with self.subTest(answer=answer):
                self.assertIn(said, self.answered(answer))

    def answered(self, answer: str) -> str:
        mine, its = os.openpty()
        self.addCleanup(os.close, mine)
        process = subprocess.Popen(
            [sys.executable, "-c", _ASK], stdin=its, stderr=subprocess.PIPE, start_new_session=True
        )
        os.close(its)
        os.write(mine, f"{answer}\n".encode())
        _, told = process.communicate(timeout=60)
        return told.decode()
