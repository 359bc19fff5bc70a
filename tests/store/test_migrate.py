"""Migrations: found, locked, applied one by one, and never half."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.errors import LockTimeout, MigrationsBroken, SvcError, UnknownApplied
from svc.model.store.migration import StoreStanding
from svc.plugins.store_sqlite import store_sqlite
from svc.store.engine.lock import take_lock
from svc.store.migrate import apply_pending, discover, migrations_folder, split
from svc.store.sqlite.connection import SqliteDatabase, open_writer, read_ledger
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.location import lock_path
from tests.store.places import (
    files_beside,
    fresh_url,
    migrate,
    migrated_url,
    path_of,
    real_needs,
)
from tests.store.test_last_migrations import LAST
from tests.support.proof import proves

STEPS = {
    "m0001_first.sql": "CREATE TABLE one (a TEXT) STRICT;\nINSERT INTO one VALUES ('x;y');",
    "m0002_second.sqlite.sql": "-- a comment; with a mark\nCREATE TABLE two (b INTEGER) STRICT;",
    "m0002_second.postgresql.sql": "CREATE TABLE two (b BIGINT);",
    "m0003_third.py": "def up(db):\n    db.change('INSERT INTO two SELECT length(a) FROM one')\n",
    "README": "not a migration",
}


def schema_of(url: str) -> list[tuple[object, ...]]:
    """Every table and index of a store, and its ledger but for the times."""
    connection = sqlite3.connect(path_of(url))
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    rows += connection.execute("SELECT id, checksum FROM svc_migrations ORDER BY id").fetchall()
    connection.close()
    return rows


def edit(url: str, sql: str) -> None:
    """Do to a store what nobody should."""
    connection = open_writer(path_of(url))
    connection.execute(sql)
    connection.close()


class FolderCase(SynchronousTestCase):
    """A folder of small migrations of the test's own."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.write(STEPS)
        self.factory = SqliteFactory(folder=lambda: self.folder)

    def write(self, steps: dict[str, str]) -> None:
        for name, text in steps.items():
            (self.folder / name).write_text(text)


class DiscoverTests(FolderCase):
    """Which files are migrations."""

    @proves("X-22", "U-OPEN-08")
    def test_contiguous(self) -> None:
        """The numbers of this build's migrations have no gap and no double."""
        found = discover(migrations_folder(), "sqlite")
        self.assertEqual([int(each.id[1:5]) for each in found], list(range(1, len(found) + 1)))

    def test_by_dialect(self) -> None:
        """A file for another database is passed over."""
        self.assertEqual(
            [each.path.name for each in discover(self.folder, "sqlite")],
            ["m0001_first.sql", "m0002_second.sqlite.sql", "m0003_third.py"],
        )

    def test_gap_and_double(self) -> None:
        """A missing number or one given twice stops before a store is touched."""
        url = fresh_url(self)
        for name in ("m0005_gap.sql", "m0003_again.sql"):
            self.write({name: "SELECT 1;"})
            self.assertRaises(SvcError, migrate, url, self.factory)
            (self.folder / name).unlink()
        self.assertEqual(files_beside(url), {})

    def test_split(self) -> None:
        """Statements are told apart though comments and texts hold their mark."""
        script = "-- a; b\nSELECT ';';\nSELECT 2;\n-- the end; nothing more\n"
        self.assertEqual(
            [each.strip() for each in split(script)], ["-- a; b\nSELECT ';';", "SELECT 2;"]
        )


