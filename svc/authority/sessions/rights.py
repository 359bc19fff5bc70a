"""Decides what a session may do whose protocol ends at its Connector."""

from __future__ import annotations

from svc.authority.sessions.request import DecidedRights, VerifiedRequest
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.model.cluster.onward import ends_at_connector
from svc.model.cluster.resource import Resource


def is_ended(resource: Resource | None, kind: ServedKind) -> bool:
    """Whether the protocol of a session ends at its Connector, by the catalog."""
    if resource is None or not kind.terms.rights:
        return False
    return ends_at_connector(resource.onward_auth)


def rights_of(
    engine: IPolicyEngine, verified: VerifiedRequest, now: float, source_address: str
) -> DecidedRights:
    """Each right of the kind, decided like the opening itself: on all that is known of it."""
    allowed, denied = set(), {}
    for name, right in verified.kind.terms.rights.items():
        decision = engine.decide(verified.question(now, source_address, None, right.action))
        if decision.allowed:
            allowed.add(name)
        else:
            denied[name] = decision.policies
    return DecidedRights(frozenset(allowed), denied)
