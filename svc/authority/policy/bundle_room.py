"""Keeps what Proxies are sent within what they take: people, groups, resources and the policy.

A Proxy holds all of it in memory and gets it in one message.  A row that would make it too long is
refused as it is written, so that no Proxy is ever sent what it cannot take.  What makes it shorter
is always possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from svc.authority.state.cluster import ClusterState
from svc.authority.state.tables import PROTECTED
from svc.errors import Fault, SvcError
from svc.interfaces.store import ITransaction
from svc.messages.snapshot import MAX_BUNDLE_BYTES
from svc.model.audit.state import StateEntry
from svc.model.cluster.agent import Agent, AgentState, Delegation
from svc.model.cluster.labels import discovered_of, given_of
from svc.model.cluster.node import Node
from svc.model.cluster.person import Person, PersonState
from svc.model.cluster.resource import Resource
from svc.model.policy.version import PolicyVersion
from svc.policy.entities import (
    MAX_ENTITIES,
    AgentFacts,
    Facts,
    GroupFacts,
    NodeFacts,
    PersonFacts,
    ResourceFacts,
    entity_of,
)

_TABLES = {one.name: one for one in PROTECTED}
_SORTS: Mapping[str, Callable[[ClusterState], Mapping[str, Any]]] = {
    "person": lambda state: state.people,
    "group": lambda state: dict.fromkeys(state.groups),
    "node": lambda state: state.nodes,
    "resource": lambda state: state.catalog,
    "agent": lambda state: state.agents,
    "delegation": lambda state: state.delegations,
}
"""Where the rows of each sort are that policies look at."""

_BETWEEN = 1
MIB = 1 << 20


def size_of(row: Any) -> int:
    """Bytes that a row takes of a bundle; 0: none."""
    match row:
        case Person():
            facts: Facts = PersonFacts(row.id, row.name, row.groups)
            return _size(facts) if row.state is PersonState.ACTIVE else 0
        case Agent():
            return _size(AgentFacts(row.id, row.name, row.owner)) if _is_active(row) else 0
        case Delegation():
            return 0 if row.revoked_at else sum(len(text.encode()) + 3 for text in row.texts)
        case Node():
            return _size(NodeFacts(row.id, row.role))
        case Resource():
            labels = given_of(row.labels), discovered_of(row.labels)
            return _size(ResourceFacts(row.id, row.kind, row.kind, *labels))
        case PolicyVersion():
            return len(row.text.encode())
        case str():
            return _size(GroupFacts(row))
    return 0


def _size(facts: Facts) -> int:
    return len(entity_of(facts).text) + _BETWEEN


def _is_active(agent: Agent) -> bool:
    return agent.state is AgentState.ACTIVE


def bundle_size(state: ClusterState) -> int:
    """Bytes, nearly, of the bundle that is made of a state."""
    rows: list[Any] = [one for part in _SORTS.values() for one in _rows(part(state))]
    return sum(map(size_of, [*rows, state.policy]))


def _count(state: ClusterState) -> int:
    """The entities of a state, and the cluster's own."""
    rows = (state.people, state.groups, state.nodes, state.catalog, state.agents)
    return 1 + sum(map(len, rows))


def _is_new(state: ClusterState, entry: StateEntry) -> bool:
    is_there = entry.digest is not None and entry.sort in _SORTS
    return is_there and entry.subject.partition(":")[2] not in _SORTS[entry.sort](state)


def _rows(part: Mapping[str, Any]) -> Iterable[Any]:
    return (id if row is None else row for id, row in part.items())


@define
class BundleRoom:
    """Refuses changes for which a bundle has no room; called in the thread that writes.

    Attributes:
        made: Revision and bytes of the bundle that was made last.
        known: The state that it was made of, or a later one.
        most: Bytes of the longest bundle.
        most_entities: How many an engine takes.
    """

    made: Callable[[], tuple[int, int]]
    known: Callable[[], ClusterState]
    most: int = MAX_BUNDLE_BYTES
    most_entities: int = MAX_ENTITIES
    # What changes since then have added, and the revision that each made, by the record of each.
    _grown: dict[int, tuple[int, int]] = field(factory=dict, init=False)

    def left(self) -> int:
        """Bytes that a bundle may still grow by; may be asked from any thread."""
        revision, size = self.made()
        return (
            self.most
            - size
            - sum(grown for at, grown in list(self._grown.values()) if at > revision)
        )

    def left_for(self, least: int) -> int:
        """Bytes for more rows, each of which takes *least* at least."""
        return min(self.left(), least * (self.most_entities - _count(self.known())))

    def require_after(self, tx: ITransaction, changed: Sequence[StateEntry]) -> None:
        """Refuse a transaction whose rows, as they are now, do not fit.

        Raises:
            SvcError: ``bundle_full``; the transaction is undone.
        """
        state = self.known()
        if self.left() > self.most // 2 and _count(state) < self.most_entities // 2:
            return  # No transaction adds so much.
        # A record whose transaction was undone, or runs again, leaves its number to this one.
        n = tx.state.tip()
        self._grown = {made: by for made, by in self._grown.items() if made < n}
        grown = sum(self._growth(tx, state, one) for one in changed)
        if grown <= 0:
            return
        left = self.left()
        if grown > left:
            size = self.most - left + grown
            raise bundle_full(f"{size / MIB:.1f} MiB of the {self.most / MIB:.0f} MiB")
        count = _count(state) + sum(_is_new(state, one) for one in changed)
        if count > max(_count(state), self.most_entities):
            raise bundle_full(f"{count} entities of the {self.most_entities}")
        at, (revision, _) = tx.catalog.revision(), self.made()
        self._grown = {made: by for made, by in self._grown.items() if by[0] > revision}
        self._grown[n] = at, grown

    def _growth(self, tx: ITransaction, state: ClusterState, entry: StateEntry) -> int:
        id = entry.subject.partition(":")[2]
        if entry.sort == "policy":
            return size_of(tx.policies.active()) - size_of(state.policy)
        if entry.sort not in _SORTS:
            return 0
        before = _SORTS[entry.sort](state)
        had = size_of(id if entry.sort == "group" else before[id]) if id in before else 0
        return size_of(_TABLES[entry.sort].get(tx, id)) - had


def bundle_full(much: str) -> SvcError:
    """The refusal of a change that makes a bundle too long."""
    return SvcError(
        f"people, groups, resources and policy would take {much} that a Proxy is sent; nothing "
        "was changed.  Remove what is not needed: svc authority persons list, groups list, "
        "resources list; labels count, too",
        reason="bundle_full",
        fault=Fault.EXHAUSTED,
    )
