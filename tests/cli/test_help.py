"""What ``--help`` shows, read by somebody who has never typed the command."""

from __future__ import annotations

import re
import shlex
from inspect import cleandoc

import click
from twisted.trial.unittest import SynchronousTestCase

from tests.cli.terminal import terminal
from tests.cli.tree import every_command
from tests.demo.test_quickstart import judge

OLDER = ("svc authority migrate", "svc authority verify-audit")
"""Spellings that no help shows; theirs is the help of the other one."""

_EXAMPLE = re.compile(r"\bsvc ([^>)|']*)")


def examples(command: click.Command) -> list[str]:
    """The lines that a shell is given, each whole."""
    _, _, text = cleandoc(command.help or "").partition("\nExample:\n")
    return [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines()]


class HelpTests(SynchronousTestCase):
    """Examples in the help of commands."""

    def test_examples_parse(self) -> None:
        """Each example has a form that svc knows, and most are of the command that shows it."""
        for name, command in every_command().items():
            shown = examples(command)
            for line in shown:
                with self.subTest(command=name, line=line):
                    found = _EXAMPLE.search(line)
                    assert found is not None
                    judge(shlex.split(found[1], comments=True))
            if shown and name not in OLDER:
                words = name.split()[1:]
                last = shown[-1].partition("svc")[2]
                self.assertTrue(re.search(rf"\b{' .*'.join(words)}\b", last), name)

    def test_who_has_one(self) -> None:
        """A command that cannot be typed without options has an example."""
        for name, command in every_command().items():
            if any(isinstance(one, click.Option) and one.required for one in command.params):
                self.assertNotEqual(examples(command), [], name)

    def test_not_wrapped(self) -> None:
        """An example is shown as it is typed, however narrow the terminal is."""
        told = terminal("authority", "policy", "check", "--help").stdout
        self.assertIn("\n  Example:\n      svc --config authority.toml authority policy", told)
        self.assertIn(" --as ada \\\n          --action dbQuery --resource orders", told)
        self.assertIn("\n      svc demo  ", terminal("--help").stdout)
