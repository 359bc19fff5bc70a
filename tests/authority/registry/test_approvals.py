"""An approval is taken from its approver, for what was shown, while it is fresh."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.approvals import Approvable, ApprovalRefused, check_kept, check_new
from svc.errors import SvcError
from svc.model.policy.approval import (
    MAX_VALID_SECS,
    Approval,
    ApprovalDecision,
    ApprovalKind,
    document_digest,
    encode_approval,
)
from svc.model.signing import Purpose, Signed, sign
from tests.authority.house import Holder, House
from tests.pki.support import CLUSTER
from tests.support.proof import proves

DOCUMENT = {"text": "permit(principal, action, resource);"}
SUBJECT = "aaaaaaaaaaaaaaaa"
BOB = "b" * 16


class ApprovalCheckTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = House()
        self.ada = self.house.ada
        self.wanted = Approvable(
            cluster=CLUSTER,
            kind=ApprovalKind.POLICY,
            subject=SUBJECT,
            document_sha256=document_digest(DOCUMENT),
            asked_by=BOB,
        )

    def signed(self, purpose: Purpose = Purpose.APPROVAL, **fields: Any) -> Signed:
        now = int(self.house.now())
        approval = Approval(
            cluster=CLUSTER,
            kind=ApprovalKind.POLICY,
            subject=SUBJECT,
            document_sha256=document_digest(DOCUMENT),
            decision=ApprovalDecision.APPROVE,
            approver=self.ada.id,
            certificate_sha256=self.ada.sha256,
            made_at=now,
            expires_at=now + MAX_VALID_SECS,
        )
        data = encode_approval(evolve(approval, **fields))
        return Signed(data, sign(self.ada.key, purpose, data), self.ada.chain)

    def refused(self, signed: Signed, **wanted: Any) -> str:
        error: SvcError = self.assertRaises(
            SvcError,
            check_new,
            signed,
            evolve(self.wanted, **wanted),
            self.house.world.verifier,
            self.house.now(),
        )
        return str(error.reason)

    def test_taken(self) -> None:
        """A fresh signature over what is shown is taken, with the certificate that made it."""
        approval, certificate = check_new(
            self.signed(), self.wanted, self.house.world.verifier, self.house.now()
        )
        self.assertEqual(approval.approver, self.ada.id)
        self.assertEqual(certificate.sha256, self.ada.sha256)

    def test_for_something_else(self) -> None:
        """Nothing else is approved by it, whichever field differs."""
        for change in (
            {"cluster": "other.example.test"},
            {"kind": ApprovalKind.ACCESS},
            {"subject": "c" * 16},
            {"document_sha256": document_digest({})},
        ):
            self.assertEqual(self.refused(self.signed(**change)), "approval_mismatch", change)
            self.assertEqual(self.refused(self.signed(), **change), "approval_mismatch", change)

    def test_another_signer(self) -> None:
        """The signature is by the certificate that the approval names, for this purpose alone."""
        self.assertEqual(self.refused(self.signed(approver="c" * 16)), "approval_mismatch")
        other = self.signed(certificate_sha256=b"\x01" * 32)
        self.assertEqual(self.refused(other), "approval_mismatch")
        self.assertEqual(self.refused(self.signed(Purpose.WHY_REQUEST)), "bad_signature")
        good = self.signed()
        altered = evolve(good, payload=good.payload.replace(b"approve", b"approvd", 1))
        self.assertEqual(self.refused(altered), "bad_signature")

    def test_a_node(self) -> None:
        """A node is no person: its certificate approves nothing."""
        proxy: Holder = self.house.proxy
        data = self.signed().payload
        signed = Signed(data, sign(proxy.key, Purpose.APPROVAL, data), proxy.chain)
        self.assertEqual(self.refused(signed), "certificate_role")

    @proves("G-OPEN-58")
    def test_own(self) -> None:
        """Who asked cannot approve, whatever certificate they sign with."""
        self.assertEqual(self.refused(self.signed(), asked_by=self.ada.id), "own_approval")

    def test_not_made_now(self) -> None:
        """A signature collected ahead of time, or from a clock that is wrong, is refused."""
        now = int(self.house.now())
        for made_at in (now - 60, now + 60):
            signed = self.signed(made_at=made_at, expires_at=made_at + 3600)
            self.assertEqual(self.refused(signed), "approval_stale")

    def test_kept(self) -> None:
        """A kept approval holds until its own end, though its certificate has ended by then."""
        signed = self.signed()

        def kept(now: float) -> Approval:
            return check_kept(
                payload=signed.payload,
                signature=signed.signature,
                key=self.ada.key.public_key(),
                certificate_sha256=self.ada.sha256,
                wanted=self.wanted,
                now=now,
            )

        end = int(self.house.now()) + MAX_VALID_SECS
        self.assertEqual(kept(end - 1).approver, self.ada.id)
        self.assertEqual(self.assertRaises(ApprovalRefused, kept, end).reason, "approval_expired")
