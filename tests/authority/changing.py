"""How the policy of a house is changed: set at once, or proposed and approved."""

from __future__ import annotations

from svc.authority.policy.admin import PolicyAdmin
from svc.authority.policy.proposed.approval_count import ApprovalCount
from svc.authority.policy.proposed.claims import ProposalClaims
from svc.authority.policy.proposed.known_changes import KnownChanges
from svc.authority.policy.proposed.proposals import PolicyProposals
from svc.model.policy.rules import PolicyRules
from svc.runtime.threads import inline
from tests.authority.house import WORDS, House
from tests.pki.support import CLUSTER


def policies(house: House, rules: PolicyRules | None = None) -> PolicyAdmin:
    """Serves operators who set policies, and show them."""
    return PolicyAdmin(
        state_cache=house.state_cache,
        activation=house.activation(rules),
        rules=rules or PolicyRules(),
        store=house.store,
        recorder=house.recorder,
    )


def proposals(house: House, rules: PolicyRules) -> PolicyProposals:
    """Serves operators who propose policies, and put them in force."""
    return PolicyProposals(
        cluster=CLUSTER,
        state_cache=house.state_cache,
        activation=house.activation(rules),
        count=ApprovalCount(cluster=CLUSTER, engine=lambda: house.policy.engine, now=house.now),
        changes=KnownChanges(vocabulary=WORDS, rules=rules, guard=house._guard, in_thread=inline),
        rules=rules,
        claims=ProposalClaims(
            cluster=CLUSTER,
            verifier=house.world.verifier,
            state_cache=house.state_cache,
            now=house.now,
        ),
        store=house.store,
        recorder=house.recorder,
        now=house.now,
        entropy=house.entropy,
    )
