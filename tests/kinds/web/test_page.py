"""The policies that the page shows fit the kind's words."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.web.terms import TERMS
from svc.policy.compile import compile_policy
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import vocabulary
from svc.policy.words import OPERATORS_POLICY
from tests.support.wheels import ROOT


class PageTests(SynchronousTestCase):
    """docs/how-to/web.md."""

    def test_policies(self) -> None:
        """Each is one that can be put in force where the kind is enabled."""
        page = Path(ROOT, "docs", "how-to", "web.md").read_text("utf-8")
        shown = re.findall(r"```cedar\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(shown), 3)
        words = vocabulary(kind_terms(TERMS))
        compile_policy(OPERATORS_POLICY + "\n".join(shown), words, (), version=1)
