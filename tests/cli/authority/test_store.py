"""`store migrate` at the operator's terminal."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.cli.authority.upkeep.store import apply
from svc.errors import LockTimeout, SvcError
from svc.ops.store import StorePlace
from svc.store.engine.lock import take_lock
from svc.store.migrate import discover, migrations_folder
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.location import lock_path
from tests.cli.terminal import Place
from tests.support.postgres import connected, empty_database
from tests.support.proof import proves


class MigrateTests(SynchronousTestCase):
    """Checking and applying."""

    def setUp(self) -> None:
        self.place = Place(self)
        status = SqliteFactory().migration_status(self.place.url)
        self.known = status.ids
        self.schema = f"schema current: {self.known[-1]} ({len(self.known)})\n"

    def ledger(self, statement: str) -> None:
        """Change the closed store's ledger behind everybody's back."""
        connection = sqlite3.connect(self.place.store)
        with connection:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f'DROP TRIGGER "{trigger}"')
            connection.execute(statement)
        connection.close()

    @proves(
        "G-CLI-06",
        "U-MIG-05",
        "U-MIG-06",
        "U-MIG-07",
        "U-MIG-08",
        "U-MIG-09",
        "U-OPEN-07",
        "U-PHA-08",
        "U-BAK-08",
        "G-STORE-01",
        "U-MIG-01",
        "G-ERR-06",
    )
    def test_check_migrate_check(self) -> None:
        """A new store: all is pending and nothing is made; applied once; then current."""
        check = self.place.run("store", "migrate", "--check")
        pending = "".join(f"pending: {each}\n" for each in self.known)
        self.assertEqual((check.status, check.stdout, check.stderr), (3, pending, ""))
        self.assertEqual(list(self.place.state.iterdir()), [])
        first = self.place.run("store", "migrate")
        applied = f"applied {len(self.known)} migration(s)\n"
        self.assertEqual((first.status, first.stdout), (0, applied + self.schema))
        self.assertEqual(applied, "applied 85 migration(s)\n")
        self.assertEqual(self.schema, "schema current: m0085_manual_inventory_generation (85)\n")
        with closing(sqlite3.connect(self.place.store)) as store:
            rows = store.execute("SELECT count(*) FROM svc_migrations").fetchone()
        self.assertEqual(rows, (85,))
        again = self.place.run("store", "migrate")
        self.assertEqual((again.status, again.stdout), (0, "nothing to apply\n" + self.schema))
        before = {each.name: each.read_bytes() for each in self.place.state.iterdir()}
        current = self.place.run("store", "migrate", "--check")
        self.assertEqual((current.status, current.stdout), (0, "current\n"))
        after = {each.name: each.read_bytes() for each in self.place.state.iterdir()}
        self.assertEqual(after, before)

    @proves("U-MIG-06", "U-PRE-04")
    def test_newer_store(self) -> None:
        """A store newer than the program is told apart from a pending one, and left alone."""
        self.place.run("store", "migrate")
        self.ledger("UPDATE svc_migrations SET id = 'm9999_later' WHERE id LIKE 'm0001%'")
        check = self.place.run("store", "migrate", "--check")
        self.assertEqual((check.status, check.stdout), (4, "unknown-applied: m9999_later\n"))
        refused = self.place.run("store", "migrate")
        self.assertEqual((refused.status, refused.stdout), (4, ""))
        self.assertIn("m9999_later", refused.stderr)

    @proves("U-MIG-12")
    def test_changed_ledger(self) -> None:
        """A row that is gone or changed is found, named, and nothing is applied over it."""
        self.place.run("store", "migrate")
        whole = self.place.store.read_bytes()
        for harm in (
            "DELETE FROM svc_migrations WHERE id LIKE 'm0041%'",
            "UPDATE svc_migrations SET checksum = 'x' WHERE id LIKE 'm0001%'",
        ):
            self.place.store.write_bytes(whole)
            self.ledger(harm)
            named = self.known[40 if harm.startswith("DELETE") else 0]
            check = self.place.run("store", "migrate", "--check")
            self.assertEqual((check.status, check.stdout), (1, f"broken: {named}\n"))
            before = self.place.store.read_bytes()
            self.assertEqual(self.place.run("store", "migrate").status, 1)
            self.assertEqual(self.place.store.read_bytes(), before)

    @proves("U-PRE-04")
    def test_preflight(self) -> None:
        """With `store_auto_migrate = false` the check tells what is pending, current or newer."""
        text = f"{self.place.config.read_text('utf-8')}store_auto_migrate = false\n"
        self.place.config.write_text(text, "utf-8")
        before = self.place.run("store", "migrate", "--check")
        self.assertEqual(
            (before.status, before.stdout.splitlines()),
            (3, [f"pending: {each}" for each in self.known]),
        )
        self.assertFalse(self.place.store.exists())
        self.place.run("store", "migrate")
        self.ledger(f"DELETE FROM svc_migrations WHERE id = '{self.known[-1]}'")
        one = self.place.run("store", "migrate", "--check")
        self.assertEqual((one.status, one.stdout), (3, f"pending: {self.known[-1]}\n"))
        self.ledger(
            f"INSERT INTO svc_migrations SELECT '{self.known[-1]}', '{self.last_checksum}', 1.0, ''"
        )
        current = self.place.run("store", "migrate", "--check")
        self.assertEqual((current.status, current.stdout), (0, "current\n"))
        self.ledger("INSERT INTO svc_migrations VALUES ('m9999_later', 'x', 1.0, 'newer')")
        newer = self.place.run("store", "migrate", "--check")
        self.assertEqual((newer.status, newer.stdout), (4, "unknown-applied: m9999_later\n"))

    @property
    def last_checksum(self) -> str:
        """Of the newest migration's file."""
        return discover(migrations_folder(), "sqlite")[-1].checksum

    @proves("U-OPEN-07", "X-37")
    def test_json(self) -> None:
        """With --json both are one document, with the same status."""
        check = self.place.run("store", "migrate", "--check", "--json")
        self.assertEqual(check.status, 3)
        self.assertEqual(
            json.loads(check.stdout),
            {"standing": "pending", "ids": list(self.known), "level": None, "count": 0},
        )
        done = self.place.run("store", "migrate", "--json")
        self.assertEqual(
            json.loads(done.stdout),
            {"applied": list(self.known), "level": self.known[-1], "count": len(self.known)},
        )

    def test_rehearse(self) -> None:
        """A rehearsal prints what each migration did to the copy, and makes nothing."""
        done = self.place.run("store", "migrate", "--rehearse")
        self.assertEqual((done.status, list(self.place.state.iterdir())), (0, []))
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], rf"{self.known[0]}  \d+\.\d{{3}} s\Z")
        self.assertIn("+ table memberships (person_id, group_name)", lines)
        self.assertRegex(
            lines[-1],
            rf"rehearsed {len(self.known)} migration\(s\) on a copy made in \d+\.\d{{3}} s; "
            r"the store itself was not changed\Z",
        )
        said = json.loads(self.place.run("store", "migrate", "--rehearse", "--json").stdout)
        self.assertEqual([each["id"] for each in said["migrations"]], list(self.known))
        self.assertIn(
            {"table": "revisions", "before": None, "after": 2, "rewritten": []}, said["rows"]
        )
        self.place.run("store", "migrate")
        again = self.place.run("store", "migrate", "--rehearse")
        self.assertEqual((again.status, again.stdout), (0, "nothing to apply\n" + self.schema))
        both = self.place.run("store", "migrate", "--rehearse", "--check")
        self.assertEqual(both.status, 64)

    def test_store_that_is_not_enabled(self) -> None:
        """A store whose drop-in the configuration does not name is refused by its key."""
        with self.place.config.open("a") as file:
            file.write("[plugins]\nstores = []\n")
        refused = self.place.run("store", "migrate", "--check")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn("plugins.stores", refused.stderr)

    def test_open_directory(self) -> None:
        """A directory that others may write to is refused, and stays empty."""
        self.place.state.chmod(0o777)
        refused = self.place.run("store", "migrate")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertEqual(list(self.place.state.iterdir()), [])


