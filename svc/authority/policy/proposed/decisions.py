"""Takes people's signed decisions about proposed policies (rules R17 and R30)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve, frozen

from svc.authority.ingest.notes import checked_note
from svc.authority.policy.proposed.approval_count import ApprovalCount, factor_age, require_signer
from svc.authority.policy.proposed.proposal_rows import found_proposal, unknown_proposal
from svc.authority.policy.proposed.proposals import PolicyProposals
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.approvals import ApprovalRefused, check_new
from svc.authority.registry.operators import for_want_of_factor
from svc.authority.state.recorder import MAX_POLICIES, person
from svc.authority.state.tables import POLICY_APPROVALS, PROPOSALS
from svc.errors import Denied, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.store import ITransaction
from svc.model.audit.events import POLICY_APPROVE, POLICY_REFUSED, POLICY_REJECT
from svc.model.audit.record import Actor
from svc.model.certificate import CertificateFacts
from svc.model.policy.access import Decision
from svc.model.policy.approval import Approval, ApprovalDecision
from svc.model.policy.proposal import Proposal, ProposalDecision, ProposalState
from svc.model.policy.requests import FACTOR_AGE
from svc.model.signing import Signed
from svc.proto.gate.v1 import policy_change_pb2 as pb


@frozen(kw_only=True)
class SignedDecision:
    """One decision as it came, with what was found out about it."""

    signed: Signed
    approval: Approval
    certificate: CertificateFacts
    note: Mapping[str, str]

    @property
    def approves(self) -> bool:
        """Whether it is an approval."""
        return self.approval.decision is ApprovalDecision.APPROVE

    def kept(self, proposal: Proposal, at: float) -> ProposalDecision:
        """Its row."""
        return ProposalDecision(
            proposal_id=proposal.id,
            approver=self.approval.approver,
            decision=self.approval.decision,
            payload=self.signed.payload,
            signature=self.signed.signature,
            certificate=self.signed.chain[0],
            decided_at=float(int(at)),
            expires_at=float(min(self.approval.expires_at, int(proposal.expires_at))),
        )


@define
class PolicyDecisions:
    """Keeps approvals, and closes what is rejected."""

    proposals: PolicyProposals
    verifier: IChainVerifier
    refusals: RefusalRecords

    async def decide(
        self, request: pb.DecideProposalRequest, actor: Actor
    ) -> pb.DecideProposalResponse:
        """Keep a person's signed decision; a rejection closes the proposal.

        Who proposed it may only take it back.

        Raises:
            SvcError: the decision is not by its signer, for this proposal, of this moment, or the
                policy does not let the signer approve; refusals of a known signer are recorded, or
                counted.
        """
        proposals, store = self.proposals, self.proposals.store
        proposal = await store.read(
            "a proposed policy",
            lambda tx: found_proposal(proposals.recorder.rows(tx), request.id, proposals.now()),
        )
        decision = self._checked(request, proposal)
        changes = await proposals.changes_of(proposal)
        right = await store.read("a right to approve", lambda tx: self._right(tx, decision))
        try:
            self._require_right(decision.approval, proposal, right)
            await store.run(
                "decide about a policy", lambda tx: self._decide(tx, proposal, decision)
            )
        except Denied as refusal:
            await self._record_refusal(actor, proposal, decision.approval, refusal, right)
            raise
        await proposals.state_cache.catch_up()
        row = await store.read(
            "a proposed policy", lambda tx: proposals.row(tx, proposal.id, changes)
        )
        return pb.DecideProposalResponse(proposal=row)

    @property
    def _count(self) -> ApprovalCount:
        return self.proposals.count

    def _checked(self, request: pb.DecideProposalRequest, proposal: Proposal) -> SignedDecision:
        signed = Signed(request.approval, request.signature, tuple(request.chain))
        # Who proposed it may deny it; that they may not approve it is checked afterwards.
        wanted = evolve(self._count.approvable(proposal), asked_by="")
        approval, certificate = check_new(signed, wanted, self.verifier, self.proposals.now())
        note = {"note": checked_note(request.note)} if request.note else {}
        return SignedDecision(signed=signed, approval=approval, certificate=certificate, note=note)

    def _decide(self, tx: ITransaction, proposal: Proposal, decision: SignedDecision) -> None:
        proposals = self.proposals
        rows = proposals.recorder.rows(tx)
        current = rows.proposal(proposal.id)
        if current is None:
            raise unknown_proposal(proposal.id)
        proposals.require_open(current)
        if decision.approves:
            proposals.require_parent(rows, current)
        require_signer(rows, decision.certificate)
        kept = decision.kept(current, proposals.now())
        tx.policy_approvals.put(kept)
        state = [POLICY_APPROVALS.now(tx, kept.id)]
        if not decision.approves:
            is_own = kept.approver == proposal.person
            closed = ProposalState.WITHDRAWN if is_own else ProposalState.REJECTED
            tx.proposals.close(proposal.id, closed)
            state.append(PROPOSALS.now(tx, proposal.id))
        proposals.recorder.append(
            tx,
            POLICY_APPROVE if decision.approves else POLICY_REJECT,
            person(kept.approver),
            details={
                "proposal_id": proposal.id,
                "policy_digest": proposal.policy_sha256.hex(),
                "certificate_sha256": decision.certificate.sha256.hex(),
                **decision.note,
            },
            state=state,
        )

    def _right(self, tx: ITransaction, decision: SignedDecision) -> Decision | None:
        """What the policy says of the signer; None while none is in force."""
        rows = self.proposals.recorder.rows(tx)
        age = factor_age(rows, decision.signed.chain[0], self.proposals.now())
        return self._count.may_approve(decision.approval.approver, age)

    def _require_right(
        self, approval: Approval, proposal: Proposal, right: Decision | None
    ) -> None:
        """Refuse a decision of somebody who may not make it."""
        is_own = approval.approver == proposal.person
        if is_own and approval.decision is ApprovalDecision.DENY:
            return
        if is_own:
            raise ApprovalRefused(
                "another person than the one who proposed it has to approve it",
                reason="own_approval",
            )
        if right is None or not right.allowed:
            recent = self._count.may_approve(approval.approver, factor_age=0)
            is_enough = recent is not None and recent.allowed
            is_known = right is not None and FACTOR_AGE in right.request.context
            raise ApprovalRefused(
                "the policy does not let this person approve policies (approvePolicy)"
                + (f" {for_want_of_factor(is_known=is_known)}" if is_enough else ""),
                reason="denied",
            )

    async def _record_refusal(
        self,
        caller: Actor,
        proposal: Proposal,
        approval: Approval,
        refusal: SvcError,
        right: Decision | None,
    ) -> None:
        # Who brings a signed decision again and again uses up their own share, not its signer's.
        decision = right if refusal.reason == "denied" else None
        await self.refusals.write(
            caller,
            "refuse an approval",
            lambda tx: self.proposals.recorder.append(
                tx,
                POLICY_REFUSED,
                person(approval.approver),
                reason=refusal.reason,
                cedar_action=None if decision is None else decision.request.action,
                decision=None if decision is None else decision.decision,
                policies=() if decision is None else decision.policies[:MAX_POLICIES],
                policy_version=None if decision is None else decision.policy_version,
                details={
                    "proposal_id": proposal.id,
                    "policy_digest": proposal.policy_sha256.hex(),
                    "certificate_sha256": approval.certificate_sha256.hex(),
                },
            ),
        )
