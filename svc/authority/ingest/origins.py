"""Which origins may use the audit queue, and with which key (rules R8 and R9)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from svc.audit.ingest.validate import MAY_WRITE
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.cluster import ClusterState
from svc.authority.state.tables import SignedRows
from svc.model.audit.spool import audit_key_id
from svc.model.cluster.node import Node, NodeState


@define
class OriginKeys:
    """The audit keys in force: those of active nodes whose rows signed records cover.

    And of whom their rows may be.
    """

    state_cache: ClusterStateCache
    _of: ClusterState | None = field(default=None, init=False)
    _keys: Mapping[str, Node] = field(factory=dict, init=False)

    def now(self) -> Mapping[str, Node]:
        """The nodes by the id of their key."""
        facts = self.state_cache.state
        if facts is not self._of:
            self._keys = {
                audit_key_id(node.audit_key): node
                for node in facts.nodes.values()
                if node.state is NodeState.ACTIVE and node.role in MAY_WRITE.events
            }
            self._of = facts
        return self._keys

    def is_member(self, kind: str, id: str) -> bool:
        """Whether such a ``person``, ``agent`` or ``node`` exists or existed."""
        facts = self.state_cache.state
        if kind == "person":
            return id in facts.people
        return id in (facts.agents if kind == "agent" else facts.nodes)


def is_in_force(rows: SignedRows, node_id: str, key_id: str) -> bool:
    """Whether the node is active in this transaction, with that audit key.

    Raises:
        StateUnsigned: its row is not what was signed for.
    """
    found = rows.node(node_id)
    return (
        found is not None
        and found.state is NodeState.ACTIVE
        and audit_key_id(found.audit_key) == key_id
    )
