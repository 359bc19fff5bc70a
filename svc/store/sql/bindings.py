"""Which Connector serves a resource: one row for each change, at most one of them current.

Rows are added and never rewritten but for their state: what was meant at any
time can be read back.
"""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.interfaces.inventory import IBindings
from svc.model.cluster.resource import Binding, Resource
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements


def bind(db: Statements, resource: Resource, node_id: str | None, revision: int, at: float) -> None:
    """Make the next binding of *resource* current; the one before is past already."""
    db.change(
        "INSERT INTO manual_bindings (identity, node_id, revision, state, bound_at,"
        " assignment_revision) VALUES (?, ?, ?, 'current', ?, ?)",
        resource.identity,
        node_id,
        revision,
        at,
        resource.assignment_revision + 1,
    )


def unbind(db: Statements, resource: Resource) -> None:
    """What is current of *resource*, if anything, is past from now on."""
    db.change(
        "UPDATE manual_bindings SET state = 'past' WHERE identity = ? AND state = 'current'",
        resource.identity,
    )


_BINDINGS = RowColumns(
    Binding,
    "manual_bindings b JOIN resource_identities i ON i.identity = b.identity",
    "b.identity, b.node_id, b.revision, b.assignment_revision, b.state AS is_current, b.bound_at",
    is_current=lambda state: state == "current",
)


@implementer(IBindings)
@frozen
class Bindings:
    """See :class:`IBindings`."""

    _db: Statements

    def of(self, resource_id: str) -> tuple[Binding, ...]:
        return _BINDINGS.all(self._db, "WHERE i.resource_id = ? ORDER BY b.revision", resource_id)
