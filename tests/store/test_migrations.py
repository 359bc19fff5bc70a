"""Each migration by itself, on both databases: rows of before go in, it is run, and what came out.

A database is brought up once, migration by migration; each test puts its rows in just before its
migration, and all of it is rolled back.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg2
from twisted.trial.unittest import SynchronousTestCase

from svc.store.migrate import Migration, discover, migrations_folder
from svc.store.postgres.connection import PostgresConnection, PostgresStatements
from svc.store.postgres.url import database_place
from svc.store.sqlite.connection import SqliteDatabase, open_memory
from tests.store.migrations import ahead, first, last, queue
from tests.store.migrations.case import NO_ROW, Case, Placed, but
from tests.support.postgres import empty_database
from tests.support.proof import proves

CASES: Mapping[str, Case] = {
    name: case
    for part in (
        first.WHO,
        first.WHAT,
        first.LOG,
        ahead.CATALOG,
        ahead.REVIEW,
        ahead.PEOPLE,
        ahead.KEYS,
        queue.QUEUE,
        last.LAST,
    )
    for name, case in part.items()
}
REFUSED = (sqlite3.IntegrityError, psycopg2.IntegrityError)


class Rising:
    """An open database that goes up, one migration after the other."""

    def __init__(self, database: Any, dialect: str) -> None:
        self.db, self.dialect = database, dialect
        self.migrations = discover(migrations_folder(), dialect)
        self.level = 0
        database.change("SAVEPOINT empty")

    def before(self, name: str) -> Migration:
        """Go up to just below the migration of that name, which is given back."""
        (wanted,) = (each for each in self.migrations if each.id[6:] == name)
        number = self.migrations.index(wanted)
        if number < self.level:  # not in the order of the migrations
            self.db.change("ROLLBACK TO SAVEPOINT empty")
            self.level = 0
        for migration in self.migrations[self.level : number]:
            migration.apply(self.db)
        self.level = number
        return wanted

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Nothing that is done meanwhile stays."""
        self.db.change("SAVEPOINT test")
        try:
            yield
        finally:
            self.db.change("ROLLBACK TO SAVEPOINT test")
            self.db.change("RELEASE SAVEPOINT test")

    def insert(self, placed: Placed) -> None:
        """Put a row in."""
        table, row = placed
        marks = ", ".join("?" * len(row))
        sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        self.db.change(sql, *row.values())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query gives; bytes as bytes."""
        return [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
            for row in self.db.all(sql)
        ]

    def plan(self, sql: str) -> str:
        """How a query is run."""
        word = "EXPLAIN QUERY PLAN" if self.dialect == "sqlite" else "EXPLAIN"
        return " ".join(str(row) for row in self.db.all(f"{word} {sql}"))


class MigrationCase(SynchronousTestCase):
    """What each test does; one is made for each migration below."""

    rising: Rising

    def check_migration(self, name: str) -> None:
        """Rows of before, the migration, and what it is there for."""
        rising, case = self.rising, CASES[name]
        migration = rising.before(name)
        with rising.undone():
            for placed in case.before:
                rising.insert(placed)
            seen = self.seen(case)
            migration.apply(rising.db)
            for table, rows in self.seen(case).items():
                if table in case.grows:
                    rows = [row for row in rows if row in seen[table]]
                self.assertEqual(rows, seen[table], f"rows of {table} are others now")
            if case.good is not None:
                self.check_rows(case, case.good)
                if case.good[0] == name:
                    self.check_needed(case, case.good)
            for sql, wanted in case.then.items():
                self.assertEqual(rising.rows(sql), list(wanted), sql)
            if case.found_by:
                self.assertIn(name, rising.plan(case.found_by))

    def seen(self, case: Case) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of the tables of before, but for what the migration is to change."""
        found = {}
        for table, columns in {table: tuple(row) for table, row in case.before}.items():
            kept = ", ".join(each for each in columns if each not in case.rewritten)
            found[table] = self.rising.rows(f"SELECT {kept} FROM {table} ORDER BY {kept}")
        return found

    def check_rows(self, case: Case, good: Placed) -> None:
        """What the table takes and what it refuses; the good row stays."""
        for change in case.refused:
            self.check_refused(but(good, **change))
        self.rising.insert(good)
        for change in case.clash:
            self.check_refused(but(good, **change))
        for change in case.beside:
            with self.rising.undone():
                self.rising.insert(but(good, **change))
        if case.gone_with:
            with self.rising.undone():
                self.rising.db.change(case.gone_with)
                self.assertEqual(self.rising.rows(f"SELECT count(*) FROM {good[0]}"), [(0,)])

    def check_needed(self, case: Case, good: Placed) -> None:
        """A row of a new table lacks no value."""
        for place, (column, value) in enumerate(good[1].items()):
            # SQLite gives a row a number where its key is one and there is none.
            numbered = place == 0 and isinstance(value, int) and self.rising.dialect == "sqlite"
            if value is not None and column not in case.optional and not numbered:
                with self.rising.undone():
                    self.rising.db.change(f"DELETE FROM {good[0]}")
                    self.check_refused(but(good, **{column: None}))

    def check_refused(self, placed: Placed) -> None:
        """A constraint stands against the row."""
        with self.rising.undone():
            try:
                self.rising.insert(placed)
            except REFUSED:
                return
        self.fail(f"taken: {placed}")


def each_migration(case: type[MigrationCase]) -> type[MigrationCase]:
    """A test for each migration, in their order."""

    def made(name: str) -> Callable[[MigrationCase], None]:
        def test(self: MigrationCase) -> None:
            self.check_migration(name)

        test.__doc__ = f"Old rows in, new rows out: {name}."
        return test

    for migration in discover(migrations_folder(), "sqlite"):
        setattr(case, f"test_{migration.id}", made(migration.id[6:]))
    return case


@cache
def on_sqlite() -> Rising:
    """A store in memory."""
    database = SqliteDatabase(open_memory())
    database.begin()
    return Rising(database, "sqlite")


@cache
def on_postgresql() -> Rising:
    """A database, in one transaction that is never committed; gone with its server."""
    place = database_place(empty_database(SynchronousTestCase()))
    connection = PostgresConnection.opened(place, "test", time.monotonic, time.monotonic() + 600)
    connection.ask("BEGIN")
    # In a table of a few rows no index would ever be used.
    connection.ask("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    return Rising(PostgresStatements(connection), "postgresql")


@proves("U-OPEN-08")
@each_migration
class SqliteTests(MigrationCase):
    """On SQLite."""

    def setUp(self) -> None:
        self.rising = on_sqlite()


@proves("U-OPEN-08")
@each_migration
class PostgresTests(MigrationCase):
    """On PostgreSQL."""

    def setUp(self) -> None:
        self.rising = on_postgresql()


class ListTests(SynchronousTestCase):
    """The cases and the migrations."""

    def test_each_has_its_case(self) -> None:
        """There is a case for every migration, and it says something of it."""
        names = [migration.id[6:] for migration in discover(migrations_folder(), "sqlite")]
        self.assertEqual(sorted(CASES), sorted(names))
        for name, case in CASES.items():
            self.assertTrue(case.good or case.then or case.found_by, name)
            self.assertNotIn(NO_ROW, case.refused, name)