class PostgresTests(SynchronousTestCase):
    """The same words and statuses over PostgreSQL."""

    def setUp(self) -> None:
        self.place = Place(self)
        self.url = empty_database(self)
        self.name(self.url)
        self.known = SqliteFactory().migration_status(self.place.url).ids

    def name(self, url: str) -> None:
        text = self.place.config.read_text("utf-8").replace(self.place.url, url)
        self.place.config.write_text(f'{text}\n[plugins]\nstores = ["postgresql"]\n', "utf-8")

    @proves("G-CLI-06", "U-MIG-06", "U-MIG-07", "U-MIG-08", "U-MIG-09", "G-OPEN-20")
    def test_check_migrate_check(self) -> None:
        """A new database: all is pending; applied once; then current; then newer."""
        pending = "".join(f"pending: {each}\n" for each in self.known)
        schema = f"schema current: {self.known[-1]} ({len(self.known)})\n"
        applied = f"applied {len(self.known)} migration(s)\n"
        for words, status, said in (
            (["--check"], 3, pending),
            (["--check"], 3, pending),
            ([], 0, applied + schema),
            ([], 0, "nothing to apply\n" + schema),
            (["--check"], 0, "current\n"),
        ):
            ran = self.place.run("store", "migrate", *words)
            self.assertEqual((ran.status, ran.stdout, ran.stderr), (status, said, ""))
        with connected(self.url) as cursor:
            cursor.execute("INSERT INTO svc_migrations VALUES ('m9999_later', 'x', 1, 'newer')")
        check = self.place.run("store", "migrate", "--check")
        self.assertEqual((check.status, check.stdout), (4, "unknown-applied: m9999_later\n"))
        self.assertEqual(self.place.run("store", "migrate").status, 4)

    def test_server_that_is_not_there(self) -> None:
        """A command does not wait for a server, and shows no password of its URL."""
        os.environ["SVC_STORE_URL"] = '"postgresql://u:cAnary@127.0.0.1:9/db"'
        self.addCleanup(os.environ.pop, "SVC_STORE_URL")
        for words in (["--check"], []):
            ran = self.place.run("store", "migrate", *words)
            self.assertEqual((ran.status, ran.stdout), (1, ""))
            self.assertIn("Connection refused", ran.stderr)
            self.assertNotIn("cAnary", ran.stderr)