class MigrateTests(FolderCase):
    """Applying what is pending."""

    @proves("U-MIG-07", "U-MIG-08", "U-MIG-09", "U-OPEN-09")
    def test_check_migrate_check(self) -> None:
        """What the check names is applied once; a second run has nothing to do."""
        url = fresh_url(self)
        ids = ("m0001_first", "m0002_second", "m0003_third")
        self.assertEqual(self.factory.migration_status(url).ids, ids)
        report = migrate(url, self.factory)
        self.assertEqual((report.applied, report.level, report.count), (ids, ids[-1], 3))
        self.assertIs(self.factory.migration_status(url).standing, StoreStanding.CURRENT)
        self.assertEqual(migrate(url, self.factory).applied, ())
        rows = sqlite3.connect(path_of(url)).execute("SELECT * FROM two").fetchall()
        self.assertEqual(rows, [(3,)])

    @proves("U-MIG-05", "G-ERR-06")
    def test_the_check_changes_nothing(self) -> None:
        """The check makes no file, and leaves every byte of a store as it was."""
        url = fresh_url(self)
        self.factory.migration_status(url)
        self.assertEqual(files_beside(url), {})
        migrate(url, self.factory)
        self.write({"m0004_fourth.sql": "CREATE TABLE four (d TEXT) STRICT;"})
        before = files_beside(url)
        self.assertEqual(self.factory.migration_status(url).ids, ("m0004_fourth",))
        self.assertEqual(files_beside(url), before)

    def test_a_failing_migration_leaves_nothing(self) -> None:
        """A migration that fails half way is undone; those before it stay."""
        url = fresh_url(self)
        self.write(
            {"m0004_bad.sql": "CREATE TABLE four (d TEXT) STRICT; INSERT INTO nowhere VALUES (1);"}
        )
        self.assertRaises(sqlite3.OperationalError, migrate, url, self.factory)
        self.assertEqual(self.factory.migration_status(url).ids, ("m0004_bad",))
        self.write({"m0004_bad.sql": "CREATE TABLE four (d TEXT) STRICT;"})
        self.assertEqual(migrate(url, self.factory).applied, ("m0004_bad",))

    def test_another_one_between_two(self) -> None:
        """What somebody else applied meanwhile is seen, and not applied again."""
        url = fresh_url(self)
        Path(path_of(url)).touch(mode=0o600)
        known = discover(self.folder, "sqlite")
        here, there = (SqliteDatabase(open_writer(path_of(url))) for _ in range(2))
        others: list[str] = []

        def run(database: SqliteDatabase, upto: int, told: Callable[[str], object]) -> list[str]:
            ledger = partial(read_ledger, database.connection)
            return [
                *apply_pending(database, known[:upto], ledger, "t", float, on_applied=told).applied
            ]

        def meanwhile(name: str) -> None:
            if name == "m0001_first":
                others.extend(run(there, 2, str))

        self.assertEqual(run(here, 3, meanwhile), ["m0001_first", "m0003_third"])
        self.assertEqual(others, ["m0002_second"])
        for database in (here, there):
            database.connection.close()

    @proves("G-ERR-07", "G-STORE-02", "U-OPEN-09")
    def test_a_newer_store_is_left_alone(self) -> None:
        """Check, migrate and open all stop at a migration of a newer build, changing nothing."""
        url = migrated_url(self)
        edit(url, "INSERT INTO svc_migrations VALUES ('m9999_x', 'sum', 1.0, 'newer')")
        before = files_beside(url)
        status = store_sqlite.migration_status(url)
        self.assertEqual(
            (status.standing, status.ids), (StoreStanding.UNKNOWN_APPLIED, ("m9999_x",))
        )
        self.assertRaises(UnknownApplied, migrate, url)
        self.assertRaises(UnknownApplied, store_sqlite.open, url, real_needs())
        self.assertEqual(files_beside(url), before)

    @proves("U-MIG-12", "U-OPEN-08", "U-OPEN-09")
    def test_a_broken_ledger_is_not_mended(self) -> None:
        """A deleted row or an edited checksum stops; nothing is applied again."""
        for harm in (
            "DELETE FROM svc_migrations WHERE id LIKE 'm0003%'",
            "UPDATE svc_migrations SET checksum = 'x' WHERE id LIKE 'm0003%'",
        ):
            url = migrated_url(self)
            edit(url, harm)
            before = files_beside(url)
            self.assertRaises(MigrationsBroken, migrate, url)
            self.assertRaises(MigrationsBroken, store_sqlite.open, url, real_needs())
            self.assertEqual(files_beside(url), before)


