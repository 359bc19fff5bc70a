"""The node registry.  The invariant: a generation is taken once, by one new leaf."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import INodes
from svc.model.cluster.node import Leaf, Node, NodeState, Publication, RegistryRenewal
from svc.store.sql.columns import RowColumns, RowInsert, words
from svc.store.sql.inventories import begin_inventory
from svc.store.sql.statements import Statements


def _node(leaf_serial: str, leaf_key_sha256: bytes, leaf_expires: float, **plain: Any) -> Node:
    return Node(leaf=Leaf(leaf_serial, leaf_key_sha256, leaf_expires), **plain)


_NODES = RowColumns(
    _node,
    "nodes n LEFT JOIN connector_publication p ON p.node_id = n.id",
    "n.id, n.name, n.role, n.key_sha256, n.audit_key, n.leaf_serial, n.leaf_key_sha256, "
    "n.leaf_expires, n.enrolled_at, n.generation, n.state, n.last_seen, n.version, "
    "n.public_names AS names, coalesce(p.mode,'manual') AS publication",
    key_sha256=bytes,
    audit_key=bytes,
    leaf_key_sha256=bytes,
    state=NodeState,
    names=words,
    publication=Publication,
)
_ADD = RowInsert(
    "nodes",
    "id, name, role, key_sha256, audit_key, leaf_serial AS leaf.serial, "
    "leaf_key_sha256 AS leaf.key_sha256, leaf_expires AS leaf.expires, enrolled_at, generation, "
    "state, last_seen, version, public_names AS names",
)


@implementer(INodes)
@frozen
class Nodes:
    """See :class:`INodes`."""

    _db: Statements

    def register(self, node: Node) -> None:
        if not _ADD(self._db, node):
            raise AlreadyExists(
                "store: a node with this id, this name or this audit key is already registered"
            )
        if node.role == "connector":
            begin_inventory(self._db, node.id, node.enrolled_at)
            self._db.change(
                "INSERT INTO connector_publication (node_id, mode, since) VALUES (?, ?, ?)",
                node.id,
                node.publication.value,
                node.enrolled_at,
            )

    def get(self, node_id: str) -> Node | None:
        return _NODES.one(self._db, "WHERE n.id = ?", node_id)

    def named(self, name: str) -> Node | None:
        return _NODES.one(self._db, "WHERE n.name = ? AND n.state = 'active'", name)

    def keyed(self, audit_key: bytes) -> Node | None:
        return _NODES.one(self._db, "WHERE audit_key = ?", audit_key)

    def all(self) -> tuple[Node, ...]:
        return _NODES.all(self._db, "ORDER BY n.name, n.enrolled_at, n.id")

    def revoke(self, node_id: str, at: float) -> bool:
        sql = "UPDATE nodes SET state = 'revoked', revoked_at = ? WHERE id = ? AND state = 'active'"
        return bool(self._db.change(sql, at, node_id))

    def renewed(self, node_id: str, from_generation: int, leaf: Leaf) -> RegistryRenewal:
        if self._take(node_id, leaf, from_generation, from_generation + 1):
            return RegistryRenewal.RENEWED
        node = self.get(node_id)
        if node is None:
            return RegistryRenewal.UNKNOWN
        if node.state is NodeState.REVOKED:
            return RegistryRenewal.REVOKED
        asks_again = (
            from_generation == node.generation - 1 and leaf.key_sha256 == node.leaf.key_sha256
        )
        if asks_again and self._take(node_id, leaf, node.generation, node.generation):
            return RegistryRenewal.REPEATED
        return RegistryRenewal.CLONE

    def seen(self, node_id: str, at: float, version: str) -> None:
        self._db.change(
            "UPDATE nodes SET last_seen = ?, version = ? WHERE id = ?", at, version, node_id
        )

    def _take(self, node_id: str, leaf: Leaf, expected: int, generation: int) -> bool:
        """The atomic comparison: no effect unless *expected* is the newest."""
        changed = self._db.change(
            "UPDATE nodes SET generation = ?, leaf_serial = ?, leaf_key_sha256 = ?,"
            " leaf_expires = ? WHERE id = ? AND generation = ? AND state = 'active'",
            generation,
            leaf.serial,
            leaf.key_sha256,
            leaf.expires,
            node_id,
            expected,
        )
        return bool(changed)
