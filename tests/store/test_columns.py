"""Rows become values by the names of their columns."""

from __future__ import annotations

import sqlite3
from enum import Enum
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from svc.store.sql.columns import RowColumns, RowInsert, words


@frozen
class Ship:
    name: str
    flags: tuple[str, ...]
    length: int
    hull: bytes | None


class Flag(Enum):
    RED = "red"


@frozen
class Fleet:
    """A value with a part of its own, and something for every way to keep it."""

    name: str
    lead: Ship
    flag: Flag


class Database:
    """A few ships; every statement that was asked is kept."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE TABLE ships (length, hull, name, all_flags)")
        self._db.executemany(
            "INSERT INTO ships VALUES (?, ?, ?, ?)",
            [(9, b"oak", "anna", "x y"), (4, None, "bert", "")],
        )

    def one(self, sql: str, *values: Any) -> Any:
        return self._db.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> Any:
        return self._db.execute(sql, values).fetchall()

    def change(self, sql: str, *values: Any) -> int:
        return self._db.execute(sql, values).rowcount


SHIPS = RowColumns(
    Ship,
    "ships s",
    "s.name, s.all_flags AS flags, coalesce(s.length,0) AS length, s.hull",
    flags=words,
    hull=bytes.upper,
)
ANNA = Ship(name="anna", flags=("x", "y"), length=9, hull=b"OAK")
BERT = Ship(name="bert", flags=(), length=4, hull=None)


class RowColumnsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.db: Any = Database()

    def test_one(self) -> None:
        """One row is one value, and no row is None."""
        self.assertEqual(SHIPS.one(self.db, "WHERE name = ?", "anna"), ANNA)
        self.assertIsNone(SHIPS.one(self.db, "WHERE name = ?", "carl"))

    def test_all(self) -> None:
        """Each row is a value, in the order asked; what reads a column is not asked for NULL."""
        self.assertEqual(SHIPS.all(self.db, "ORDER BY name DESC"), (BERT, ANNA))

    def test_what_a_statement_returned(self) -> None:
        """A statement that lists the columns by itself gives rows that are read alike."""
        sql = f"SELECT {SHIPS.listed} FROM ships s WHERE length < ?"
        self.assertEqual(SHIPS.value(self.db.one(sql, 5)), BERT)

    def test_order_is_of_no_account(self) -> None:
        """Columns listed in another order make the same value."""
        columns = "hull, length, all_flags AS flags, name"
        turned = RowColumns(Ship, "ships", columns, flags=words)
        self.assertEqual(turned.one(self.db, "WHERE length = 4"), BERT)

    def test_too_few(self) -> None:
        """A row of other columns is an error, never a value."""
        self.assertRaises(ValueError, SHIPS.value, ("anna", "x"))


class RowInsertTests(SynchronousTestCase):
    """Values become rows by the names of the columns."""

    def setUp(self) -> None:
        self.db: Any = Database()

    def test_read_back(self) -> None:
        """What is added is read back as it was, a tuple of texts too."""
        add = RowInsert("ships", "name, all_flags AS flags, length, hull")
        carl = Ship(name="carl", flags=("x", "z"), length=3, hull=None)
        self.assertTrue(add(self.db, carl))
        self.assertEqual(SHIPS.one(self.db, "WHERE name = ?", "carl"), carl)

    def test_there_already(self) -> None:
        """A row that is there already is not added, and the caller learns it."""
        self.db.change("CREATE UNIQUE INDEX ships_name ON ships (name)")
        add = RowInsert("ships", "name, length")
        self.assertFalse(add(self.db, ANNA))
        self.assertEqual(SHIPS.one(self.db, "WHERE name = ?", "anna"), ANNA)

    def test_parts_and_more(self) -> None:
        """A column may be a part of a part of the value, an Enum, or come from the caller."""
        add = RowInsert("ships", "name AS lead.name, hull AS flag", also="length, all_flags")
        add(
            self.db,
            Fleet("north", Ship(name="dora", flags=(), length=1, hull=None), Flag.RED),
            all_flags="y",
            length=7,
        )
        found = self.db.one("SELECT name, hull, length, all_flags FROM ships WHERE name = 'dora'")
        self.assertEqual(found, ("dora", "red", 7, "y"))

    def test_missing(self) -> None:
        """A column that is promised and not given is an error, before anything is written."""
        add = RowInsert("ships", "name", also="length")
        self.assertRaises(KeyError, add, self.db, ANNA)
