"""Copying a PostgreSQL store, and filling one.

A copy is one read-only transaction of the strictest snapshot there is for reading
(repeatable read), read through cursors of the server; a store is filled in one
transaction, so a database holds all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg2
from attrs import define, field
from zope.interface import implementer

from svc.errors import Malformed
from svc.interfaces.copies import CopyHead, IStoreCopy, IStoreFilling
from svc.interfaces.store import ChainHash, ITransaction
from svc.model.canonical import Json
from svc.store.copy.fill import fill
from svc.store.copy.lines import BATCH, BYTES, INT, REAL, TEXT, CopyWriter, Table
from svc.store.migrate import Migration
from svc.store.postgres.connect import read_ledger
from svc.store.postgres.connection import PostgresConnection, PostgresStatements, refusal
from svc.store.postgres.url import SCHEME, DatabasePlace
from svc.store.sql.statements import Row, Statements
from svc.store.sql.transaction import Transaction

BEGIN_LOOKING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BEGIN_FILLING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
STEP_SECS = 600.0
"""How long one statement of a copy may take: a table's keys are checked in one."""
_CURSOR = "svc_copy"
_KINDS = {"bigint": INT, "integer": INT, "double precision": REAL, "text": TEXT, "bytea": BYTES}

_COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY c.relname, a.attnum
"""
_KEYS = """
SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
WHERE i.indisprimary AND c.relnamespace = current_schema()::regnamespace
ORDER BY c.relname, array_position(i.indkey::int2[], a.attnum)
"""
_PARENTS = """
SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
"""
IS_THERE = """
SELECT EXISTS (SELECT 1 FROM pg_class
WHERE relkind IN ('r', 'p', 'v', 'm') AND relnamespace = current_schema()::regnamespace)
"""


@define
class _CopyConnection:
    """What both ways need of one connection in its transaction."""

    connection: PostgresConnection
    _seconds: Callable[[], float]
    _chain_hash: ChainHash
    dialect: str = SCHEME
    statements: Statements = field(init=False)
    tx: ITransaction = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.statements = PostgresStatements(self.connection)
        self.tx = Transaction(self.statements, self._chain_hash)

    def tables(self) -> Iterable[Table]:
        """See :class:`CopiedFrom`."""
        columns: dict[str, list[tuple[str, str]]] = {}
        for name, column, kind in self._all(_COLUMNS):
            if kind not in _KINDS:
                raise Malformed(f"store: {name}: a column has the unsupported type {kind}")
            columns.setdefault(name, []).append((column, _KINDS[kind]))
        keys: dict[str, list[str]] = {}
        for name, column in self._all(_KEYS):
            keys.setdefault(name, []).append(column)
        parents: dict[str, set[str]] = {}
        for name, parent in self._all(_PARENTS):
            parents.setdefault(name, set()).add(parent)
        return [
            Table(
                name=name,
                columns=tuple(column for column, _ in found),
                kinds=tuple(kind for _, kind in found),
                key=tuple(keys.get(name, ())),
                parents=frozenset(parents.get(name, ())),
            )
            for name, found in columns.items()
        ]

    def more_time(self) -> None:
        """The next statement has its own time."""
        self.connection.deadline = self._seconds() + STEP_SECS

    def _all(self, sql: str) -> list[Row]:
        self.more_time()
        rows: list[Row] = self.connection.ask(sql).fetchall()
        return rows


@implementer(IStoreCopy)
@define
class PostgresCopy(_CopyConnection):
    """See :class:`IStoreCopy`."""

    rows: Mapping[str, int] = field(factory=dict)

    def lines(self, stamp: Json) -> Iterator[bytes]:
        writer = CopyWriter(self, read_ledger(self.statements))
        self.rows = writer.rows
        yield from writer.lines(stamp)

    def stream(self, sql: str) -> Iterator[Sequence[Row]]:
        """See :class:`CopiedFrom`."""
        self.more_time()
        self.connection.ask(f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR {sql}")
        while rows := self._all(f"FETCH {BATCH} FROM {_CURSOR}"):
            yield rows
        self.connection.ask(f"CLOSE {_CURSOR}")


@implementer(IStoreFilling)
@define
class PostgresFilling(_CopyConnection):
    """See :class:`IStoreFilling`."""

    _migrations: Sequence[Migration] = field(kw_only=True)
    ledger: str = field(kw_only=True)
    _place: DatabasePlace = field(kw_only=True)

    def fill(self, lines: Iterable[bytes]) -> CopyHead:
        try:
            return fill(self, lines, self._migrations)
        except psycopg2.Error as error:
            if error.pgcode is not None and error.pgcode[:2] in ("22", "23"):
                cause = refusal(error, self._place, "restore").text
                raise Malformed(f"store copy: a row does not fit its table: {cause}") from None
            raise

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """See :class:`FilledInto`."""
        marks = f"({', '.join(['%s'] * len(table.columns))})"
        values = ", ".join(self.connection.filled(marks, tuple(row)) for row in rows)
        self.more_time()
        self.connection.ask(
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES {values}"
        )

    def commit(self) -> None:
        self.more_time()
        self.connection.ask("SET LOCAL statement_timeout = 0;COMMIT")
