"""The ledger of migrations and the facts of a store."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.interfaces.facets import ISchema
from svc.model.store.migration import AppliedMigration
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements

_APPLIED = RowColumns(
    AppliedMigration, "svc_migrations", "id, checksum, applied_at, binary_version"
)


@implementer(ISchema)
@frozen
class Schema:
    """See :class:`ISchema`."""

    _db: Statements

    def applied(self) -> tuple[AppliedMigration, ...]:
        return _APPLIED.all(self._db, "ORDER BY id")

    def fact(self, name: str) -> str | None:
        row = self._db.one("SELECT value FROM store_facts WHERE name = ?", name)
        return None if row is None else str(row[0])

    def settle(self, name: str, value: str) -> str:
        self._db.change(
            "INSERT INTO store_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
            name,
            value,
        )
        return self.fact(name) or value

    def facts(self, prefix: str, limit: int) -> tuple[str, ...]:
        # "/" follows "." in the order of both databases, so this reads a range of the primary key.
        rows = self._db.all(
            "SELECT name FROM store_facts WHERE name >= ? AND name < ? ORDER BY name LIMIT ?",
            f"{prefix}.",
            f"{prefix}/",
            limit,
        )
        return tuple(str(name) for (name,) in rows)

    def drop(self, name: str) -> bool:
        return bool(self._db.change("DELETE FROM store_facts WHERE name = ?", name))
