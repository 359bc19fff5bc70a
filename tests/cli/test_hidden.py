"""Commands that only the program itself starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.policy.child import job
from svc.policy.prescan import PolicyLimits
from svc.policy.vocabulary import vocabulary
from tests.cli.terminal import POLICY, terminal

ROOT = Path(__file__).resolve().parents[2]


class GuardTests(SynchronousTestCase):
    """`_policy-guard`."""

    def tried(self, text: str) -> dict[str, str]:
        """What the command says of a policy text."""
        done = subprocess.run(
            [sys.executable, "-m", "svc", "_policy-guard"],
            input=job(text, vocabulary(), PolicyLimits()),
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=60,
        )
        return dict(json.loads(done.stdout))

    def test_answers(self) -> None:
        """It answers nothing for a good policy, and the reason for one that is none."""
        self.assertEqual(self.tried(POLICY), {})
        self.assertEqual(self.tried("permit (")["reason"], "policy_invalid")

    def test_shown_nowhere(self) -> None:
        """No help names it."""
        self.assertNotIn("policy-guard", terminal("--help").stdout)
