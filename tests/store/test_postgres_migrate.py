"""Migrating a database: once, whole, alone; and a newer one is left as it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from svc.errors import (
    LockTimeout,
    MigrationsBroken,
    StoreUnavailable,
    SvcError,
    UnknownApplied,
)
from svc.model.store.migration import MigrationReport, StoreStanding
from svc.plugins.store_postgresql import store_postgresql
from svc.store.migrate import discover, migrations_folder
from svc.store.postgres.factory import PostgresFactory
from svc.testing.gateway.processes import Child, until
from tests.store.places import ROOT, real_needs
from tests.store.test_migrate import FolderCase
from tests.support.postgres import connected, empty_database, migrated_database
from tests.support.program import program
from tests.support.proof import proves

STEPS = {
    "m0001_first.postgresql.sql": "CREATE TABLE one (a TEXT); INSERT INTO one VALUES ('x;%y');",
    "m0002_second.postgresql.sql": (
        "-- a comment; with a mark\nCREATE TABLE two (b BIGINT);\n"
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;"
    ),
}


def dump(url: str) -> list[tuple[Any, ...]]:
    """Every column, constraint and index of a database, and its ledger but for the times."""
    with connected(url) as cursor:
        cursor.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default,"
            " generation_expression, collation_name FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        )
        rows = cursor.fetchall()
        cursor.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
            " FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
        )
        rows += cursor.fetchall()
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
        rows += cursor.fetchall()
        cursor.execute("SELECT to_regclass('svc_migrations') IS NOT NULL")
        if cursor.fetchone() == (True,):
            cursor.execute("SELECT id, checksum FROM svc_migrations ORDER BY id")
            rows += cursor.fetchall()
        return list(rows)


def edit(url: str, sql: str) -> None:
    """Do to a store what nobody should."""
    with connected(url) as cursor:
        cursor.execute(sql)


def migrate(url: str, factory: PostgresFactory = store_postgresql) -> MigrationReport:
    """Migrate a store that nobody else holds."""
    return factory.migrate(url, "test", lambda: 0.0, lambda: 0.0)


class MigrateTests(FolderCase):
    """Applying what is pending."""

    def setUp(self) -> None:
        super().setUp()
        for path in list(self.folder.iterdir()):
            path.unlink()
        self.write(STEPS)
        self.postgres = PostgresFactory(lambda: 0.0, folder=lambda: self.folder)

    @proves("U-MIG-05", "U-MIG-07", "U-MIG-08", "U-MIG-09", "U-OPEN-09")
    def test_check_migrate_check(self) -> None:
        """What the check names is applied once; the check itself changes nothing."""
        url = empty_database(self)
        ids = ("m0001_first", "m0002_second")
        self.assertEqual(self.postgres.migration_status(url).ids, ids)
        self.assertEqual(dump(url), [])
        report = migrate(url, self.postgres)
        self.assertEqual((report.applied, report.level, report.count), (ids, ids[-1], 2))
        self.assertIs(self.postgres.migration_status(url).standing, StoreStanding.CURRENT)
        before = dump(url)
        self.assertEqual(migrate(url, self.postgres).applied, ())
        self.assertEqual(dump(url), before)

    def test_a_failing_migration_leaves_nothing(self) -> None:
        """A migration that fails half way is undone; those before it stay."""
        url = empty_database(self)
        name = "m0003_bad.postgresql.sql"
        self.write({name: "CREATE TABLE four (d TEXT); INSERT INTO nowhere VALUES (1);"})
        self.assertRaises(SvcError, migrate, url, self.postgres)
        self.assertEqual(self.postgres.migration_status(url).ids, ("m0003_bad",))
        self.write({name: "CREATE TABLE four (d TEXT);"})
        self.assertEqual(migrate(url, self.postgres).applied, ("m0003_bad",))

    @proves("X-22", "U-OPEN-08")
    def test_contiguous(self) -> None:
        """Both backends have the same migrations, each from 1 without a gap."""
        ids = [
            [each.id for each in discover(migrations_folder(), d)] for d in ("sqlite", "postgresql")
        ]
        self.assertEqual(*ids)

    @proves("G-ERR-07", "G-STORE-02", "U-OPEN-09")
    def test_a_newer_store_is_left_alone(self) -> None:
        """Check, migrate and open all stop at a migration of a newer build, changing nothing."""
        url = migrated_database(self)
        edit(url, "INSERT INTO svc_migrations VALUES ('m9999_x', 'sum', 1.0, 'newer')")
        before = dump(url)
        status = store_postgresql.migration_status(url)
        self.assertEqual(
            (status.standing, status.ids), (StoreStanding.UNKNOWN_APPLIED, ("m9999_x",))
        )
        self.assertRaises(UnknownApplied, migrate, url)
        self.assertRaises(UnknownApplied, store_postgresql.open, url, real_needs())
        self.assertEqual(dump(url), before)

    @proves("U-MIG-12", "U-OPEN-08", "U-OPEN-09")
    def test_a_broken_ledger_is_not_mended(self) -> None:
        """A deleted row or an edited checksum stops; nothing is applied again."""
        url = migrated_database(self)
        for harm in (
            "UPDATE svc_migrations SET checksum = 'x' WHERE id LIKE 'm0003%'",
            "DELETE FROM svc_migrations WHERE id LIKE 'm0003%'",
        ):
            edit(url, harm)
            before = dump(url)
            self.assertRaises(MigrationsBroken, migrate, url)
            self.assertRaises(MigrationsBroken, store_postgresql.open, url, real_needs())
            self.assertEqual(dump(url), before)


HOLDING = """
import signal, sys, time
from svc.store.postgres.connect import connect, take_serving
from svc.store.postgres.url import database_place
held = connect(database_place(sys.argv[1]), "migrating", time.monotonic, time.monotonic() + 60, 60)
assert take_serving(held, alone=True)
print("held", flush=True)
signal.pause()
"""


class LockTests(TestCase):
    """One run at a time, and none beside a writer."""

    def child(self, script: str, url: str) -> Child:
        """A process of its own that has printed its first line; it ends when it is killed."""
        place = Path(os.path.abspath(self.mktemp()))
        child = Child(name="child", words=program(script, url), home=ROOT, log=place)
        child.start()
        self.addCleanup(child.end)
        until("its first line", lambda: "\n" in child.text(), alive=[child])
        return child

    def waiting(self, paused: Callable[[Clock], object]) -> tuple[PostgresFactory, Clock]:
        clock = Clock()

        def pause(secs: float) -> None:
            clock.advance(secs)
            paused(clock)

        return PostgresFactory(lambda: 0.0, pause=pause), clock

    @proves("G-ERR-08", "U-MIG-10", "U-OPEN-10", "X-19", "G-LIM-01")
    def test_waits_its_time_and_names_the_holder(self) -> None:
        """After exactly its wait it stops with code 5, names the holder, and changes nothing."""
        url = empty_database(self)
        child = self.child(HOLDING, url)
        factory, clock = self.waiting(lambda _: None)
        refusal = self.assertRaises(
            LockTimeout, factory.migrate, url, "test", lambda: 0.0, clock.seconds
        )
        self.assertAlmostEqual(clock.seconds(), 120.0)
        self.assertEqual(refusal.exit_code, 5)
        host = f"svc pid {child.pid} on {socket.gethostname()} "
        self.assertIn(f"{host}(migrating), since 20", refusal.text)
        self.assertEqual(dump(url), [])

    @proves("U-OPEN-10", "G-STORE-01", "X-19")
    def test_goes_on_when_the_holder_is_killed(self) -> None:
        """The wait ends as soon as the holder is gone, even by kill -9."""
        url = empty_database(self)
        child = self.child(HOLDING, url)

        def kill_after_7(clock: Clock) -> None:
            if clock.seconds() > 7 and child.is_alive:
                child.kill()

        factory, clock = self.waiting(kill_after_7)
        self.assertGreater(factory.migrate(url, "test", lambda: 0.0, clock.seconds).count, 20)
        self.assertLess(clock.seconds(), 120)

    async def test_not_beside_a_writer(self) -> None:
        """Who migrates waits for whoever serves; a current store is not waited for."""
        url = migrated_database(self)
        store = store_postgresql.open(url, real_needs())
        self.assertEqual(migrate(url).applied, ())
        edit(url, "DELETE FROM svc_migrations WHERE id = (SELECT max(id) FROM svc_migrations)")
        factory, clock = self.waiting(lambda _: None)
        refusal = self.assertRaises(
            LockTimeout, factory.migrate, url, "test", lambda: 0.0, clock.seconds
        )
        self.assertIn(f"svc pid {os.getpid()} on ", refusal.text)
        self.assertIn("(serving)", refusal.text)
        await store.close()

    def test_not_opened_while_it_is_migrated(self) -> None:
        """A store that is being migrated is not opened, and the refusal says by whom."""
        url = migrated_database(self)
        child = self.child(HOLDING, url)
        refusal = self.assertRaises(StoreUnavailable, store_postgresql.open, url, real_needs())
        self.assertEqual(refusal.reason, "store_in_use")
        self.assertIn(f"migrated by svc pid {child.pid} on ", refusal.text)
