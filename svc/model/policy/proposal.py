"""A policy that somebody proposed, and what others decided about it, as the store keeps them.

What an approver signs is the *document* of the proposal (ADR 45): the exact text by its SHA-256,
what it replaces, under which schema and entities, what a replay of the log found, and who proposed
it.  Whoever shows a proposal makes the document from what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import sha256

from attrs import field, frozen

from svc.model.canonical import Json
from svc.model.policy.approval import ApprovalDecision

FORM = "svc-policy-proposal-v1"
VALID_SECS = 24 * 3600
"""A proposal and its approvals are worth nothing after a day (rule R17)."""

MAX_NOTE = 500
"""Characters that a proposer says about it."""
MAX_FINDINGS = 128 * 1024
"""Bytes of what a proposal tells of its replay."""


class ProposalState(Enum):
    """What became of a proposal; that it expired follows from the time."""

    OPEN = "open"
    ACTIVATED = "activated"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


@frozen(kw_only=True)
class Proposal:
    """One proposal.

    Attributes:
        policy_sha256: Of the text.
        parent: The version of the policy that was in force; ``parent_sha256`` is of its text.
        schema_sha256: Of the vocabulary that the text was checked against.
        entity_revision: Of the people, groups and resources at that time.
        replay: The statement of a replay, canonical JSON; empty where none was made.
        findings: What the replay found, canonical JSON; empty where none was made.
        proposer_kind: ``person``, or ``operator`` for one of the control socket.
        version: The version of the policy that it became.
    """

    id: str
    text: str = field(repr=False)
    policy_sha256: bytes
    parent: int
    parent_sha256: bytes
    schema_sha256: bytes
    entity_revision: int
    replay: bytes = field(default=b"", repr=False)
    findings: bytes = field(default=b"", repr=False)
    proposer_kind: str
    proposer: str
    note: str = ""
    proposed_at: float
    expires_at: float
    state: ProposalState = ProposalState.OPEN
    version: int | None = None

    @property
    def person(self) -> str:
        """The id of the person who proposed it; empty for an operator of the control socket."""
        return self.proposer if self.proposer_kind == "person" else ""

    def document(self, cluster: str) -> Mapping[str, Json]:
        """All that an approval of it binds."""
        return {
            "form": FORM,
            "cluster": cluster,
            "proposal": self.id,
            "policy_sha256": self.policy_sha256.hex(),
            "parent": self.parent,
            "parent_sha256": self.parent_sha256.hex(),
            "schema_sha256": self.schema_sha256.hex(),
            "entity_revision": self.entity_revision,
            "replay_sha256": _digest(self.replay),
            "findings_sha256": _digest(self.findings),
            "proposer_kind": self.proposer_kind,
            "proposer": self.proposer,
            "note": self.note,
            "proposed_at": int(self.proposed_at),
            "expires_at": int(self.expires_at),
        }


@frozen(kw_only=True)
class ProposalDecision:
    """What one person decided about one proposal, with the signature that proves it.

    Attributes:
        payload: The signed bytes, an ``Approval``.
        certificate: The leaf certificate (DER) whose key signed.
        expires_at: When it stops counting.
    """

    proposal_id: str
    approver: str
    decision: ApprovalDecision
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    decided_at: float
    expires_at: float

    @property
    def certificate_sha256(self) -> bytes:
        """Of the certificate, as the table of certificates names it."""
        return sha256(self.certificate).digest()

    @property
    def id(self) -> str:
        """What names it in records."""
        return f"{self.proposal_id}:{self.approver}"


def _digest(data: bytes) -> Json:
    return sha256(data).hexdigest() if data else None
