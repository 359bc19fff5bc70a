"""The facets of proposed policies and their approvals."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.policy.proposal import Proposal, ProposalDecision, ProposalState


class IProposals(Interface):
    """Policies that were proposed."""

    def add(proposal: Proposal) -> None:
        """Keep a new proposal.  Raises AlreadyExists: the id is taken."""

    def get(proposal_id: str) -> Proposal | None:
        """One proposal, whatever became of it."""

    def unexpired(at: float) -> tuple[Proposal, ...]:
        """Every proposal that has not expired at *at*, closed ones included, by id."""

    def newest(limit: int) -> tuple[Proposal, ...]:
        """The newest *limit* proposals, newest first."""

    def close(proposal_id: str, state: ProposalState, version: int | None = None) -> bool:
        """Close an open proposal; whether it was open.  *version*: what it became."""

    def forget(until: float) -> None:
        """Delete every proposal that expired before *until*, with the decisions about it."""


class IPolicyApprovals(Interface):
    """What people decided about proposed policies."""

    def put(approval: ProposalDecision) -> None:
        """Keep a decision, in the place of an earlier one of the same person.

        Raises:
            NoSuchRow: the proposal or the person does not exist.
        """

    def get(proposal_id: str, approver: str) -> ProposalDecision | None:
        """What one person decided about one proposal."""

    def of(proposal_id: str) -> tuple[ProposalDecision, ...]:
        """Every decision about one proposal, by person."""

    def unexpired(at: float) -> tuple[ProposalDecision, ...]:
        """Every decision that has not expired at *at*, by proposal and person."""
