"""How rows become values: by the names of their columns, never by position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from svc.store.sql.statements import Row, Statements

T = TypeVar("T")


class RowColumns(Generic[T]):
    """What is selected of a table, and the value that each row of it is.

    Args:
        make: Makes the value, given each column by its name.
        source: What stands after FROM.
        columns: As SQL has them, a comma and a space between two, and no space after a comma
            within one.  A column is named by what follows its AS, or its dot.
        read: By a column's name, what makes a value of what the database gives; not asked
            for NULL.
    """

    def __init__(
        self,
        make: Callable[..., T],
        source: str,
        columns: str,
        /,
        **read: Callable[[Any], object],
    ) -> None:
        self.listed = columns
        self._select = f"SELECT {self.listed} FROM {source} "
        self._names = tuple(_name_of(column) for column in columns.split(", "))
        self._make = make
        self._read = read

    def one(self, db: Statements, rest: str, *values: object) -> T | None:
        """The value of the first row, or None; *rest* follows the table."""
        row = db.one(self._select + rest, *values)
        return None if row is None else self.value(row)

    def all(self, db: Statements, rest: str, *values: object) -> tuple[T, ...]:
        """The value of every row."""
        return tuple(map(self.value, db.all(self._select + rest, *values)))

    def value(self, row: Row) -> T:
        """The value of a row of just the columns in :attr:`listed`."""
        found = dict(zip(self._names, row, strict=True))
        for name, read in self._read.items():
            if found[name] is not None:
                found[name] = read(found[name])
        return self._make(**found)


def _name_of(column: str) -> str:
    return column.rpartition(" AS ")[2].rpartition(".")[2]


def words(text: str) -> tuple[str, ...]:
    """A text that holds several, with a space between two."""
    return tuple(text.split())
