"""The reference page."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log import verify
from svc.audit.log.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "audit.md"


class ReferenceTests(SynchronousTestCase):
    """What the page says is what the code does."""

    def test_page_is_made_from_the_code(self) -> None:
        """The page in the docs is the one that the catalogue gives."""
        self.assertEqual(PAGE.read_text(), page())

    def test_kinds_of_fault(self) -> None:
        """The page names exactly the kinds of fault that verifying can find."""
        source = Path(verify.__file__).read_text()
        found = set(re.findall(r'ChainFault\([^"]*?"([a-z_]+)"', source))
        told = set(re.findall(r"^\| `([a-z_]+)` \| (?!text|number|flag)", page(), re.MULTILINE))
        self.assertLessEqual(found, told)
        self.assertIn("head_signature", found)
