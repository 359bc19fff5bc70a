"""The statements that a facet may run on a database.

Values go in as ``?`` placeholders in order; a backend that spells them
otherwise translates.  A facet opens no transaction and catches no database
error: both belong to whoever runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol, TypeVar

from svc.errors import Malformed

Row = tuple[Any, ...]
"""One row as the database gives it; each facet turns it into a value at once."""


IN_LIST = 500
"""Values that one IN list may hold."""

TOGETHER = 64
"""Rows that one statement inserts."""

_T = TypeVar("_T")


class Statements(Protocol):
    """Statements inside one transaction."""

    def one(self, sql: str, *values: object) -> Row | None:
        """The first row, or None; the statement is finished when this returns."""

    def all(self, sql: str, *values: object) -> list[Row]:
        """Every row."""

    def change(self, sql: str, *values: object) -> int:
        """How many rows were touched."""

    def write(self, sql: str, *values: object) -> None:
        """As :meth:`change` without a row count: may run together with the next statement."""

    def raw(self, column: str) -> str:
        """The expression that reads *column*, of text or bytes, whatever was put there."""

    def member(self, column: str, name: str) -> str:
        """The expression that reads the text *name* of a JSON object, or NULL; names no value."""


def storable(values: Iterable[object]) -> None:
    """Refuse text that not every database keeps, so that all of them keep the same.

    Raises:
        Malformed: a text contains NUL or a lone surrogate.
    """
    # Joined: a statement may insert many rows, and looking at each text took a quarter of that.
    found = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
    texts = "".join(found)
    if not texts.isascii():
        try:
            texts.encode("utf-8")
        except UnicodeEncodeError:
            raise Malformed("store: a text contains a lone surrogate") from None
    if "\0" in texts:
        raise Malformed("store: a text contains NUL")


def marks(count: int) -> str:
    """*count* placeholders for an IN list."""
    return ", ".join("?" * count)


def parts(values: Collection[_T], most: int = IN_LIST) -> Iterator[list[_T]]:
    """*values* in parts of at most *most*; by default as many as an IN list may hold."""
    listed = list(values)
    for start in range(0, len(listed), most):
        yield listed[start : start + most]


def write_all(db: Statements, into: str, rows: Sequence[Row]) -> None:
    """Insert *rows*, many in a statement: each statement has a price of its own.

    Args:
        into: The table and its columns, in brackets.
    """
    for start in range(0, len(rows), TOGETHER):
        part = rows[start : start + TOGETHER]
        db.write(_insert(into, len(part[0]), len(part)), *chain.from_iterable(part))


@lru_cache(maxsize=256)
def _insert(into: str, width: int, count: int) -> str:
    """The statement that inserts so many rows; a session's are the same each time."""
    values = ", ".join([f"({marks(width)})"] * count)
    return f"INSERT INTO {into} VALUES {values}"


def next_revision(db: Statements) -> int:
    """Count one more change of the catalog and return the new revision."""
    row = db.one("UPDATE revisions SET value = value + 1 WHERE name = 'catalog' RETURNING value")
    assert row is not None, "m0003 puts the counter there and nothing removes it"
    return int(row[0])
