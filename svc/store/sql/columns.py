"""How rows become values, and values rows: by the names of columns, never by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from svc.store.sql.statements import Statements, marks

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

    def value(self, row: Sequence[Any], **also: object) -> T:
        """The value of a row of just the columns in :attr:`listed`, and of what it has *also*."""
        found: dict[str, Any] = dict(zip(self._names, row, strict=True))
        for name, read in self._read.items():
            if found[name] is not None:
                found[name] = read(found[name])
        return self._make(**found, **also)


class RowInsert:
    """How a value is added to a table as a row: each column is what the value has by its name.

    An Enum is kept as its value, a tuple of texts as :func:`words` reads it, a bool as 0 or 1.

    Args:
        table: Its name.
        columns: With a comma and a space between two.  Where the value has it by another name, that
            name follows AS, with dots where it is a part of a part.
        also: Columns that the value has not; each call gives them by name.
        rest: What follows the values.
    """

    def __init__(
        self, table: str, columns: str, also: str = "", rest: str = "ON CONFLICT DO NOTHING"
    ) -> None:
        parts = [column.partition(" AS ") for column in columns.split(", ")]
        self._also = also.split(", ") if also else []
        listed = [column for column, *_ in parts] + self._also
        self._sql = (
            f"INSERT INTO {table} ({', '.join(listed)}) VALUES ({marks(len(listed))}) {rest}"
        )
        self._values = attrgetter(*(name or column for column, _, name in parts))

    def __call__(self, db: Statements, value: object, **also: object) -> bool:
        """Add *value*; False: the table has such a row already, and nothing was changed."""
        given = (*self._values(value), *map(also.__getitem__, self._also))
        kept = [one if type(one) in _AS_THEY_ARE else _kept(one) for one in given]
        return bool(db.change(self._sql, *kept))


_AS_THEY_ARE = frozenset({str, int, float, bytes, type(None)})


def _kept(value: object) -> object:
    if isinstance(value, Enum):
        return value._value_
    if isinstance(value, bool):
        return int(value)  # PostgreSQL takes no other for a number
    return " ".join(value) if isinstance(value, tuple) else value


def _name_of(column: str) -> str:
    return column.rpartition(" AS ")[2].rpartition(".")[2]


def words(text: str) -> tuple[str, ...]:
    """A text that holds several, with a space between two."""
    return tuple(text.split())