class LedgerTests(SynchronousTestCase):
    """What a store says of the migrations it has."""

    @proves("U-OPEN-08", "U-OPEN-09")
    def test_ledger(self) -> None:
        """Each id once, in order, with its file's digest, when it was applied and by what."""
        url = fresh_url(self)
        SqliteFactory().migrate(url, "0.11.0-test", lambda: 7.5, lambda: 0.0)
        with closing(sqlite3.connect(path_of(url))) as store:
            columns = store.execute("PRAGMA table_info(svc_migrations)").fetchall()
            rows = store.execute("SELECT * FROM svc_migrations ORDER BY rowid").fetchall()
        self.assertEqual(
            [(name, sort, key) for _, name, sort, _, _, key in columns],
            [
                ("id", "TEXT", 1),
                ("checksum", "TEXT", 0),
                ("applied_at", "REAL", 0),
                ("binary_version", "TEXT", 0),
            ],
        )
        self.assertEqual(
            rows,
            [
                (each.id, sha256(each.path.read_bytes()).hexdigest(), 7.5, "0.11.0-test")
                for each in discover(migrations_folder(), "sqlite")
            ],
        )
        ids = [row[0] for row in rows]
        self.assertEqual((len(set(ids)), len({id[6:] for id in ids})), (85, 85))
        self.assertEqual([int(id[1:5]) for id in ids], [*range(1, 86)])
        self.assertEqual(ids[79:], [f"m{n:04d}_{name}" for n, name in enumerate(LAST, 80)])

    @proves("U-OPEN-08")
    def test_a_file_that_was_edited(self) -> None:
        """A migration whose file was changed since it was applied stops, and is named."""
        folder = Path(self.mktemp())
        shutil.copytree(migrations_folder(), folder)
        url, factory = migrated_url(self), SqliteFactory(folder=lambda: folder)
        (edited,) = (
            each.path for each in discover(folder, "sqlite") if each.id.startswith("m0040_")
        )
        edited.write_bytes(edited.read_bytes() + b"\n")
        before = files_beside(url)
        refusal = self.assertRaises(MigrationsBroken, migrate, url, factory)
        self.assertIn("m0040_", refusal.text)
        self.assertRaises(MigrationsBroken, factory.open, url, real_needs())
        self.assertEqual(files_beside(url), before)


class LockTests(FolderCase):
    """One run at a time."""

    def waiting_factory(self, clock: Clock, paused: Callable[[], object]) -> SqliteFactory:
        def pause(secs: float) -> None:
            clock.advance(secs)
            paused()

        return SqliteFactory(pause=pause, folder=lambda: self.folder)

    @proves("G-ERR-08", "U-MIG-10", "U-OPEN-10", "X-19")
    def test_waits_its_time_and_names_the_holder(self) -> None:
        """After exactly its wait it stops with code 5 and names who holds the store."""
        url, clock = fresh_url(self), Clock()
        held = take_lock(lock_path(path_of(url)), "serving", lambda: 0.0)
        assert held is not None
        factory = self.waiting_factory(clock, lambda: None)
        refusal = self.assertRaises(
            LockTimeout, factory.migrate, url, "test", lambda: 0.0, clock.seconds
        )
        self.assertAlmostEqual(clock.seconds(), 120.0)
        self.assertEqual(refusal.exit_code, 5)
        host = f"pid {os.getpid()} on {socket.gethostname()} "
        self.assertIn(f"{host}(serving, since 1970-01-01T00:00:00Z)", refusal.text)
        held.release()

    @proves("U-OPEN-10", "G-STORE-01", "X-19")
    def test_goes_on_when_the_holder_ends(self) -> None:
        """The wait ends as soon as the holder is gone, and the store is migrated."""
        url, clock = fresh_url(self), Clock()
        held = take_lock(lock_path(path_of(url)), "serving", lambda: 0.0)
        assert held is not None

        def end_after_7() -> None:
            if clock.seconds() > 7:
                held.release()

        factory = self.waiting_factory(clock, end_after_7)
        self.assertEqual(factory.migrate(url, "test", lambda: 0.0, clock.seconds).count, 3)
        self.assertLess(clock.seconds(), 8)


class RecordTests(TestCase):
    """The columns one searches by say what the record says."""

    def test_columns_follow_the_record(self) -> None:
        """A search column cannot be set apart from its record."""
        url = migrated_url(self)
        harm = "UPDATE audit_log SET decision_id = 'other'"
        self.assertRaises(sqlite3.OperationalError, edit, url, harm)

    async def test_the_record_is_kept_once(self) -> None:
        """A record's text is found once in the files of its store."""
        url = migrated_url(self)
        store = store_sqlite.open(url, real_needs())
        text = b'{"details":"%s","event":"e"}' % (b"marker" * 9)
        await store.run("append", lambda tx: tx.audit.append(text))
        await store.close()
        self.assertEqual(sum(each.count(text) for each in files_beside(url).values()), 1)
        self.assertEqual(sum(each.count(b"marker") for each in files_beside(url).values()), 9)
