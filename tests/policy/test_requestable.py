"""Policies that people may ask for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.policy.refusals import PolicyRefused
from svc.policy.requestable_reasons import requestable_reasons
from tests.policy.samples import ask, engine

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

    def test_reasons(self) -> None:
        """The permits that would turn a denial are told with their reasons, exact ones too."""
        some, exact = "context has approved_request", "context.approved_request has exact"
        text = f"""
@id("reads") @requestable @reason("ask the lead")
permit (principal, action == Action::"dbQuery", resource == Database::"r1") when {{ {some} }};
@id("writes") @requestable @reason("ask the owner")
permit (principal, action == Action::"dbQuery", resource == Database::"r2")
when {{ {some} && {exact} }};
@id("either") @requestable
permit (principal, action == Action::"dbQuery", resource == Database::"r3") when {{ {some} }};
@id("both") @requestable @reason("ask either")
permit (principal, action == Action::"dbQuery", resource == Database::"r3")
when {{ {some} && {exact} }};
@id("never") @requestable @reason("ask nobody")
permit (principal, action == Action::"dbQuery", resource == Database::"r4") when {{ {some} }};
@id("none") forbid (principal, action, resource == Database::"r4");
"""
        compiled = engine(text)
        for resource, told in {
            "r1": {"reads": "ask the lead"},
            "r2": {"writes": "ask the owner"},
            "r3": {"either": "", "both": "ask either"},
            "r4": {},
            "r5": {},
        }.items():
            with self.subTest(resource):
                asked = ask(resource=resource, action="dbQuery", kind="db_query", type_="Database")
                self.assertEqual(requestable_reasons(compiled, asked, 9, has_text=True), told)
                # What has no text, such as a session's opening, turns by no exact approval.
                told = {one: said for one, said in told.items() if one not in ("writes", "both")}
                self.assertEqual(requestable_reasons(compiled, asked, 9), told)
