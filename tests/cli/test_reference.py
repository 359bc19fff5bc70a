"""The reference of the commands."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.cli import reference
from svc.config.page import write_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


class PageTests(SynchronousTestCase):
    """docs/reference/cli.md against the commands."""

    def test_page_is_up_to_date(self) -> None:
        """The page says what the commands say: python -m svc.cli.reference writes it again."""
        self.assertEqual(write_page(reference.markdown, ["--check", str(PAGE)]), 0)

    def test_stale_page_is_found(self) -> None:
        """A page that was edited by hand is told from the one that the commands make."""
        edited = Path(self.mktemp())
        write_page(reference.markdown, [str(edited)])
        edited.write_text(edited.read_text() + "\nAnd more.\n")
        self.assertEqual(write_page(reference.markdown, ["--check", str(edited)]), 1)

    def test_every_command_has_its_section(self) -> None:
        """Each word of the operator's stands there with its options."""
        page = reference.markdown()
        for words in ("nodes add NAME", "policy set FILE", "audit show", "store migrate"):
            self.assertIn(f"`svc authority {words.split(' NAME')[0].split(' FILE')[0]}`", page)
        self.assertIn("| `--health` |", page)
        self.assertNotIn("_policy-guard", page)
