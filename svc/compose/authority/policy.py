"""How an Authority's policy is changed: set, proposed, approved, activated."""

from __future__ import annotations

import os

from attrs import frozen

from svc.authority.policy.activate import PolicyActivation
from svc.authority.policy.active import PolicyInForce
from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.bundle_room import BundleRoom
from svc.authority.policy.lock_out import LockOutCheck
from svc.authority.policy.proposed.approval_count import ApprovalCount
from svc.authority.policy.proposed.claims import ProposalClaims
from svc.authority.policy.proposed.decisions import PolicyDecisions
from svc.authority.policy.proposed.known_changes import KnownChanges
from svc.authority.policy.proposed.proposals import PolicyProposals
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.policy.publish import PolicyPublisher
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.rights import RightsCheck
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts
from svc.model.policy.rules import PolicyRules
from svc.policy.sensitive import ADMINISTER
from svc.runtime.threads import in_pool


@frozen(kw_only=True)
class PolicyChanging:
    """What changes the policy, and the rules that it goes by."""

    rules: PolicyRules
    lock_out: LockOutCheck
    rights: RightsCheck
    policies: PolicyAdmin
    proposals: PolicyProposals
    decisions: PolicyDecisions
    reviews: PolicyReview


def policy_changing(
    p: Parts, state_cache: ClusterStateCache, policy: PolicyInForce, refusals: RefusalRecords
) -> PolicyChanging:
    """Wire it."""
    now, settings = p.runtime.now, p.settings.policy
    rules = PolicyRules(approvals=settings.approvals, break_glass=frozenset(settings.break_glass))
    lock_out = LockOutCheck(
        cluster=p.settings.cluster,
        kinds=p.kinds.by_name,
        own_uid=os.geteuid(),
        rules=rules,
        rows=p.recorder.rows,
        engine=lambda: policy.engine,
        now=now,
    )
    p.recorder.on_people_changed(lock_out.require_after)
    activation = PolicyActivation(
        state_cache=state_cache,
        in_force=policy,
        lock_out=lock_out,
        store=p.store,
        recorder=p.recorder,
        now=now,
    )
    proposals = _proposals(p, activation, rules)
    return PolicyChanging(
        rules=rules,
        lock_out=lock_out,
        rights=_rights(p, lock_out),
        policies=PolicyAdmin(
            state_cache=state_cache,
            activation=activation,
            rules=rules,
            store=p.store,
            recorder=p.recorder,
        ),
        proposals=proposals,
        decisions=PolicyDecisions(proposals, p.identity.verifier, refusals),
        reviews=PolicyReview(proposals),
    )


def bundle_room(
    p: Parts, state_cache: ClusterStateCache, publishing: PolicyPublisher
) -> BundleRoom:
    """Keeps what Proxies are sent within what they take, at each change."""
    room = BundleRoom(made=lambda: publishing.size, known=lambda: state_cache.state)
    p.recorder.on_rows_changed(room.require_after)
    return room


def _rights(p: Parts, lock_out: LockOutCheck) -> RightsCheck:
    return RightsCheck(
        cluster=p.settings.cluster,
        rules=lock_out.rules,
        engine=lock_out.engine_over,
        actions=p.words.members[ADMINISTER],
        now=p.runtime.now,
    )


def _proposals(p: Parts, activation: PolicyActivation, rules: PolicyRules) -> PolicyProposals:
    cluster, now, policy = p.settings.cluster, p.runtime.now, activation.in_force
    return PolicyProposals(
        cluster=cluster,
        state_cache=activation.state_cache,
        activation=activation,
        count=ApprovalCount(cluster=cluster, engine=lambda: policy.engine, now=now),
        changes=KnownChanges(
            vocabulary=p.words,
            rules=rules,
            guard=policy.guard,
            in_thread=in_pool(p.runtime.reactor),
        ),
        rules=rules,
        claims=ProposalClaims(
            cluster=cluster,
            verifier=p.identity.verifier,
            state_cache=activation.state_cache,
            now=now,
        ),
        store=p.store,
        recorder=p.recorder,
        now=now,
        entropy=p.runtime.entropy,
    )
