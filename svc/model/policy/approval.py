"""Approvals: what a person signs to agree to a change of the policy, or to somebody's access.

An approval is a signature by the key of the approver's certificate (rule R30) over one form of
bytes, canonical JSON.  It binds the SHA-256 of a document: everything that was shown to the
approver, itself in canonical JSON, so that nothing else can be approved by it.  What a document
says is decided by whoever asks for the approval; nothing here looks into it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from typing import TypeVar

from attrs import frozen

from svc.errors import Malformed
from svc.model import canonical
from svc.model.canonical import Json

MAX_APPROVAL_BYTES = 2048
"""Of the signed bytes; longer ones are refused unread."""

MAX_VALID_SECS = 24 * 3600
"""An approval is worth nothing after a day (rule R17)."""

FORMAT = 1

_TEXT = re.compile(r"[\x21-\x7e]{1,253}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_E = TypeVar("_E", bound=Enum)
_KEYS = frozenset(
    {
        "approver",
        "certificate_sha256",
        "cluster",
        "decision",
        "document_sha256",
        "expires_at",
        "format",
        "kind",
        "made_at",
        "subject",
    }
)


class ApprovalKind(Enum):
    """What is approved; the words are part of every signed text and never change."""

    POLICY = "policy"
    ACCESS = "access"


class ApprovalDecision(Enum):
    """What the approver decided; the words never change."""

    APPROVE = "approve"
    DENY = "deny"


@frozen(kw_only=True)
class Approval:
    """What one person decided about one document.

    Attributes:
        subject: The id of the proposal or of the request for access.
        document_sha256: Of all that was shown to the approver, as :func:`document_digest` makes it.
        approver: Id of the person who signs.
        certificate_sha256: Of the leaf certificate whose key signs, 32 bytes.
        made_at: Unix seconds, by the clock of the approver's machine.
        expires_at: Unix seconds; worth nothing from then on.
    """

    cluster: str
    kind: ApprovalKind
    subject: str
    document_sha256: bytes
    decision: ApprovalDecision
    approver: str
    certificate_sha256: bytes
    made_at: int
    expires_at: int


def document_digest(document: Mapping[str, Json]) -> bytes:
    """SHA-256 of a document's canonical JSON: what an approval binds.

    Raises:
        Malformed: the document has no canonical form.
    """
    return sha256(canonical.encode(document)).digest()


def encode_approval(approval: Approval) -> bytes:
    """The bytes that the approver signs."""
    return canonical.encode(
        {
            "approver": approval.approver,
            "certificate_sha256": approval.certificate_sha256.hex(),
            "cluster": approval.cluster,
            "decision": approval.decision.value,
            "document_sha256": approval.document_sha256.hex(),
            "expires_at": approval.expires_at,
            "format": FORMAT,
            "kind": approval.kind.value,
            "made_at": approval.made_at,
            "subject": approval.subject,
        }
    )


def decode_approval(data: bytes) -> Approval:
    """An approval as it came; its signature is checked by the caller.

    Raises:
        Malformed: it is none, is of a format that this build does not know, or is valid for more
            than a day.
    """
    value = canonical.decode(data, max_bytes=MAX_APPROVAL_BYTES)
    if not isinstance(value, dict) or value.keys() != _KEYS:
        raise Malformed("approval: its fields are not the ones of an approval")
    if value["format"] != FORMAT:
        raise Malformed(
            f"approval: its format is not {FORMAT}; run the same version of svc on both sides",
            reason="unknown_format",
        )
    made_at, expires_at = _time(value, "made_at"), _time(value, "expires_at")
    if not made_at < expires_at <= made_at + MAX_VALID_SECS:
        raise Malformed("approval: it is valid for no time, or for more than a day")
    return Approval(
        cluster=_text(value, "cluster"),
        kind=_word(ApprovalKind, value, "kind"),
        subject=_text(value, "subject"),
        document_sha256=_digest(value, "document_sha256"),
        decision=_word(ApprovalDecision, value, "decision"),
        approver=_text(value, "approver"),
        certificate_sha256=_digest(value, "certificate_sha256"),
        made_at=made_at,
        expires_at=expires_at,
    )


def _text(value: Mapping[str, Json], name: str) -> str:
    given = value[name]
    if not isinstance(given, str) or not _TEXT.match(given):
        raise Malformed(f"approval: {name} is not a short text of printable ASCII without spaces")
    return given


def _digest(value: Mapping[str, Json], name: str) -> bytes:
    given = value[name]
    if not isinstance(given, str) or not _DIGEST.match(given):
        raise Malformed(f"approval: {name} is not a SHA-256 in lower-case hex")
    return bytes.fromhex(given)


def _time(value: Mapping[str, Json], name: str) -> int:
    given = value[name]
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise Malformed(f"approval: {name} is not a time in whole Unix seconds")
    return given


def _word(kind: type[_E], value: Mapping[str, Json], name: str) -> _E:
    try:
        return kind(value[name])
    except ValueError:
        raise Malformed(f"approval: {name} is a word that this build does not know") from None
