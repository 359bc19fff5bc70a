"""Counts the changes of each Connector's inventory; the count only grows."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from zope.interface import implementer

from svc.interfaces.inventory import IInventories
from svc.store.sql.statements import Statements


def begin_inventory(db: Statements, node_id: str, at: float) -> None:
    """A Connector joined: nothing is its own yet, and that is generation 1."""
    db.change(
        "INSERT INTO manual_inventory (node_id, generation, taken_at) VALUES (?, 1, ?)",
        node_id,
        at,
    )


def count_change(db: Statements, node_id: str | None, at: float) -> None:
    """The inventory of *node_id* has changed; None means no node."""
    if node_id is not None:
        db.change(
            "INSERT INTO manual_inventory (node_id, generation, taken_at) VALUES (?, 1, ?)"
            " ON CONFLICT (node_id) DO UPDATE SET"
            " generation = manual_inventory.generation + 1, taken_at = excluded.taken_at",
            node_id,
            at,
        )


@implementer(IInventories)
@frozen
class Inventories:
    """See :class:`IInventories`."""

    _db: Statements

    def generation(self, node_id: str) -> int:
        row = self._db.one("SELECT generation FROM manual_inventory WHERE node_id = ?", node_id)
        return 0 if row is None else int(row[0])

    def all(self) -> Mapping[str, int]:
        rows = self._db.all("SELECT node_id, generation FROM manual_inventory ORDER BY node_id")
        return {row[0]: row[1] for row in rows}
