"""The format of a store's copy: lines of JSON that fit any database.

The first line says what it is and which migrations were applied.  A section begins
with an object that names a table and its columns; each row is an array; bytes are in
hex.  Rows that belong together go by together: after each stretch of the log come the
personal values of just these records, so whoever reads needs no other order.  The
last line counts the rows of every table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field, frozen

from svc.errors import Malformed, StoreUnavailable
from svc.interfaces.copies import CopyHead
from svc.model.canonical import Json
from svc.model.store.migration import AppliedMigration
from svc.store.sql.statements import Row, Statements

FORM = "svc-store-copy-v1"
BATCH = 512
MAX_LINE = 1 << 26
LEDGER_TABLE = "svc_migrations"
LOG, BESIDE = "audit_log", "personal_values"
INT, REAL, TEXT, BYTES = "int", "real", "text", "bytes"

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False
).encode


@frozen
class Table:
    """A table as both databases see it.

    Attributes:
        columns: Those that are written; derived ones are not.
        kinds: Of each column: ``int``, ``real``, ``text`` or ``bytes``.
        key: The columns by which its rows are ordered.
        parents: Tables whose rows must be there before.
    """

    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    key: tuple[str, ...] = ()
    parents: frozenset[str] = frozenset()

    @property
    def select(self) -> str:
        """Reads every column, in no order yet."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name}"


class CopiedFrom(Protocol):
    """What a database offers to be copied: one snapshot."""

    dialect: str
    statements: Statements

    def tables(self) -> Iterable[Table]:
        """Every table."""

    def stream(self, sql: str) -> Iterator[Sequence[Row]]:
        """The rows of one query, some at a time."""


def in_order(tables: Iterable[Table]) -> list[Table]:
    """Parents first.

    Raises:
        Malformed: they refer to one another in a circle.
    """
    left = {each.name: each for each in sorted(tables, key=lambda table: table.name)}
    found: list[Table] = []
    while left:
        ready = [each for each in left.values() if not (each.parents - {each.name}) & left.keys()]
        if not ready:
            raise Malformed(f"store: tables refer to each other in a cycle: {', '.join(left)}")
        found += ready
        for each in ready:
            del left[each.name]
    return found


@define
class CopyWriter:
    """Writes a copy.

    Attributes:
        rows: How many of each table went by.
    """

    source: CopiedFrom
    ledger: Sequence[AppliedMigration]
    rows: dict[str, int] = field(init=False, factory=dict)

    def lines(self, stamp: Json) -> Iterator[bytes]:
        """See :class:`IStoreCopy`."""
        if not self.ledger:
            raise StoreUnavailable(
                "store: not found: no migration has been applied to this database"
            )
        ledger = [[e.id, e.checksum, e.applied_at, e.binary_version] for e in self.ledger]
        head = {"form": FORM, "stamp": stamp, "dialect": self.source.dialect, "ledger": ledger}
        yield _encode(head).encode() + b"\n"
        tables = {each.name: each for each in in_order(self.source.tables())}
        tables.pop(LEDGER_TABLE, None)
        beside = tables.pop(BESIDE, None)
        for table in tables.values():
            self.rows[table.name] = 0
            yield self._section(table)
            ordered = f"{table.select} ORDER BY {', '.join(table.key or table.columns)}"
            for batch in self.source.stream(ordered):
                yield self._batch(table, batch)
                if table.name == LOG and beside is not None:
                    yield from self._beside(beside, batch[0][0], batch[-1][0])
                    yield self._section(table)
            if table.name == LOG and beside is not None and beside.name not in self.rows:
                self.rows[beside.name] = 0
                yield self._section(beside)
        yield _encode({"end": self.rows}).encode() + b"\n"

    def _beside(self, table: Table, first: int, last: int) -> Iterator[bytes]:
        found = self.source.statements.all(
            f"{table.select} WHERE seq BETWEEN ? AND ? ORDER BY {', '.join(table.key)}",
            first,
            last,
        )
        if found:
            self.rows.setdefault(table.name, 0)
            yield self._section(table)
            yield self._batch(table, found)

    @staticmethod
    def _section(table: Table) -> bytes:
        form = {"table": table.name, "columns": table.columns, "kinds": table.kinds}
        return _encode(form).encode() + b"\n"

    def _batch(self, table: Table, rows: Sequence[Row]) -> bytes:
        self.rows[table.name] += len(rows)
        binary = [place for place, kind in enumerate(table.kinds) if kind == BYTES]
        lines = []
        for row in rows:
            if binary:
                shown = list(row)
                for place in binary:
                    if shown[place] is not None:
                        shown[place] = bytes(shown[place]).hex()
                lines.append(_encode(shown))
            else:
                lines.append(_encode(row))
        lines.append("")
        return "\n".join(lines).encode("utf-8")


