"""Checks approvals: that one was signed by its approver, for exactly what was shown.

It is checked twice.  When it arrives, the approver's certificate must be valid and the approval
fresh (:func:`check_new`).  When it is used, hours may have passed and a short-lived certificate
may have ended in order, so then the signature, the document and the approval's own end count
(:func:`check_kept`); that neither person nor certificate was revoked is checked with the rows by
the caller, in its transaction.
"""

from __future__ import annotations

from attrs import frozen

from svc.errors import Denied
from svc.interfaces.identity import IChainVerifier
from svc.model.certificate import CertificateFacts
from svc.model.clocks import MAX_APART_SECS, apart
from svc.model.policy.approval import Approval, ApprovalKind, decode_approval
from svc.model.principal import Role
from svc.model.signing import PublicKey, Purpose, Signed, verify


class ApprovalRefused(Denied):
    """An approval that approves nothing here.

    ``reason`` is one of ``approval_mismatch``, ``approval_stale``, ``approval_expired``,
    ``own_approval``.
    """

    reason = "approval_mismatch"


@frozen(kw_only=True)
class Approvable:
    """What an approval has to be for.

    Attributes:
        subject: The id of the proposal or of the request for access.
        document_sha256: Of the document that is shown for it now.
        asked_by: Id of the person who proposed or asked, who may not approve; empty for an
            operator of the control socket, which is no person.
    """

    cluster: str
    kind: ApprovalKind
    subject: str
    document_sha256: bytes
    asked_by: str


def check_new(
    signed: Signed, wanted: Approvable, verifier: IChainVerifier, now: float
) -> tuple[Approval, CertificateFacts]:
    """An approval that has just arrived, and the certificate whose key signed it.

    The caller still has to ask the policy whether this person may approve, and the rows whether
    certificate and person are in force.

    Raises:
        CertificateRefused: the chain is not a person's, or has expired.
        BadSignature: the signature is not by that certificate's key.
        Malformed: the signed bytes are no approval.
        ApprovalRefused: it is for something else, not made just now, or by who asked for it.
    """
    certificate = verifier.verify(signed.chain, {Role.USER})
    approval = check_kept(
        payload=signed.payload,
        signature=signed.signature,
        key=certificate.public_key,
        certificate_sha256=certificate.sha256,
        wanted=wanted,
        now=now,
    )
    if approval.approver != certificate.principal.id:
        raise ApprovalRefused("the approval names another person than its certificate")
    if abs(now - approval.made_at) > MAX_APART_SECS:
        raise ApprovalRefused(
            f"the approval was not made just now, or this machine's clock is "
            f"{apart(approval.made_at, now)}; set the clock and approve again",
            reason="approval_stale",
        )
    return approval, certificate


def check_kept(
    *,
    payload: bytes,
    signature: bytes,
    key: PublicKey,
    certificate_sha256: bytes,
    wanted: Approvable,
    now: float,
) -> Approval:
    """An approval that was kept, as it is about to be used.

    Args:
        key: The public key of the approver's certificate.
        certificate_sha256: Of that certificate.

    Raises:
        BadSignature: the signature is not by this key.
        Malformed: the signed bytes are no approval.
        ApprovalRefused: it is for something else, has expired, or is by who asked for it.
    """
    verify(key, Purpose.APPROVAL, payload, signature)
    approval = decode_approval(payload)
    is_for = (approval.cluster, approval.kind, approval.subject)
    if is_for != (wanted.cluster, wanted.kind, wanted.subject):
        raise ApprovalRefused("the approval is for another subject")
    if approval.certificate_sha256 != certificate_sha256:
        raise ApprovalRefused("the approval names another certificate than the one that signed it")
    if approval.document_sha256 != wanted.document_sha256:
        raise ApprovalRefused(
            "the approval is for another text than the one that is shown now; review it again"
        )
    if now >= approval.expires_at:
        raise ApprovalRefused("the approval has expired", reason="approval_expired")
    if wanted.asked_by and approval.approver == wanted.asked_by:
        raise ApprovalRefused(
            "another person than the one who asked has to approve", reason="own_approval"
        )
    return approval
