"""Policies that people may ask for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.policy.refusals import PolicyRefused
from tests.policy.samples import engine

READS = "when { context has approved_request }"


def _policy(effect: str, mark: str, condition: str) -> str:
    return f'@id("one") {mark} {effect} (principal, action, resource) {condition};'


class RequestableTests(SynchronousTestCase):
    def test_marked_permits_are_known(self) -> None:
        """A permit that reads the approval may be marked, with any value of the mark or none."""
        for mark in ("@requestable", '@requestable("yes")'):
            self.assertEqual(engine(_policy("permit", mark, READS)).requestable, {"one"})
        self.assertEqual(engine(_policy("permit", "", READS)).requestable, frozenset())

    def test_a_mark_that_promises_nothing_is_refused(self) -> None:
        """A forbid, and a permit that holds without an approval, cannot be marked."""
        cases = {
            "only a permit": _policy("forbid", "@requestable", READS),
            "without an approval": _policy("permit", "@requestable", ""),
        }
        for text, policy in cases.items():
            refusal = self.assertRaises(PolicyRefused, engine, policy)
            self.assertIn(text, refusal.text)
            self.assertIn("policy one", refusal.text)
