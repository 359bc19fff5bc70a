"""Approvals that requests inside open sessions use, before they pass."""

from __future__ import annotations

from attrs import evolve

from svc.authority.access.approved import UsedApproval
from svc.errors import TooMany
from svc.messages.access import ApprovalForRequests
from svc.messages.session import decode_grant, encode_grant
from svc.model.ids import agent_id
from svc.model.signing import Purpose
from tests.authority.access.test_requests import Case as RequestCase
from tests.authority.house import ADA, EVE, value_of


class UseTests(RequestCase):
    def test_uses_of_single_requests(self) -> None:
        """A session's requests use an approval of their action, each on record before it passes."""
        uses = self.house.request_approvals()
        session = self.open_session()
        uid = self.uid_of(session)
        self.assertIsNone(self.used_by(uses, session).approved)
        self.decide(self.ask(uses=1), self.house.ada)
        found = self.used_by(uses, session)
        self.assertEqual((found.approved.approver, found.lasting), (ADA, False))
        self.assertIsNone(self.used_by(uses, session).approved)
        (record,) = self.house.records("access.use")
        self.assertEqual((record["session_uid"], record["actor"]["id"]), (uid, EVE))
        facts = value_of(self.house.approvals().facts_of(uid, "tcpConnect"))
        self.assertEqual(facts, [UsedApproval(found.approved.fact, 1)])
        self.assertEqual(value_of(self.house.approvals().facts_of(uid, "view")), [])
        self.decide(self.ask(), self.house.ada)
        self.assertTrue(self.used_by(uses, session).lasting)

    def test_a_lasting_use_is_recorded_once(self) -> None:
        """A Proxy that asks again for what it has gets it without a further record (rule R12)."""
        uses, session = self.house.request_approvals(), self.open_session()
        entry = self.ask()
        self.decide(entry, self.house.ada)
        first = self.used_by(uses, session)
        self.house.access_told.clear()
        for _ in range(5):
            self.assertEqual(self.used_by(uses, session), first)
        self.assertEqual(len(self.house.records("access.use")), 1)
        self.assertEqual(self.house.access_told, [])
        value_of(self.requests.withdraw(self.asker(EVE), str(entry.terms["id"])))
        self.assertIsNone(self.used_by(uses, session).approved)

    def test_uses_have_a_rate(self) -> None:
        """A Proxy that asks without end for one session is refused, and that is counted."""
        uses, session = self.house.request_approvals(), self.open_session()
        for _ in range(200):
            self.assertIsNone(self.used_by(uses, session, "view").approved)
        self.assertEqual(self.not_used_by(uses, session), "too_many_requests")
        (counted,) = self.house.refusals.refusal_counter.take()
        self.assertEqual((counted.caller.id, counted.budget), (self.proxy.id, "asks"))
        self.house.clock.advance(1)
        self.assertIsNone(self.used_by(uses, session, "view").approved)

    def test_unknown_sessions_use_up_the_proxys_budget(self) -> None:
        """A Proxy that names sessions it does not have brings what proves nothing."""
        uses = self.house.request_approvals()
        forged = evolve(self.open_session(), signature=bytes(64))
        for _ in range(3000):
            self.house.rates.admit(self.proxy.id)
            self.not_used_by(uses, forged)
        self.assertRaises(TooMany, self.house.rates.admit, self.proxy.id)

    def test_uses_of_another_proxys_session(self) -> None:
        """A Proxy uses approvals for sessions that are open at it, and for no others."""
        uses, session = self.house.request_approvals(), self.open_session()
        other = evolve(self.proxy, id="o" * 26)
        self.assertEqual(self.not_used_by(uses, session, other), "unknown_session")
        self.assertEqual(self.used_by(uses, session), ApprovalForRequests(None))
        uid = self.uid_of(session)
        self.house.run(lambda tx: tx.sessions.ask_end(uid, "ended_by_operator"))
        self.assertEqual(self.not_used_by(uses, session), "unknown_session")
        self.house.by_sql("UPDATE sessions SET end_reason = ''")
        self.used_by(uses, session)
        self.house.by_sql("DELETE FROM sessions")
        self.assertEqual(self.not_used_by(uses, session), "unknown_session")

    def test_an_agents_session_uses_none(self) -> None:
        """Only people have approvals."""
        grant = evolve(decode_grant(self.open_session().payload), person_id=agent_id(bytes))
        signed = self.house.world.keys.signer(Purpose.GRANT)(encode_grant(grant))
        uses = self.house.request_approvals()
        self.assertEqual(self.not_used_by(uses, signed), "unknown_session")


del RequestCase
