"""Policy texts that would end a process: refused by a live Authority, however they reach it."""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.processes import until
from svc.testing.settings import AUTHORITY, POLICY
from tests.proof import proves
from tests.system.common import ada, shared
from tests.system.second_writer import removed, stored


def policy(condition: str) -> str:
    """A policy with this condition, behind those the gateway has."""
    scope = 'principal, action in Action::"use", resource'
    return f'{POLICY}\n@id("hostile") forbid ({scope}) when {{ {condition} }};\n'


HOSTILE = {
    "800 parentheses": (policy("(" * 800 + "true" + ")" * 800), "policy_too_deep"),
    "1,400 terms": (policy(" && ".join(["true"] * 1_400)), "policy_too_deep"),
    "5,000 missing attributes": (
        policy(" && ".join(["context.missing == 1"] * 5_000)), "policy_too_deep",
    ),
    "10 MB": (policy("true") + "//" + "x" * 10_000_000, "policy_too_large"),
    "no policy": ("permit everything", "policy_invalid"),
    "unknown word": (policy("principal.height > 3"), "policy_invalid"),
}  # fmt: skip
ERRS = policy("9223372036854775807 + 1 > 0")
"""Valid; deciding on it overflows."""


class GuardTests(SynchronousTestCase):
    """One Authority lives through all of it."""

    def setUp(self) -> None:
        self.gateway = shared()
        self.pid = self.gateway.child(AUTHORITY).pid
        self.version = self.gateway.status()["policy_version"]

    def lives(self) -> None:
        """The same process serves, under the policy that was in force before."""
        os.kill(self.pid, 0)
        self.assertTrue(self.gateway.child(AUTHORITY).is_alive)
        self.assertEqual(self.gateway.child(AUTHORITY).pid, self.pid)
        self.assertEqual(self.gateway.get(AUTHORITY, "/readyz")[0], 200)
        self.assertEqual(self.gateway.status()["policy_version"], self.version)

    def refusal(self, version: int) -> dict[str, Any]:
        """What the Authority's log says of a stored version, waited for."""
        child = self.gateway.child(AUTHORITY)
        message = "a stored policy is refused; the one before stays in force"

        def look() -> dict[str, Any] | None:
            of_it = [one for one in child.events(message) if one["version"] == version]
            return of_it[-1] if of_it else None

        return until(f"refusal of version {version}", look, alive=[child])

    def test_set(self) -> None:
        """``policy set`` refuses each hostile text by its word; the Authority lives."""
        for label, (text, reason) in HOSTILE.items():
            ran = self.gateway.operator("policy", "set", "-", stdin=text.encode(), check=False)
            self.assertEqual((ran.status, ran.stdout), (1, ""), label)
            self.assertIn(f"({reason})" if label != "10 MB" else "longer than", ran.stderr, label)
            self.assertLess(len(ran.stderr), 4_000, label)
        self.lives()

    @proves("G-POL-02")
    def test_found_in_store(self) -> None:
        """Found in the store each is refused as well, once; sessions go on under the old one."""
        for label, (text, reason) in HOSTILE.items():
            version = stored(self.gateway, text)
            self.addCleanup(removed, self.gateway, version)
            self.assertEqual(self.refusal(version)["reason"], reason, label)
        self.lives()
        opened = ada().svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"through")
        self.assertEqual((opened.status, opened.stdout), (0, "through"), opened.stderr)

    def test_found_at_start(self) -> None:
        """An Authority that finds one at its start lives, not ready, until it is gone."""
        version = stored(self.gateway, HOSTILE["800 parentheses"][0])
        try:
            self.gateway.child(AUTHORITY).kill()
            child = self.gateway.start(AUTHORITY, ready=False)
            self.assertEqual(self.refusal(version)["reason"], "policy_too_deep")
            until("telemetry", lambda: self.gateway.listening(AUTHORITY), alive=[child])
            self.assertEqual(self.gateway.get(AUTHORITY, "/readyz"), (503, "not ready: policy\n"))
        finally:
            removed(self.gateway, version)
        self.gateway.await_ready(AUTHORITY)
        self.assertEqual(self.gateway.status()["policy_version"], self.version)

    def test_forbid_that_errs(self) -> None:
        """A forbid whose condition fails denies: nobody is let in by its being skipped."""
        self.gateway.set_policy(ERRS)
        try:
            ran = ada().svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"through")
            self.assertEqual((ran.status, ran.stdout), (1, ""))
        finally:
            self.gateway.set_policy(POLICY)
        opened = ada().svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"through")
        self.assertEqual((opened.status, opened.stdout), (0, "through"), opened.stderr)
