"""Shows proposed policies: what an approver has to see before they sign."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define

from svc.authority.policy.proposed.approval_count import CountedApproval
from svc.authority.policy.proposed.proposal_rows import NEWEST, found_proposal, proposal_row
from svc.authority.policy.proposed.proposals import PolicyProposals, change_row
from svc.errors import SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.canonical import decode
from svc.model.policy.proposal import MAX_FINDINGS, Proposal, ProposalState
from svc.proto.gate.v1 import policy_change_pb2 as pb


@define
class PolicyReview:
    """Lists proposals, and shows one with all that an approval of it binds."""

    proposals: PolicyProposals

    async def list_proposals(
        self, request: pb.ListProposalsRequest, actor: Actor
    ) -> pb.ListProposalsResponse:
        """The proposals that wait, or all of the newest, newest first.

        A closed one is shown as it was stored, and nothing follows from it.
        """
        found = await self.proposals.store.read("proposals", lambda tx: tx.proposals.newest(NEWEST))
        rows = []
        for one in found:
            if one.state is ProposalState.OPEN and one.expires_at > self.proposals.now():
                rows.append(await self._open_row(one))
            elif request.all:
                people = self.proposals.state_cache.state.people
                rows.append(
                    proposal_row(
                        one, approvals=0, needed=0, now=self.proposals.now(), people=people
                    )
                )
        return pb.ListProposalsResponse(proposals=rows)

    async def review(
        self, request: pb.ReviewPolicyRequest, actor: Actor
    ) -> pb.ReviewPolicyResponse:
        """One proposal, with the policy that it replaces.

        Raises:
            SvcError: there is no such proposal, or its row is not what was signed for.
        """
        proposal = await self.proposals.store.read(
            "a proposed policy",
            lambda tx: found_proposal(
                self.proposals.recorder.rows(tx), request.id, self.proposals.now()
            ),
        )
        changes = await self.proposals.changes_of(proposal)

        def look(tx: ITransaction) -> pb.ReviewPolicyResponse:
            rows = self.proposals.recorder.rows(tx)
            parent = rows.policy(proposal.parent)
            decisions = self.proposals.count.decisions(rows, proposal)
            return pb.ReviewPolicyResponse(
                proposal=self.proposals.row(tx, proposal.id, changes),
                cluster=self.proposals.cluster,
                text=proposal.text,
                parent_text="" if parent is None else parent.text,
                schema_sha256=proposal.schema_sha256.hex(),
                entity_revision=proposal.entity_revision,
                replay=proposal.replay,
                findings=proposal.findings,
                changes=map(change_row, changes),
                decisions=map(self._decision, decisions),
                problem=self.proposals.problem(rows, proposal),
                names=self._names(proposal),
            )

        return await self.proposals.store.read("review a policy", look)

    async def _open_row(self, one: Proposal) -> pb.ProposalRow:
        """An open proposal; one whose row is not what was signed for is shown as that."""
        try:
            changes = await self.proposals.changes_of(one)
            return await self.proposals.store.read(
                "a proposal", lambda tx: self.proposals.row(tx, one.id, changes)
            )
        except SvcError as refusal:
            people = self.proposals.state_cache.state.people
            row = proposal_row(one, approvals=0, needed=0, now=self.proposals.now(), people=people)
            row.state = refusal.reason
            return row

    def _decision(self, counted: CountedApproval) -> pb.DecisionRow:
        one = counted.approval
        known = self.proposals.state_cache.state.people.get(one.approver)
        return pb.DecisionRow(
            person=one.approver,
            name="" if known is None else known.known_name,
            decision=one.decision.value,
            decided_at=int(one.decided_at),
            problem=counted.problem,
        )

    def _names(self, proposal: Proposal) -> Mapping[str, str]:
        """What the people in the replay's findings are called."""
        if not proposal.findings:
            return {}
        found = decode(proposal.findings, max_bytes=MAX_FINDINGS)
        changes = found.get("changes") if isinstance(found, Mapping) else None
        people = self.proposals.state_cache.state.people
        named = {
            str(each.get("person"))
            for each in (changes if isinstance(changes, (list, tuple)) else ())
            if isinstance(each, Mapping)
        }
        return {id: people[id].known_name for id in sorted(named & set(people))}
