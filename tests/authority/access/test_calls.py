"""Signed calls about requests for access: whose they are, and what comes of them."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.messages.access import (
    NONCE_BYTES,
    AccessCall,
    AccessDecide,
    AccessEntry,
    AccessList,
    AccessShow,
    AccessWithdraw,
    SignedAccessCall,
    encode_access_call,
)
from svc.model.policy.approval import Approval, ApprovalDecision, ApprovalKind, encode_approval
from svc.model.policy.requested import AccessAsk
from svc.model.signing import Purpose, sign
from tests.authority.house import EVE, POLICY, Holder, House, refusal_of, value_of
from tests.pki.support import CLUSTER

REQUESTABLE = """
@id("all-see") permit (principal, action == Action::"view", resource == TcpService::"vault1");
@id("on-request") @requestable
permit (principal, action == Action::"tcpConnect", resource == TcpService::"vault1")
when { context has approved_request };
@id("dev-approves")
permit (principal in Group::"dev", action == Action::"approveAccess", resource);
"""


class CallTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = House(POLICY + REQUESTABLE)
        self.calls = self.house.access_calls()
        self.proxy = self.house.row(self.house.proxy)

    def signed(self, who: Holder, call: Any, **fields: Any) -> SignedAccessCall:
        whole = AccessCall(
            cluster=CLUSTER,
            proxy_id=self.proxy.id,
            issued_at_ms=int(self.house.now() * 1000),
            certificate_sha256=who.sha256,
            nonce=self.house.entropy(NONCE_BYTES),
            call=call,
        )
        data = encode_access_call(evolve(whole, **fields))
        signature = sign(who.key, Purpose.ACCESS_CALL, data)
        return SignedAccessCall(call=data, signature=signature, chain=who.chain)

    def called(self, who: Holder, call: Any) -> list[AccessEntry]:
        entries = value_of(self.calls.answer(self.signed(who, call), self.proxy))
        assert isinstance(entries, list)
        return entries

    def refused(self, signed: SignedAccessCall) -> str:
        return refusal_of(self.calls.answer(signed, self.proxy)).reason

    def test_every_call(self) -> None:
        """Each call reaches the person's own requests, or those that the person may decide."""
        ada, eve = self.house.ada, self.house.eve
        ask = AccessAsk(resource="vault1", secs=60, reason="incident", uses=2)
        (entry,) = self.called(eve, ask)
        id = str(entry.terms["id"])
        self.assertEqual((entry.terms["person"], entry.terms["uses"]), (EVE, 2))
        self.assertEqual(self.called(eve, AccessList()), [entry])
        self.assertEqual(self.called(ada, AccessList(to_decide=True)), [entry])
        self.assertEqual(self.called(ada, AccessList()), [])
        self.assertEqual(self.called(ada, AccessShow(id)), [entry])
        now = int(self.house.now())
        approval = Approval(
            cluster=CLUSTER,
            kind=ApprovalKind.ACCESS,
            subject=id,
            document_sha256=entry.document_sha256,
            decision=ApprovalDecision.APPROVE,
            approver=ada.id,
            certificate_sha256=ada.sha256,
            made_at=now,
            expires_at=now + 60,
        )
        data = encode_approval(approval)
        decide = AccessDecide(id, data, sign(ada.key, Purpose.APPROVAL, data))
        (approved,) = self.called(ada, decide)
        self.assertEqual((approved.state, approved.ends_at), ("approved", now + 60))
        (withdrawn,) = self.called(eve, AccessWithdraw(id))
        self.assertEqual(withdrawn.state, "withdrawn")

    def test_a_call_must_be_the_persons_own_fresh_and_new(self) -> None:
        """A call that is old, for another Proxy, used, forged or of a revoked certificate fails."""
        ada, call = self.house.ada, AccessList()
        self.assertEqual(self.refused(self.signed(ada, call, issued_at_ms=1)), "request_stale")
        other = self.signed(ada, call, proxy_id="z" * 26)
        self.assertEqual(self.refused(other), "request_wrong_proxy")
        self.assertEqual(
            self.refused(self.signed(ada, call, cluster="c2.test")), "request_wrong_proxy"
        )
        self.assertEqual(
            self.refused(evolve(self.signed(ada, call), chain=self.house.eve.chain)),
            "bad_signature",
        )
        taken = self.signed(ada, call)
        value_of(self.calls.answer(taken, self.proxy))
        self.assertEqual(self.refused(taken), "request_replayed")
        self.house.run(lambda tx: tx.certificates.revoke(ada.sha256, 9.0))
        self.assertEqual(self.refused(self.signed(ada, call)), "revoked_certificate")

    def test_brought_again_after_a_failover(self) -> None:
        """Another Authority, which has not seen a call, files nothing by it a second time."""
        eve = self.house.eve
        asked = self.signed(eve, AccessAsk(resource="vault1", secs=60, reason="incident"))
        (entry,) = value_of(self.calls.answer(asked, self.proxy))
        self.calls = self.house.access_calls()
        (again,) = value_of(self.calls.answer(asked, self.proxy))
        self.assertEqual(again, entry, "it is open still")
        self.called(eve, AccessWithdraw(str(entry.terms["id"])))
        self.calls = self.house.access_calls()
        self.assertEqual(self.refused(asked), "request_replayed")
        self.assertEqual([one.state for one in self.called(eve, AccessList())], ["withdrawn"])
        self.assertEqual(len(self.house.records("access.request")), 1)

    def test_asking_and_withdrawing_have_a_budget(self) -> None:
        """Who asks and withdraws again and again is told to wait; looking costs nothing of it."""
        eve, told = self.house.eve, set()
        for count in range(10):
            (entry,) = self.called(eve, AccessAsk(resource="vault1", secs=60, uses=count + 1))
            told.add(str(entry.terms["id"]))
            self.called(eve, AccessWithdraw(str(entry.terms["id"])))
        ask = AccessAsk(resource="vault1", secs=60)
        refusal = refusal_of(self.calls.answer(self.signed(eve, ask), self.proxy))
        self.assertEqual(refusal.reason, "too_many_requests")
        self.assertIn("10 times a minute; try again in 6 s", refusal.text)
        withdraw = self.signed(eve, AccessWithdraw(told.pop()))
        self.assertEqual(self.refused(withdraw), "too_many_requests")
        self.called(eve, AccessList())
        self.called(self.house.ada, AccessList(to_decide=True))
        self.assertEqual(len(self.house.records("access.request")), 10)
        value_of(self.house.refusals.summarise())
        (summary,) = self.house.records("refusals.summary")
        self.assertEqual((summary["actor"]["id"], summary["details"]["count"]), (EVE, 2))
        self.house.clock.advance(6)
        self.called(eve, ask)

    def test_a_disabled_person_is_refused(self) -> None:
        """Somebody who is disabled neither asks nor decides."""
        self.house.run(lambda tx: tx.people_changes.disable(EVE))
        self.house.refresh()
        ask = AccessAsk(resource="vault1", secs=60)
        self.assertEqual(self.refused(self.signed(self.house.eve, ask)), "disabled_person")
