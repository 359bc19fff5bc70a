"""Rehearses migrations on a temporary copy of a PostgreSQL store.

All of it is one transaction that is never committed: a schema of its own, the
tables that the store's migrations make, the store's rows of one moment, and then
what is pending.  However the process ends, the server keeps nothing; and others
wait for nothing, because of the store it only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from graphlib import TopologicalSorter

from attrs import define

from svc.model.store.migration import StoreStanding
from svc.model.store.rehearsal import WHOLE, Rehearsal, StoreContents, TableRows, rehearsed
from svc.store.migrate import Migration, Stopwatch, apply_pending, refused, status_of
from svc.store.postgres.connect import LEDGER, read_ledger
from svc.store.postgres.connection import PostgresConnection, PostgresStatements

_TABLE = "svc_migrations"


@define(eq=False)
class SavepointDatabase(PostgresStatements):
    """Migrations applied inside a transaction that is never committed."""

    def begin(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        self.connection.ask("SAVEPOINT migration")

    def commit(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        self.connection.ask("RELEASE SAVEPOINT migration")

    def rollback(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        if self.connection.in_transaction:
            self.connection.ask("ROLLBACK TO SAVEPOINT migration")


@define
class PostgresRehearsal:
    """One rehearsal over one connection, which its creator closes.

    Args:
        seconds: A clock nobody sets.
    """

    connection: PostgresConnection
    migrations: tuple[Migration, ...]
    binary_version: str
    now: Callable[[], float]
    seconds: Callable[[], float]

    def rehearse(self) -> Rehearsal:
        """Migrate a copy.

        Raises:
            SvcError: ``rehearsal_refused``.
            UnknownApplied, MigrationsBroken: there is nothing to rehearse.
            psycopg2.Error: as the server raised it.
        """
        db = SavepointDatabase(self.connection)
        self.connection.ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")
        status = status_of(self.migrations, read_ledger(db))
        if status.standing is not StoreStanding.PENDING:
            status.require_current()
        self._require_right(db)
        started = self.seconds()
        self._copy(db, self.migrations[: status.count])
        began = self.seconds()
        before, watch = look(db), Stopwatch(self.seconds)
        report = apply_pending(
            db,
            self.migrations,
            lambda: read_ledger(db),
            self.binary_version,
            self.now,
            LEDGER,
            watch.lap,
        )
        found = rehearsed(before, look(db), watch.laps, began - started, report)
        self.connection.ask("ROLLBACK")
        return found

    def _require_right(self, db: PostgresStatements) -> None:
        (row,) = db.all(
            "SELECT has_database_privilege(current_database(), 'CREATE'),"
            " format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user)"
        )
        if not row[0]:
            raise refused(
                "store: rehearsing copies the store into a schema of its own, which is gone "
                f"afterwards; the role may not make one: {row[1]}"
            )

    def _copy(self, db: SavepointDatabase, done: Sequence[Migration]) -> None:
        (found,) = db.all(
            "SELECT (SELECT quote_ident(n.nspname) FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE c.oid = to_regclass('{_TABLE}')), 'svc_rehearsal_' || pg_backend_pid()"
        )
        source, scratch = found
        db.change(f"CREATE SCHEMA {scratch}")
        db.change(f"SET LOCAL search_path = {scratch}")
        if source is None:
            return
        # The tables of the store's level, without a row, then the store's rows.
        apply_pending(db, done, lambda: read_ledger(db), self.binary_version, self.now, LEDGER)
        db.change(f"TRUNCATE {', '.join(_in_order(db))}")
        for table in _in_order(db):
            wanted = _kept(db, scratch, table)
            kept = _kept(db, source, table)
            if not set(wanted) <= set(kept):
                raise refused(
                    f"store: {table} differs from what its migrations create; restore the "
                    "store from a backup that was made before somebody changed it"
                )
            names = ", ".join(wanted)
            db.change(
                f"INSERT INTO {scratch}.{table} ({names}) SELECT {names} FROM {source}.{table}"
            )


def look(db: PostgresStatements) -> StoreContents:
    """What is in the schema that the search path names first."""
    objects: dict[str, dict[str, str]] = {}
    rows: dict[str, TableRows] = {}
    for table in _in_order(db):
        columns = _columns(db, table)
        objects[f"table {table}"] = {name: definition for name, definition, _ in columns}
        if table != _TABLE:
            rows[table] = _rows(db, table, [name for name, _, is_kept in columns if is_kept])
    for table, name, definition in db.all(
        "SELECT c.relname, o.conname, pg_get_constraintdef(o.oid) FROM pg_constraint o"
        " JOIN pg_class c ON c.oid = o.conrelid"
        " WHERE o.connamespace = current_schema()::regnamespace AND o.contype <> 'n'"
    ):
        objects[f"table {table}"][f"constraint {name}"] = definition
    for name, definition in db.all(
        "SELECT i.relname, replace(pg_get_indexdef(i.oid), current_schema() || '.', '')"
        " FROM pg_class i JOIN pg_index x ON x.indexrelid = i.oid"
        " WHERE i.relnamespace = current_schema()::regnamespace"
        " AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = i.oid)"
    ):
        objects[f"index {name}"] = {WHOLE: definition}
    for name, definition in db.all(
        "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc p"
        " WHERE p.pronamespace = current_schema()::regnamespace AND p.prokind = 'f'"
    ):
        objects[f"function {name}"] = {WHOLE: definition}
    return StoreContents(objects, rows)


def _in_order(db: PostgresStatements) -> Iterator[str]:
    """The tables of the first schema, those that others refer to first."""
    graph: dict[str, set[str]] = {}
    for table, other in db.all(
        "SELECT quote_ident(c.relname), quote_ident(f.relname) FROM pg_class c"
        " LEFT JOIN pg_constraint o ON o.conrelid = c.oid AND o.contype = 'f'"
        " AND o.confrelid <> c.oid"
        " LEFT JOIN pg_class f ON f.oid = o.confrelid"
        " WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace"
        " ORDER BY 1, 2"
    ):
        graph.setdefault(table, set()).update([other] if other else [])
    return iter(TopologicalSorter(graph).static_order())


def _kept(db: PostgresStatements, schema: str, table: str) -> list[str]:
    """The columns of a table that are not derived."""
    return [
        row[0]
        for row in db.all(
            "SELECT quote_ident(a.attname) FROM pg_attribute a"
            " WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped"
            " AND a.attgenerated = '' ORDER BY a.attnum",
            f"{schema}.{table}",
        )
    ]


def _columns(db: PostgresStatements, table: str) -> list[tuple[str, str, bool]]:
    """Of each column its name, what it is, and whether it is kept (not derived)."""
    return [
        (name, definition, generated == "")
        for name, definition, generated in db.all(
            "SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod)"
            " || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END"
            " || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')"
            " || CASE WHEN a.attgenerated <> '' THEN ' derived' ELSE '' END,"
            " a.attgenerated::text"
            " FROM pg_attribute a LEFT JOIN pg_attrdef d"
            " ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
            " WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped"
            " ORDER BY a.attnum",
            table,
        )
    ]


def _rows(db: PostgresStatements, table: str, columns: list[str]) -> TableRows:
    sums = "".join(f", coalesce(sum(hashtextextended({name}::text, 0)), 0)" for name in columns)
    (row,) = db.all(f"SELECT count(*){sums} FROM {table}")
    return TableRows(row[0], dict(zip(columns, map(int, row[1:]), strict=True)))
