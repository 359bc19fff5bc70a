"""Proposed policies: proposed by one, approved by others, activated once there are enough.

Every change is one transaction with its signed record.  What an approver has to have seen is the
proposal's document (``svc.model.policy.proposal``); the Authority makes it from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, frozen

from svc.authority.policy.activate import NewPolicy, PolicyActivation, policy_changed, text_digest
from svc.authority.policy.binding import ReplayBinding, read_binding
from svc.authority.policy.proposed.approval_count import ApprovalCount, require_signer
from svc.authority.policy.proposed.claims import ProposalClaims
from svc.authority.policy.proposed.known_changes import KnownChanges
from svc.authority.policy.proposed.proposal_rows import (
    OUTDATED,
    found_proposal,
    proposal_row,
    unknown_proposal,
)
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import MAX_POLICIES, Recorder
from svc.authority.state.tables import PROPOSALS, SignedRows
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import POLICY_PROPOSE
from svc.model.audit.record import Actor
from svc.model.audit.state import StateEntry
from svc.model.canonical import Json, decode
from svc.model.ids import Entropy, random_id
from svc.model.policy.proposal import (
    MAX_FINDINGS,
    MAX_NOTE,
    VALID_SECS,
    Proposal,
    ProposalState,
)
from svc.model.policy.rules import PolicyRules
from svc.model.policy.version import PolicyVersion
from svc.policy.sensitive import PolicyChange
from svc.proto.gate.v1 import policy_change_pb2 as pb

MOST_OPEN = 64
"""Proposals that wait at the same time."""


@frozen
class _Activated:
    version: PolicyVersion
    approvers: tuple[str, ...]


@define
class PolicyProposals:
    """Keeps proposals, takes decisions about them, and activates them."""

    cluster: str
    state_cache: ClusterStateCache
    activation: PolicyActivation
    count: ApprovalCount
    changes: KnownChanges
    rules: PolicyRules
    claims: ProposalClaims
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    entropy: Entropy

    async def propose(
        self, request: pb.ProposePolicyRequest, actor: Actor
    ) -> pb.ProposePolicyResponse:
        """Check a text as a whole, and keep it for a day.

        Raises:
            SvcError: the text is refused (recorded), or its proposer is not who signed.
        """
        facts = await self.state_cache.refresh()
        if facts.policy is None:
            raise SvcError(
                "no policy is in force; set one with `svc authority policy set`",
                reason="policy_unavailable",
                fault=Fault.PRECONDITION,
            )
        if facts.policy.text == request.text:
            raise SvcError(
                f"policy version {facts.policy.version} with this text is already in force",
                reason="policy_unchanged",
                fault=Fault.PRECONDITION,
            )
        _check_findings(request)
        proposer, certificate = self.claims.proposer(request, actor)
        base = facts.policy
        engine = await self.activation.tried(request.text, facts, base.version + 1, proposer)
        bound = read_binding(request.replay) if request.replay else None
        changes = await self.changes.of(base.text, request.text)
        proposal = self._new(request, proposer, base, facts.revision)
        new = NewPolicy(
            text=request.text, base=base.version, author=proposer.id, engine=engine, bound=bound
        )

        def write(tx: ITransaction) -> None:
            active = self.activation.base(tx, new.base)
            self.activation.check_replay(tx, new, active)
            self.activation.lock_out.require_after(tx, engine)
            if certificate is not None:
                require_signer(self.recorder.rows(tx), certificate)
            self._require_room(tx)
            tx.proposals.add(proposal)
            details = {
                **self._details(proposal, changes, bound),
                "previous_digest": base.sha256.hex(),
                "validated": True,
                **({"note": proposal.note} if proposal.note else {}),
            }
            state = [PROPOSALS.now(tx, proposal.id)]
            self.recorder.append(tx, POLICY_PROPOSE, actor, details=details, state=state)

        await self.store.run("propose a policy", write)
        await self.state_cache.catch_up()
        return pb.ProposePolicyResponse(
            id=proposal.id,
            expires_at=int(proposal.expires_at),
            needed=self._needed(proposal, changes),
            changes=map(change_row, changes),
        )

    async def activate(
        self, request: pb.ActivateProposalRequest, actor: Actor
    ) -> pb.ActivateProposalResponse:
        """Put a proposal in force that enough people approved.

        Raises:
            SvcError: it is closed, expired, of another policy than the one in force, refused by
                now, or lacks approvals; nothing changed.
        """
        facts = await self.state_cache.refresh()
        proposal = await self.store.read(
            "a proposed policy",
            lambda tx: found_proposal(self.recorder.rows(tx), request.id, self.now()),
        )
        self.require_open(proposal)
        changes = await self.changes_of(proposal)
        version = 0 if facts.policy is None else facts.policy.version
        engine = await self.activation.tried(proposal.text, facts, version + 1, actor)
        bound = read_binding(proposal.replay) if proposal.replay else None
        new = NewPolicy(
            text=proposal.text,
            base=proposal.parent,
            author=proposal.proposer,
            engine=engine,
            bound=bound,
        )
        activated = await self.store.run(
            "activate a proposed policy",
            lambda tx: self._activate(tx, proposal.id, new, actor, changes),
        )
        await self.activation.applied(activated.version)
        return pb.ActivateProposalResponse(
            version=activated.version.version,
            sha256=activated.version.sha256.hex(),
            approvers=activated.approvers,
        )

    def _new(
        self, request: pb.ProposePolicyRequest, proposer: Actor, base: PolicyVersion, revision: int
    ) -> Proposal:
        at = float(int(self.now()))
        return Proposal(
            id=random_id(self.entropy),
            text=request.text,
            policy_sha256=bytes.fromhex(text_digest(request.text)),
            parent=base.version,
            parent_sha256=base.sha256,
            schema_sha256=bytes.fromhex(self.activation.in_force.vocabulary.digest),
            entity_revision=revision,
            replay=request.replay,
            findings=request.findings,
            proposer_kind=proposer.kind,
            proposer=proposer.id,
            note=request.note,
            proposed_at=at,
            expires_at=at + VALID_SECS,
        )

    def row(
        self, tx: ITransaction, proposal_id: str, changes: tuple[PolicyChange, ...]
    ) -> pb.ProposalRow:
        """A proposal as commands show it, with the approvals that count now."""
        rows = self.recorder.rows(tx)
        proposal = rows.proposal(proposal_id)
        if proposal is None:
            raise unknown_proposal(proposal_id)
        row = proposal_row(
            proposal,
            approvals=len(self.count.approvers(rows, proposal)),
            needed=self._needed(proposal, changes),
            now=self.now(),
            people=self.state_cache.state.people,
        )
        if row.state == ProposalState.OPEN.value and self._outdated(rows, proposal):
            row.state = OUTDATED
        return row

    def problem(self, rows: SignedRows, proposal: Proposal) -> str:
        """Why it cannot be activated, whoever approves; empty where it can."""
        try:
            self.require_open(proposal)
            self.require_parent(rows, proposal)
        except SvcError as refusal:
            return refusal.text
        return ""

    # -- proposing

    def _require_room(self, tx: ITransaction) -> None:
        waiting = [
            one for one in tx.proposals.unexpired(self.now()) if one.state is ProposalState.OPEN
        ]
        if len(waiting) >= MOST_OPEN:
            raise SvcError(
                f"{MOST_OPEN} proposals wait already; activate or reject some of them",
                reason="too_many_proposals",
                fault=Fault.EXHAUSTED,
            )

    # -- activating

    def _activate(
        self,
        tx: ITransaction,
        proposal_id: str,
        new: NewPolicy,
        actor: Actor,
        changes: tuple[PolicyChange, ...],
    ) -> _Activated:
        rows = self.recorder.rows(tx)
        proposal = rows.proposal(proposal_id)
        if proposal is None:
            raise unknown_proposal(proposal_id)
        self.require_open(proposal)
        self.require_parent(rows, proposal)
        if proposal.text != new.text:
            raise policy_changed()
        approvers = self.count.approvers(rows, proposal)
        needed = self._needed(proposal, changes)
        if len(approvers) < needed:
            raise SvcError(
                f"proposal {proposal_id[:12]}: has {len(approvers)} of the {needed} approvals that "
                f"it needs; others approve it with: svc authority policy approve "
                f"{proposal_id[:12]}",
                reason="not_approved",
                fault=Fault.PRECONDITION,
            )

        def close(version: int) -> list[StateEntry]:
            tx.proposals.close(proposal_id, ProposalState.ACTIVATED, version)
            return [PROPOSALS.now(tx, proposal_id)]

        details = {**self._details(proposal, changes, new.bound), "approvers": list(approvers)}
        stored = self.activation.write(tx, new, actor, details=details, state=close)
        return _Activated(stored, approvers)

    def require_open(self, proposal: Proposal) -> None:
        """Refuse one that is closed, or whose day is over."""
        if proposal.state is not ProposalState.OPEN or proposal.expires_at <= self.now():
            is_open = proposal.state is ProposalState.OPEN
            raise SvcError(
                f"proposal {proposal.id[:12]}: "
                + ("has expired" if is_open else f"was {proposal.state.value}")
                + "; propose the policy again",
                reason="proposal_expired" if is_open else "proposal_closed",
                fault=Fault.PRECONDITION,
            )

    def require_parent(self, rows: SignedRows, proposal: Proposal) -> None:
        """Refuse one that was made for another policy, or for other kinds, than are in force."""
        why = self._outdated(rows, proposal)
        if why:
            raise SvcError(
                f"proposal {proposal.id[:12]}: is outdated: {why}; propose the policy again: svc "
                "authority policy propose FILE",
                reason="policy_changed",
                fault=Fault.ABORTED,
            )

    def _outdated(self, rows: SignedRows, proposal: Proposal) -> str:
        """Why it is of another policy, or of other kinds, than are in force; else empty."""
        active = rows.policy_in_force()
        base = (proposal.parent, proposal.parent_sha256)
        if active is None or (active.version, active.sha256) != base:
            return "another policy was activated since"
        if proposal.schema_sha256.hex() != self.activation.in_force.vocabulary.digest:
            return "other kinds were enabled when it was made"
        return ""

    # -- both

    async def changes_of(self, proposal: Proposal) -> tuple[PolicyChange, ...]:
        """What changes from the policy that the proposal replaces."""
        parent = await self.store.read(
            "the policy before", lambda tx: self.recorder.rows(tx).policy(proposal.parent)
        )
        return await self.changes.of("" if parent is None else parent.text, proposal.text)

    def _needed(self, proposal: Proposal, changes: tuple[PolicyChange, ...]) -> int:
        return self.rules.needed(
            is_sensitive=any(one.sensitive for one in changes), by_person=bool(proposal.person)
        )

    def _details(
        self,
        proposal: Proposal,
        changes: tuple[PolicyChange, ...],
        bound: ReplayBinding | None,
    ) -> dict[str, Json]:
        """What a record says of a proposal."""
        found: dict[str, Json] = {
            "proposal_id": proposal.id,
            "proposer": proposal.proposer,
            "policy_digest": proposal.policy_sha256.hex(),
            "sensitive": [f"{one.policy}:{why.value}" for one in changes for why in one.sensitive][
                :MAX_POLICIES
            ],
        }
        if bound is not None:
            found |= {
                "replay_digest": bound.digest,
                "replay_first": bound.first,
                "replay_last": bound.last,
            }
        return found


def change_row(one: PolicyChange) -> pb.PolicyChangeRow:
    """A change as commands show it."""
    return pb.PolicyChangeRow(
        policy=one.policy, change=one.change, sensitive=[why.value for why in one.sensitive]
    )


def _check_findings(request: pb.ProposePolicyRequest) -> None:
    """Refuse what approvers could not be shown.

    Raises:
        Malformed: the findings are too long, no canonical JSON, or of no replay; or the note is
            too long.
    """
    if len(request.note) > MAX_NOTE:
        raise Malformed(f"reason: longer than {MAX_NOTE} characters")
    if bool(request.findings) != bool(request.replay):
        raise Malformed("policy proposal: a replay comes with what it found, and only then")
    if request.findings and not isinstance(
        decode(request.findings, max_bytes=MAX_FINDINGS), Mapping
    ):
        raise Malformed("policy proposal: what the replay found is malformed")
