"""Proposed policies, and what others decided about them."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.proposals import IPolicyApprovals, IProposals
from svc.model.policy.approval import ApprovalDecision
from svc.model.policy.proposal import Proposal, ProposalDecision, ProposalState
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements

_PROPOSALS = RowColumns(
    Proposal,
    "policy_proposals",
    "id, text, policy_sha256, parent, parent_sha256, schema_sha256, entity_revision, replay, "
    "findings, proposer_kind, proposer, note, proposed_at, expires_at, state, version",
    policy_sha256=bytes,
    parent_sha256=bytes,
    schema_sha256=bytes,
    replay=bytes,
    findings=bytes,
    state=ProposalState,
)
_ADD_PROPOSAL = RowInsert("policy_proposals", _PROPOSALS.listed)
_APPROVALS = RowColumns(
    ProposalDecision,
    "policy_approvals",
    "proposal_id, approver, decision, payload, signature, certificate, decided_at, expires_at",
    decision=ApprovalDecision,
    payload=bytes,
    signature=bytes,
    certificate=bytes,
)
_ADD_APPROVAL = RowInsert("policy_approvals", _APPROVALS.listed, rest="")
_ONE = "WHERE proposal_id = ? AND approver = ?"


@implementer(IProposals)
@frozen
class Proposals:
    """See :class:`IProposals`."""

    _db: Statements

    def add(self, proposal: Proposal) -> None:
        if not _ADD_PROPOSAL(self._db, proposal):
            raise AlreadyExists(f"proposal {proposal.id}: already exists")

    def get(self, proposal_id: str) -> Proposal | None:
        return _PROPOSALS.one(self._db, "WHERE id = ?", proposal_id)

    def unexpired(self, at: float) -> tuple[Proposal, ...]:
        return _PROPOSALS.all(self._db, "WHERE expires_at > ? ORDER BY id", at)

    def newest(self, limit: int) -> tuple[Proposal, ...]:
        return _PROPOSALS.all(self._db, "ORDER BY proposed_at DESC, id LIMIT ?", limit)

    def close(self, proposal_id: str, state: ProposalState, version: int | None = None) -> bool:
        sql = "UPDATE policy_proposals SET state = ?, version = ? WHERE id = ? AND state = 'open'"
        return bool(self._db.change(sql, state.value, version, proposal_id))

    def forget(self, until: float) -> None:
        self._db.change(
            "DELETE FROM policy_approvals WHERE proposal_id IN"
            " (SELECT id FROM policy_proposals WHERE expires_at < ?)",
            until,
        )
        self._db.change("DELETE FROM policy_proposals WHERE expires_at < ?", until)


@implementer(IPolicyApprovals)
@frozen
class PolicyApprovals:
    """See :class:`IPolicyApprovals`."""

    _db: Statements

    def put(self, approval: ProposalDecision) -> None:
        for sql, id in (
            ("SELECT id FROM persons WHERE id = ?", approval.approver),
            ("SELECT id FROM policy_proposals WHERE id = ?", approval.proposal_id),
        ):
            if self._db.one(sql, id) is None:
                raise NoSuchRow("store: there is no such proposal, or no such person")
        self._db.change(
            f"DELETE FROM policy_approvals {_ONE}", approval.proposal_id, approval.approver
        )
        _ADD_APPROVAL(self._db, approval)

    def get(self, proposal_id: str, approver: str) -> ProposalDecision | None:
        return _APPROVALS.one(self._db, _ONE, proposal_id, approver)

    def of(self, proposal_id: str) -> tuple[ProposalDecision, ...]:
        return _APPROVALS.all(self._db, "WHERE proposal_id = ? ORDER BY approver", proposal_id)

    def unexpired(self, at: float) -> tuple[ProposalDecision, ...]:
        return _APPROVALS.all(self._db, "WHERE expires_at > ? ORDER BY proposal_id, approver", at)
