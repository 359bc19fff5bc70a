"""Fills a new store from a copy: the schema by this build's migrations, then the rows.

The migrations that the copy's ledger names are applied, no more: a restored store is
where it was, and is migrated like any other.  All of it is one transaction of the
caller's, and is undone by whoever rolls that back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from attrs import evolve

from svc.errors import Malformed
from svc.interfaces.copies import CopyHead
from svc.model.store.migration import AppliedMigration, StoreStanding
from svc.store.copy.lines import LEDGER_TABLE, CopyReader, Table, in_order
from svc.store.migrate import Migration, status_of
from svc.store.sql.statements import Statements, storable


class FilledInto(Protocol):
    """What an empty database offers: an open transaction."""

    dialect: str
    statements: Statements
    ledger: str
    """The statement that makes the ledger."""

    def tables(self) -> Iterable[Table]:
        """Every table that is there now."""

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows there."""


def fill(target: FilledInto, lines: Iterable[bytes], migrations: Sequence[Migration]) -> CopyHead:
    """See :class:`IStoreFilling`."""
    reader = CopyReader(iter(lines))
    head = reader.head()
    _make_schema(target, head, migrations)
    tables = {each.name: each for each in target.tables()}
    # What the migrations themselves put there is in the copy, too.
    for table in reversed(in_order(tables.values())):
        if table.name != LEDGER_TABLE:
            target.statements.change(f"DELETE FROM {table.name}")
    for section, rows in reader.sections():
        ours = tables.get(section.name)
        if ours is None or section.name == LEDGER_TABLE:
            raise Malformed(f"store copy: {section.name}: there is no such table at its level")
        if (section.columns, section.kinds) != (ours.columns, ours.kinds):
            raise Malformed(f"store copy: {section.name}: its columns do not match its level")
        for row in rows:
            storable(row)
        target.insert(ours, rows)
    missing = tables.keys() - reader.rows.keys() - {LEDGER_TABLE}
    if missing:
        raise Malformed(f"store copy: tables are missing: {', '.join(sorted(missing))}")
    return head


def _make_schema(target: FilledInto, head: CopyHead, migrations: Sequence[Migration]) -> None:
    ours = {each.id: each.checksum for each in migrations}
    applied: Sequence[AppliedMigration] = head.ledger
    if head.dialect != target.dialect:
        # Each database has files of its own for a migration; the ids are the same.
        applied = [evolve(each, checksum=ours.get(each.id, "")) for each in applied]
    status = status_of(migrations, applied)
    if status.standing not in (StoreStanding.CURRENT, StoreStanding.PENDING):
        status.require_current()
    target.statements.change(target.ledger)
    for migration, row in zip(migrations, applied, strict=False):
        migration.apply(target.statements)
        target.statements.change(
            "INSERT INTO svc_migrations (id, checksum, applied_at, binary_version)"
            " VALUES (?, ?, ?, ?)",
            row.id,
            row.checksum,
            row.applied_at,
            row.binary_version,
        )
