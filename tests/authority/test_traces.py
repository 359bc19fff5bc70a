"""What Authority says of an open on the span of its call."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.authority.house import ADA, House, refusal_of, value_of
from tests.support.proof import proves
from tests.telemetry.recorded import Recorded


class AuthorizeSpanTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = House()
        self.issuance = self.house.issuance()
        self.proxy = self.house.row(self.house.proxy)
        self.recorded = Recorded()
        self.issuance.note = self.recorded.traces.note

    def facts(self, ask: Any, told: Any = value_of) -> dict[str, object]:
        """What the span of the call for *ask* says."""

        async def served() -> object:
            span = self.recorded.traces.spans("authorize", {})
            try:
                return await self.issuance.authorize(ask, self.proxy)
            finally:
                span.end()

        told(served())
        span = self.recorded.spans[-1]
        self.assertNotIn(ADA, span.to_json())
        return dict(span.attributes or {})

    def test_what_was_decided(self) -> None:
        """A grant, a denial and a resource nobody serves each say so."""
        self.house.serve("db1")
        for resource, decision in (("db1", "allow"), ("prod1", "deny"), ("db2", "not_served")):
            facts = self.facts(self.house.ask(self.house.ada, resource))
            self.assertRegex(str(facts.pop("session_uid")), "^[0-9a-f]{32}$")
            expected = {"action": "connect", "resource": resource, "decision": decision}
            self.assertEqual(facts, expected)

    def test_what_is_not_believed(self) -> None:
        """Of a request that is not the person's own nothing is said but that it was refused."""
        ask = self.house.ask(self.house.ada)
        self.facts(ask)
        self.assertEqual(self.facts(ask, refusal_of), {"decision": "deny"})

    @proves("G-OPEN-10")
    def test_the_records_name_the_trace(self) -> None:
        """The records of a call hold its trace, granted, denied or refused; untraced, nothing."""
        self.house.serve("db1")
        self.issuance.trace_id = self.recorded.traces.trace_id
        ask = self.house.ask(self.house.ada, "db1")
        for each, told in (
            (ask, value_of),
            (self.house.ask(self.house.ada, "prod1"), value_of),
            (ask, refusal_of),
        ):
            before = len(self.house.records())
            self.facts(each, told)
            context = self.recorded.spans[-1].get_span_context()
            assert context is not None
            records = self.house.records()[before:]
            self.assertTrue(records)
            self.assertEqual({one["trace_id"] for one in records}, {f"{context.trace_id:032x}"})
        before = len(self.house.records())
        value_of(self.issuance.authorize(self.house.ask(self.house.ada, "db1"), self.proxy))
        self.assertEqual([one.get("trace_id") for one in self.house.records()[before:]], [None] * 2)