@define
class CopyReader:
    """Reads a copy.

    Attributes:
        rows: How many of each table went by.
        is_whole: Whether its end was seen and counted as many.
    """

    _lines: Iterator[bytes]
    rows: dict[str, int] = field(init=False, factory=dict)
    is_whole: bool = field(init=False, default=False)

    def head(self) -> CopyHead:
        """The first line; to be asked for first.

        Raises:
            Malformed: it is no copy.
        """
        form = self._form(next(self._lines, b""))
        try:
            if form["form"] != FORM:
                raise Malformed(f"store copy: it has the format {form['form']!r} instead of {FORM}")
            ledger = tuple(
                AppliedMigration(
                    id=str(id),
                    checksum=str(checksum),
                    applied_at=float(at),
                    binary_version=str(version),
                )
                for id, checksum, at, version in form["ledger"]
            )
            return CopyHead(form["stamp"], str(form["dialect"]), ledger)
        except (KeyError, TypeError, ValueError):
            raise Malformed("store copy: its first line is malformed") from None

    def sections(self) -> Iterator[tuple[Table, list[list[Any]]]]:
        """The rows in order, some of one table at a time.

        Raises:
            Malformed: a line is malformed, or the end is missing or counts otherwise.
        """
        table: Table | None = None
        decode: Callable[[list[Any]], list[Any]] = list
        rows: list[list[Any]] = []
        for line in self._lines:
            if line[:1] == b"[" and table is not None:
                rows.append(decode(self._json(line)))
                if len(rows) < BATCH:
                    continue
            if rows and table is not None:
                self.rows[table.name] += len(rows)
                yield table, rows
                rows = []
            if line[:1] == b"[" and table is not None:
                continue
            form = self._form(line)
            if "end" in form:
                self._end(form["end"])
                return
            table = _table(form)
            self.rows.setdefault(table.name, 0)
            decode = _decoder(table)
        raise Malformed("store copy: its end is missing")

    def _end(self, counts: object) -> None:
        if counts != self.rows:
            raise Malformed("store copy: rows are missing or were added")
        if next(self._lines, b""):
            raise Malformed("store copy: there is data after its end")
        self.is_whole = True

    def _form(self, line: bytes) -> Mapping[str, Any]:
        form = self._json(line)
        if not isinstance(form, dict):
            raise Malformed("store copy: a line is malformed")
        return form

    @staticmethod
    def _json(line: bytes) -> Any:
        if len(line) > MAX_LINE or line[-1:] != b"\n":
            raise Malformed("store copy: a line is too long or incomplete")
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise Malformed("store copy: a line is not JSON") from None


def _table(form: Mapping[str, Any]) -> Table:
    try:
        table = Table(str(form["table"]), tuple(form["columns"]), tuple(form["kinds"]))
    except (KeyError, TypeError):
        raise Malformed("store copy: a section does not name its table") from None
    if len(table.columns) != len(table.kinds) or not set(table.kinds) <= set(_TYPES):
        raise Malformed(f"store copy: {table.name}: its columns are malformed")
    return table


_TYPES: Mapping[str, tuple[type, ...]] = {
    INT: (int,),
    REAL: (float, int),
    TEXT: (str,),
    BYTES: (str,),
}


def _decoder(table: Table) -> Callable[[list[Any]], list[Any]]:
    """Checks one row and turns it into what a database takes."""
    kinds = [_TYPES[kind] for kind in table.kinds]
    binary = [place for place, kind in enumerate(table.kinds) if kind == BYTES]

    def decode(row: list[Any]) -> list[Any]:
        try:
            for value, types in zip(row, kinds, strict=True):
                if value is not None and type(value) not in types:
                    raise ValueError
            for place in binary:
                if row[place] is not None:
                    row[place] = bytes.fromhex(row[place])
        except (TypeError, ValueError):
            raise Malformed(f"store copy: {table.name}: a row is malformed") from None
        return row

    return decode
