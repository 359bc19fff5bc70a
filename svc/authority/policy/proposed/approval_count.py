"""Counts the approvals of a proposed policy that are worth something now (rules R17 and R30).

Counted inside the transaction that activates the policy, from the rows that signed records stand
behind, and from the approvers' own signatures once more.  An approval counts once a person, and no
more once its day is over, its certificate was revoked, its person disabled, or the policy does not
let that person approve.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from attrs import define, frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from svc.authority.registry.approvals import Approvable, ApprovalRefused, check_kept
from svc.authority.registry.operators import factor_at
from svc.authority.state.tables import SignedRows
from svc.errors import SvcError
from svc.interfaces.policy import IPolicyEngine
from svc.model.certificate import CertificateFacts
from svc.model.cluster.person import require_active
from svc.model.policy.access import Decision
from svc.model.policy.approval import ApprovalDecision, ApprovalKind, document_digest
from svc.model.policy.proposal import Proposal, ProposalDecision
from svc.model.policy.requests import may_administer, user
from svc.model.signing import PublicKey
from svc.pki.profile import read_factor

APPROVE_POLICY = "approvePolicy"


@frozen
class CountedApproval:
    """One decision about a proposal, and why it does not count; empty where it does."""

    approval: ProposalDecision
    problem: str = ""


@define
class ApprovalCount:
    """Says which decisions about a proposal count.

    Attributes:
        engine: The policy in force, which says who may approve.
    """

    cluster: str
    engine: Callable[[], IPolicyEngine | None]
    now: Callable[[], float]

    def approvable(self, proposal: Proposal) -> Approvable:
        """What an approval of this proposal has to be for."""
        return Approvable(
            cluster=self.cluster,
            kind=ApprovalKind.POLICY,
            subject=proposal.id,
            document_sha256=document_digest(proposal.document(self.cluster)),
            asked_by=proposal.person,
        )

    def may_approve(self, person_id: str, factor_age: float | None = None) -> Decision | None:
        """The policy's answer; None while no policy is in force.

        Args:
            factor_age: How long before the approval was signed the person had presented a second
                factor; None where nobody knows.
        """
        engine, now = self.engine(), self.now()
        if engine is None:
            return None
        at = None if factor_age is None else now - factor_age
        asked = may_administer(user(person_id), APPROVE_POLICY, self.cluster, now, factor_at=at)
        return engine.decide(asked)

    def decisions(self, rows: SignedRows, proposal: Proposal) -> tuple[CountedApproval, ...]:
        """Every decision about it that a signed record stands behind."""
        return tuple(
            CountedApproval(one, self._problem(rows, proposal, one))
            for one in rows.policy_approvals(proposal.id)
        )

    def approvers(self, rows: SignedRows, proposal: Proposal) -> tuple[str, ...]:
        """The people whose approval counts now, by id."""
        return tuple(
            one.approval.approver
            for one in self.decisions(rows, proposal)
            if not one.problem and one.approval.decision is ApprovalDecision.APPROVE
        )

    def _problem(self, rows: SignedRows, proposal: Proposal, kept: ProposalDecision) -> str:
        try:
            self._check(rows, proposal, kept)
        except SvcError as refusal:
            return refusal.reason
        return ""

    def _check(self, rows: SignedRows, proposal: Proposal, kept: ProposalDecision) -> None:
        approval = check_kept(
            payload=kept.payload,
            signature=kept.signature,
            key=_key_of(kept.certificate),
            certificate_sha256=kept.certificate_sha256,
            wanted=self.approvable(proposal),
            now=self.now(),
        )
        if (approval.approver, approval.decision) != (kept.approver, kept.decision):
            raise ApprovalRefused("the row names another approver or decision than the signature")
        require_kept_certificate(rows, kept.certificate_sha256, kept.approver)
        require_active(rows.person(kept.approver))
        age = factor_age(rows, kept.certificate, kept.decided_at)
        decision = self.may_approve(kept.approver, age)
        if decision is None or not decision.allowed:
            raise ApprovalRefused("the policy does not let this person approve", reason="denied")


def factor_age(rows: SignedRows, certificate: bytes, at: float) -> float | None:
    """How long before *at* the holder of a certificate presented a second factor, if that is known.

    What counts is when the approval was signed: by the time it is used hours may have passed.

    Args:
        certificate: The leaf, in DER, that says so; an older one by its sign-in.
    """
    issued = rows.certificate(sha256(certificate).digest())
    if issued is None:
        return None
    presented: float | None = read_factor(x509.load_der_x509_certificate(certificate).subject)
    if presented is None:
        presented = factor_at(rows, issued)
    return None if presented is None else at - presented


def require_signer(rows: SignedRows, certificate: CertificateFacts) -> None:
    """Return if the signer is active, with a certificate that is in force, by these rows.

    Raises:
        Denied: ``revoked_certificate``, or why the person is not accepted.
    """
    person_id = certificate.principal.id
    require_active(rows.person(person_id))
    require_certificate(rows, certificate.sha256, person_id)


def require_certificate(rows: SignedRows, sha256: bytes, person_id: str) -> None:
    """Return if a certificate is that person's, and was not revoked.

    Raises:
        ApprovalRefused: ``revoked_certificate``.
    """
    issued = rows.certificate(sha256)
    if issued is None or issued.revoked_at is not None or issued.person_id != person_id:
        raise ApprovalRefused("the certificate was revoked", reason="revoked_certificate")


def require_kept_certificate(rows: SignedRows, sha256: bytes, person_id: str) -> None:
    """Return if what a person signed by a certificate stands: it may have ended in order.

    Raises:
        ApprovalRefused: ``revoked_certificate``.
    """
    issued = rows.certificate(sha256)
    if issued is None or not issued.is_honored or issued.person_id != person_id:
        raise ApprovalRefused("the certificate was revoked", reason="revoked_certificate")


def _key_of(certificate: bytes) -> PublicKey:
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError:
        raise ApprovalRefused("the certificate cannot be read") from None
    if not isinstance(key, (ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)):
        raise ApprovalRefused("the certificate's key is of a sort that may not sign here")
    return key
