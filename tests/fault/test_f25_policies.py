"""F25: policies that would end a process, or are none, are refused by a live Authority.

However they reach it; the policy before stays in force, and the gauges tell the two apart.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, POLICY
from tests.fault.bad_policies import HOSTILE, bad_policies, policy
from tests.fault.tally import Tally, counted
from tests.support.proof import proves
from tests.system.common import ada, shared
from tests.system.second_writer import removed, stored, taken_over

TALLY = Tally("F25")
MANY = counted(len(HOSTILE), 100)
APPLIED, STORED = "svc_policy_version_applied", "svc_policy_version_stored"
ERRS = policy("9223372036854775807 + 1 > 0")
"""Valid; deciding on it overflows."""


class GuardTests(SynchronousTestCase):
    """One Authority lives through all of it."""

    def setUp(self) -> None:
        self.gateway = shared()
        self.pid = self.gateway.child(AUTHORITY).pid
        self.version = self.gateway.status()["policy_version"]

    def lives(self) -> None:
        """The same process lives, under the policy that was in force before."""
        os.kill(self.pid, 0)
        self.assertTrue(self.gateway.child(AUTHORITY).is_alive)
        self.assertEqual(self.gateway.child(AUTHORITY).pid, self.pid)
        self.assertEqual(self.gateway.status()["policy_version"], self.version)

    def refusal(self, version: int) -> dict[str, Any]:
        """What the Authority's log says of a stored version, waited for."""
        child = self.gateway.child(AUTHORITY)
        message = "a stored policy was refused; the previous one stays active"

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
        self.assertEqual(self.gateway.get(AUTHORITY, "/readyz")[0], 200)

    @proves("G-POL-02", "G-MET-43", "G-MET-44")
    def test_found_in_store(self) -> None:
        """Found in the store each is refused as well; the old one stays in force."""
        reasons = {label: reason for label, (_, reason) in HOSTILE.items()}
        self.addCleanup(self.serves)
        for label, text in bad_policies(MANY):
            with TALLY.one():
                version = stored(self.gateway, text)
                self.addCleanup(removed, self.gateway, version)
                with TALLY.timed():
                    reason = self.refusal(version)["reason"]
                self.assertEqual(reason, reasons.get(label, reason), label)
                self.assertTrue(reason.startswith("policy_"), label)
                self.assertTrue(self.gateway.child(AUTHORITY).is_alive, label)
                for series, value in ((STORED, version), (APPLIED, self.version)):
                    self.gateway.await_metric(AUTHORITY, series, value)
        self.lives()

    def serves(self) -> None:
        """Once they are gone, and what was written of them is taken over."""
        taken_over(self.gateway)
        self.assertEqual(self.gateway.status()["policy_version"], self.version)
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
            until(
                "only the policy is missing",
                lambda: self.gateway.get(AUTHORITY, "/readyz") == (503, "not ready: policy\n"),
            )
        finally:
            self.gateway.child(AUTHORITY).kill()
            removed(self.gateway, version)
            taken_over(self.gateway)
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