class LockTests(SynchronousTestCase):
    """Beside another writer."""

    @proves("U-OPEN-07", "U-MIG-10", "G-LIM-01")
    def test_writer_that_stays(self) -> None:
        """Migrating waits 120 s for the writer to leave, then gives up with status 5."""
        place, clock = Place(self), Clock()
        path = str(place.store)
        lock = take_lock(lock_path(path), "serving", clock.seconds)
        assert lock is not None
        self.addCleanup(lock.release)
        waiting = StorePlace(SqliteFactory(pause=clock.advance), place.url)
        refused = self.assertRaises(
            LockTimeout, apply, waiting, False, clock.seconds, clock.seconds
        )
        self.assertEqual(refused.exit_code, 5)
        self.assertApproximates(clock.seconds(), 120, 2)
        self.assertFalse(place.store.exists())

    def test_current_store_is_not_waited_for(self) -> None:
        """Beside a running Authority a current store has nothing to apply, at once."""
        place, clock = Place(self), Clock()
        self.assertEqual(place.run("store", "migrate").status, 0)
        lock = take_lock(lock_path(str(place.store)), "serving", clock.seconds)
        assert lock is not None
        self.addCleanup(lock.release)
        again = place.run("store", "migrate")
        self.assertEqual((again.status, again.stderr), (0, ""))
        self.assertTrue(again.stdout.startswith("nothing to apply\n"))


class WaitingStore:
    """A factory and its store at once, whose answers do not come."""

    def open_read_only(self, url: str, chain_hash: object) -> WaitingStore:
        return self

    async def read(self, desc: str, fn: object) -> None:
        await Deferred()


class LookTests(SynchronousTestCase):
    """Looking at a store without a reactor."""

    def test_answer_that_does_not_come(self) -> None:
        """A store that would make the command wait for an answer is refused."""
        refused = self.assertRaises(SvcError, StorePlace(WaitingStore(), "x://").look, "look", len)
        self.assertIn("did not arrive immediately", str(refused))
