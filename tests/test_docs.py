"""What the documents name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.tools import PACKAGES

ROOT = Path(__file__).resolve().parents[1]


def _pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


class DocumentTests(SynchronousTestCase):
    """Links and commands in the documents."""

    def test_links_lead_somewhere(self) -> None:
        """Each link from one document to another file of the project finds it."""
        broken = [
            f"{page.relative_to(ROOT)}: {target}"
            for page in _pages()
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
            if not (page.parent / target).exists()
        ]
        self.assertEqual(broken, [])

    def test_settings_can_be_pasted(self) -> None:
        """No example sets `plugins.kinds` outside a table.

        At the end of a file TOML takes it as a key of the table above, which refuses it.
        """
        bare = [
            str(page.relative_to(ROOT))
            for page in _pages()
            for example in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.M | re.S)
            if re.match(r"\s*plugins\.", example)
        ]
        self.assertEqual(bare, [])

    def test_make_targets_exist(self) -> None:
        """Each `make` command that a document or the continuous integration names is a target."""
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        pages = [*_pages(), ROOT / ".ci/run"]
        named = {
            word
            for page in pages
            for word in re.findall(r"(?:^ *|`|=1 )make ([a-z-]+)", page.read_text(), re.MULTILINE)
        }
        self.assertIn("demo", named)
        self.assertEqual(sorted(named - targets), [])

    def test_ci_installs_every_tool(self) -> None:
        """Every package that a test may name is installed by the continuous integration."""
        text = (ROOT / ".ci/run").read_text()
        installed = set(re.findall(r"[\w/.-]+:([a-z][a-z0-9.-]+)", text))
        self.assertEqual(sorted(set(PACKAGES.values()) - installed), [])
