"""The pages for newcomers and operators name commands and options that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from svc.cli import svc

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^    (.*\bsvc .*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]*\bsvc [^`\n]*)`")


def commands(text: str) -> Iterator[list[str]]:
    """The words after each ``svc`` that a page shows as a command."""
    for shown in (*_BLOCK.findall(text), *_INLINE.findall(text)):
        for found in re.finditer(r"(?:^|[ =(])svc (?=[a-z-])([^>#;)']*)", shown):
            yield shlex.split(found[1])


def typed(text: str) -> Iterator[list[str]]:
    """The words of each line that a page shows as typed, whole."""
    text = re.sub(r"\\\n\s*", "", text)  # of a command over several lines
    for line in re.findall(r"^ *(?:    |\$ )svc ((?!is\b|up:).*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        end = next((at for at, word in enumerate(words) if word.startswith(">")), len(words))
        yield words[:end]


def judge(words: list[str]) -> None:
    """Parse as the command line would, without running anything."""
    command: click.Command = svc
    context = click.Context(command, info_name="svc")
    rest = words
    while True:
        parser = command.make_parser(context)
        parser.allow_interspersed_args = not isinstance(command, click.Group)
        _, rest, _ = parser.parse_args(list(rest))
        if not isinstance(command, click.Group) or not rest:
            return
        found = command.get_command(context, rest[0])
        if found is None:
            raise AssertionError(f"svc {shlex.join(words)}: there is no {rest[0]!r}")
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context, info_name=command.name)


class QuickstartTests(SynchronousTestCase):
    """What a newcomer types is taken."""

    def test_commands_parse(self) -> None:
        """Every command of the quickstart and of the README has a form that svc knows."""
        for page in ("docs/quickstart.md", "README.md"):
            found = list(commands((ROOT / page).read_text("utf-8")))
            self.assertTrue(found or page == "README.md")
            for words in found:
                judge(words)

    def test_how_to(self) -> None:
        """Every command line that a how-to page shows has a form that svc knows."""
        count = 0
        for page in sorted((ROOT / "docs" / "how-to").glob("*.md")):
            for words in typed(page.read_text("utf-8")):
                count += 1
                with self.subTest(page=page.name, words=words):
                    judge(words)
        self.assertGreater(count, 90)

    def test_wrong_ones_would_be_seen(self) -> None:
        """A misspelled option or command does not parse."""
        self.assertRaises(click.UsageError, judge, ["demo", "--onec"])
        self.assertRaises(AssertionError, judge, ["authority", "nodes", "addd"])
