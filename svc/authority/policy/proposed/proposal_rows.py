"""Finds proposals as operators name them, and shows them."""

from __future__ import annotations

from collections.abc import Mapping

from svc.authority.state.tables import PROPOSALS, SignedRows
from svc.errors import Fault, SvcError
from svc.model.cluster.person import Person
from svc.model.ids import is_random_id
from svc.model.policy.proposal import Proposal, ProposalState
from svc.model.short_ids import whole_id
from svc.proto.gate.v1 import policy_change_pb2 as pb

OUTDATED = "outdated"
"""How an open proposal is shown that can no longer be activated, as another policy is in force."""

NEWEST = 500
"""Proposals among which one is looked for, and that are listed."""


def found_proposal(rows: SignedRows, word: str, now: float) -> Proposal:
    """The proposal of this id, or the one whose id begins so.

    Raises:
        SvcError: ``unknown_proposal``, or several begin so, or it ended so long ago that only the
            log still says what it was.
    """
    id = word if is_random_id(word) else _whole_id(rows, word)
    stored = rows.tx.proposals.get(id)
    if (
        stored is not None
        and stored.expires_at < now
        and rows.seen.get(PROPOSALS.subject(id)) is None
    ):
        raise SvcError(
            f"proposal {word}: ended more than a day ago; the audit log has it",
            reason="proposal_expired",
            fault=Fault.PRECONDITION,
        )
    found = rows.proposal(id)
    if found is None:
        raise unknown_proposal(word)
    return found


def _whole_id(rows: SignedRows, word: str) -> str:
    found = whole_id("proposal", word, (one.id for one in rows.tx.proposals.newest(NEWEST)))
    if found is None:
        raise unknown_proposal(word)
    return found


def unknown_proposal(word: str) -> SvcError:
    """The refusal of a proposal that is not there."""
    return SvcError(
        f"proposal {word}: does not exist; list them: svc authority policy review",
        reason="unknown_proposal",
        fault=Fault.NOT_FOUND,
    )


def proposal_row(
    proposal: Proposal,
    *,
    approvals: int,
    needed: int,
    now: float,
    people: Mapping[str, Person],
) -> pb.ProposalRow:
    """A proposal as commands show it."""
    is_over = proposal.state is ProposalState.OPEN and proposal.expires_at <= now
    known = people.get(proposal.person)
    return pb.ProposalRow(
        id=proposal.id,
        state="expired" if is_over else proposal.state.value,
        parent=proposal.parent,
        sha256=proposal.policy_sha256.hex(),
        proposer_kind=proposal.proposer_kind,
        proposer=proposal.proposer,
        proposer_name="" if known is None else known.known_name,
        note=proposal.note,
        proposed_at=int(proposal.proposed_at),
        expires_at=int(proposal.expires_at),
        approvals=approvals,
        needed=needed,
        version=proposal.version or 0,
    )
