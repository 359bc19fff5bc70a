"""Why nobody serves a resource now, or through which Proxies it cannot be reached."""

from __future__ import annotations

from collections.abc import Set

from attrs import define, field, frozen

from svc.authority.registry.peers import PeerProxies
from svc.authority.state.cluster import ClusterState
from svc.model.cluster.node import NodeState
from svc.model.cluster.registration import GATE_NOT_OFFERED
from svc.model.cluster.resource import Resource
from svc.model.cluster.scope import MODE_REQUIRED
from svc.model.cluster.unserved import (
    KIND_MISMATCH,
    NODE_REVOKED,
    NOT_CONNECTED,
    NOT_DECLARED,
    NOT_FOUND_ANY_MORE,
    PARTLY_SERVED,
    REGISTERING,
    REGISTRATION_REFUSED,
    UNASSIGNED,
)


@frozen
class Coverage:
    """Who can reach one resource.

    Attributes:
        problem: A word of :data:`svc.model.cluster.unserved.PROBLEMS`; empty: everybody can.
        reason: Why a registration is refused, where that is the problem.
        proxies: The Proxies that its Connector serves it through.
        missing: The Proxies that are here and cannot reach it.
    """

    problem: str = ""
    reason: str = ""
    proxies: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@define
class CoverageLook:
    """One look at all resources.

    Attributes:
        offered: What Connectors offer and may not serve: resource and node.
    """

    peers: PeerProxies
    facts: ClusterState
    offered: Set[tuple[str, str]]
    _unreached: dict[frozenset[str], tuple[str, ...]] = field(factory=dict, init=False)

    def of(self, one: Resource) -> Coverage:
        """Who can reach it."""
        serving = self.peers.registrations.all_serving(one.assigned)
        if not serving:
            problem, reason = self._problem(one)
            return Coverage(problem, reason)
        through = frozenset(each.proxy_id for each in serving)
        if through not in self._unreached:
            self._unreached[through] = self.peers.unreached(through)
        missing = self._unreached[through]
        return Coverage(
            problem=PARTLY_SERVED if missing else "",
            proxies=tuple(sorted(through)),
            missing=missing,
        )

    def _problem(self, one: Resource) -> tuple[str, str]:
        if one.assigned_to is None:
            return (NOT_FOUND_ANY_MORE if one.is_discovered else UNASSIGNED), ""
        node = self.facts.nodes.get(one.assigned_to)
        if node is None or node.state is NodeState.REVOKED:
            return NODE_REVOKED, ""
        if one.lacks_mode:
            return MODE_REQUIRED, ""
        registrations = self.peers.registrations
        standing = registrations.of_node(node.id)
        if not standing:
            refusal = registrations.refusal(node.id)
            return (REGISTRATION_REFUSED, refusal) if refusal else (NOT_CONNECTED, "")
        withheld = {each.withheld.get(one.id, "") for each in standing}
        for word in (GATE_NOT_OFFERED, KIND_MISMATCH):
            if word in withheld:
                return word, ""
        is_coming = any(one.id in each.resources for each in standing)
        is_coming = is_coming or (one.id, node.id) in self.offered
        return (REGISTERING if is_coming else NOT_DECLARED), ""
