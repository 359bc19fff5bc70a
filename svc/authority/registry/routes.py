"""Which Connector serves which resource through which Proxy now.

A registration lives as long as the control stream that carries it; its end,
however it comes, takes it out of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field, frozen

from svc.authority.state.cluster import ClusterState
from svc.messages.control import AGAIN
from svc.model.cluster.node import NodeState
from svc.model.cluster.registration import GATE_NOT_OFFERED, GATED_KINDS
from svc.model.cluster.resource import Assigned

MAX_REFUSED = 10_000
"""Connectors of which it is known why they were refused."""


@frozen(eq=False)
class Registered:
    """One accepted registration.

    Attributes:
        resources: What it serves, each as the assignment that let it.
        inventory: The generation of what it is meant to serve that it was told.
        evict: Called with a reason word to take the registration back, or with
            ``AGAIN`` to have it made again.
        seq: Where the log has it.
        onward_key: Of the process, raw; empty: it has none.
        gate_epoch: The highest of the SSH gate that it keeps.
        withheld: What it declares and is not given, and why, as a word.
    """

    node_id: str
    proxy_id: str
    tunnel_id: str
    instance_id: str
    resources: Mapping[str, Assigned]
    since: float
    evict: Callable[[str], object] = field(repr=False)
    inventory: int = 0
    seq: int = 0
    onward_key: bytes = b""
    gate_epoch: int = 0
    withheld: Mapping[str, str] = field(factory=dict)

    def lacks_gate(self, facts: ClusterState) -> bool:
        """Whether it serves what it may not serve any more, being older than the SSH gate."""
        if self.gate_epoch >= facts.gate_epoch:
            return False
        known = (facts.catalog.get(one) for one in self.resources)
        return any(one is not None and one.kind in GATED_KINDS for one in known)


@define
class Registrations:
    """The index; every operation costs what the one registration holds, not the whole.

    Attributes:
        changes: How often a registration was entered or taken out.
    """

    _by_node: dict[str, set[Registered]] = field(factory=dict)
    _by_resource: dict[str, set[Registered]] = field(factory=dict)
    _by_proxy: dict[str, set[Registered]] = field(factory=dict)
    _meant: dict[str, dict[str, Assigned]] = field(factory=dict)
    _refused: dict[str, str] = field(factory=dict)
    changes: int = field(default=0, init=False)

    def add(self, registered: Registered) -> None:
        """Enter a registration; one of the same node through the same Proxy is replaced."""
        for older in tuple(self._by_node.get(registered.node_id, ())):
            if older.proxy_id == registered.proxy_id:
                self.remove(older)
        self.changes += 1
        self._refused.pop(registered.node_id, None)
        self._by_node.setdefault(registered.node_id, set()).add(registered)
        self._by_proxy.setdefault(registered.proxy_id, set()).add(registered)
        for resource in registered.resources:
            self._by_resource.setdefault(resource, set()).add(registered)

    def remove(self, registered: Registered) -> bool:
        """Take a registration out; whether it was there."""
        if registered not in self._by_node.get(registered.node_id, ()):
            return False
        self.changes += 1
        _discard(self._by_node, registered.node_id, registered)
        _discard(self._by_proxy, registered.proxy_id, registered)
        for resource in registered.resources:
            _discard(self._by_resource, resource, registered)
        return True

    def refuse(self, node_id: str, reason: str) -> None:
        """A registration that this Connector signed was refused; of the newest it is known why."""
        if len(self._refused) >= MAX_REFUSED:
            self._refused.clear()
        self._refused[node_id] = reason

    def refusal(self, node_id: str) -> str:
        """Why its newest registration was refused; empty: it was not, or none came since."""
        return self._refused.get(node_id, "")

    def of_node(self, node_id: str) -> tuple[Registered, ...]:
        """The registrations of this Connector, through whatever Proxy."""
        return tuple(self._by_node.get(node_id, ()))

    def serving(self, wanted: Assigned, proxy_id: str) -> Registered | None:
        """The newest registration that serves this through this Proxy.

        One from before the resource was assigned again, or was another, does not:
        until its Connector registered again nobody serves it.
        """
        candidates = [one for one in self.all_serving(wanted) if one.proxy_id == proxy_id]
        return max(candidates, key=lambda one: one.since, default=None)

    def is_served(self, wanted: Assigned) -> bool:
        """Whether anybody serves it anywhere."""
        return bool(self.all_serving(wanted))

    def served_through(self, proxy_id: str) -> set[str]:
        """The ids of all that is served through this Proxy."""
        served: set[str] = set()
        return served.union(*(one.resources for one in self._by_proxy.get(proxy_id, ())))

    def all_serving(self, wanted: Assigned) -> list[Registered]:
        """Every registration that serves this, through whatever Proxy."""
        offered = self._by_resource.get(wanted.id, ())
        return [one for one in offered if one.resources[wanted.id] == wanted]

    def instances(self, node_id: str) -> frozenset[str]:
        """The processes of this Connector that are registered now, through whatever Proxy."""
        return frozenset(one.instance_id for one in self._by_node.get(node_id, ()))

    def inventory(self, node_id: str) -> int | None:
        """The oldest inventory generation among this Connector's registrations, if there is any."""
        generations = [one.inventory for one in self._by_node.get(node_id, ())]
        return min(generations, default=None)

    def is_without_gate(self, resource_id: str, node_id: str | None) -> bool:
        """Whether this Connector declares it and is not given it, being older than the SSH gate."""
        standing = self.of_node(node_id or "")
        return any(one.withheld.get(resource_id) == GATE_NOT_OFFERED for one in standing)

    def evict(self, node_id: str, reason: str) -> int:
        """Take back every registration of a Connector or through a Proxy; how many there were."""
        of_node = self._by_node.get(node_id, set()) | self._by_proxy.get(node_id, set())
        for registered in tuple(of_node):
            self.evict_one(registered, reason)
        return len(of_node)

    def evict_one(self, registered: Registered, reason: str) -> None:
        """Take back one registration and say why on its stream."""
        self.remove(registered)
        registered.evict(reason)

    def follow(self, facts: ClusterState) -> None:
        """Have everybody register again whose assignments are others by these facts.

        Called at each change of the facts, whoever made it and however its caller
        fared; so no session goes by what was assigned before.
        """
        before, self._meant = self._meant, _assignments(facts)
        for node_id, registered in tuple(self._by_node.items()):
            meant = self._meant.get(node_id, {})
            is_as_before = meant == before.get(node_id, {})
            is_good = all(
                one.resources.items() <= meant.items() and not one.lacks_gate(facts)
                for one in registered
            )
            if is_as_before and is_good:
                continue
            known = facts.nodes.get(node_id)
            # One that was revoked is told that, and not asked for more.
            if known is not None and known.state is not NodeState.REVOKED:
                self.ask_again(node_id)

    def ask_again(self, node_id: str) -> None:
        """Let a Connector register again, because what it may serve changed.

        Its stream ends and its Proxy registers it over another; its tunnel and
        its sessions go on, and until then it stands here as it was.
        """
        for registered in tuple(self._by_node.get(node_id, ())):
            registered.evict(AGAIN)

    @property
    def connectors(self) -> int:
        """How many Connectors are registered now."""
        return len(self._by_node)


def _assignments(facts: ClusterState) -> dict[str, dict[str, Assigned]]:
    """What each Connector is meant to serve, by its node and the resource."""
    meant: dict[str, dict[str, Assigned]] = {}
    for one in facts.catalog.values():
        if one.assigned_to is not None and not one.lacks_mode:
            meant.setdefault(one.assigned_to, {})[one.id] = one.assigned
    return meant


def _discard(index: dict[str, set[Registered]], key: str, registered: Registered) -> None:
    members = index[key]
    members.discard(registered)
    if not members:
        del index[key]
