"""The pages of docs/reference are what the code says."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference import __main__ as reference
from contrib.reference import audit, cli, config
from contrib.reference.pages import PAGES, stale, write
from svc.audit.log import verify
from svc.config.keys import KEYS

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


class PageTests(SynchronousTestCase):
    """Each page, committed as it was generated."""

    def test_up_to_date(self) -> None:
        """Every page says what the code says: make reference writes them again."""
        self.assertEqual(stale(REFERENCE), [])

    def test_edited(self) -> None:
        """A page that was edited by hand is found, and no other."""
        directory = Path(self.mktemp())
        write(directory)
        self.assertEqual({path.name for path in directory.iterdir()}, set(PAGES))
        edited = directory / "cli.md"
        edited.write_text(edited.read_text() + "\nAnd more.\n")
        self.assertEqual(stale(directory), ["cli.md"])
        edited.unlink()
        self.assertEqual(stale(directory), ["cli.md"])

    def test_another_word(self) -> None:
        """Only what is asked for by its name is done: a misspelled check writes nothing."""
        self.patch(reference, "write", self.fail)
        self.patch(sys, "stdout", StringIO())
        for words in (["--chek"], ["--help"], ["--check", "more"]):
            self.assertEqual(reference.main(words), 64)

    def test_every_key(self) -> None:
        """Each key of the configuration has its line."""
        page = config.markdown()
        for key in KEYS:
            self.assertIn(f"| `{key.path}` |", page)

    def test_every_command_has_its_section(self) -> None:
        """Each word of the operator's stands there with its options."""
        page = cli.markdown()
        for words in ("nodes add NAME", "policy set FILE", "audit show", "store migrate"):
            self.assertIn(f"`svc authority {words.split(' NAME')[0].split(' FILE')[0]}`", page)
        self.assertIn("| `--health` |", page)
        self.assertNotIn("_policy-guard", page)

    def test_kinds_of_fault(self) -> None:
        """The page of the log names exactly the kinds of fault that verifying can find."""
        source = Path(verify.__file__).read_text()
        found = set(re.findall(r'ChainFault\([^"]*?"([a-z_]+)"', source))
        shown = re.findall(
            r"^\| `([a-z_]+)` \| (?!text|number|flag)", audit.markdown(), re.MULTILINE
        )
        self.assertLessEqual(found, set(shown))
        self.assertIn("head_signature", found)
