"""Rehearsing migrations: on a copy, of both kinds of store, and nothing is left of it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.errors import SvcError, UnknownApplied
from svc.interfaces.store import IRehearser
from svc.model.store.rehearsal import Rehearsal, RowChange
from svc.store.engine.lock import take_lock
from svc.store.postgres.factory import PostgresFactory
from svc.store.postgres.url import database_place
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.rehearsal import PREFIX
from tests.store.places import files_beside, fresh_url, path_of, run_child
from tests.store.test_postgres_migrate import dump
from tests.support.postgres import connected, empty_database

OLD = {
    "m0001_first.sql": "CREATE TABLE one (a TEXT PRIMARY KEY, b TEXT NOT NULL, d TEXT);",
    "m0002_second.sql": "CREATE TABLE two (c TEXT REFERENCES one (a));\n"
    "INSERT INTO one VALUES ('begin', 'x', NULL);",
}
NEW = {
    "m0003_third.sql": "ALTER TABLE one ADD COLUMN e TEXT;\nUPDATE one SET b = 'y', e = a;",
    "m0004_fourth.sql": "CREATE TABLE four (f TEXT PRIMARY KEY);\nINSERT INTO four VALUES ('z');\n"
    "CREATE INDEX of_one ON one (b);",
}
ROWS = "INSERT INTO one VALUES ('p', 'x', 'd'); INSERT INTO two VALUES ('p'), (NULL)"


class Case(SynchronousTestCase):
    """A folder of migrations, of which two are applied to a store with rows."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.write(OLD)
        self.ticks = iter(range(1 << 20))

    def write(self, steps: dict[str, str]) -> None:
        for name, text in steps.items():
            (self.folder / name).write_text(text)

    def rehearse(self, factory: Any, url: str) -> Rehearsal:
        """Rehearse, with a clock that goes on by a second whenever it is looked at."""
        self.assertTrue(verifyObject(IRehearser, factory))
        found: Rehearsal = factory.rehearse(
            url, "test", lambda: 0.0, lambda: float(next(self.ticks))
        )
        return found

    def check(self, found: Rehearsal) -> None:
        """What both backends must say of the two new steps."""
        self.assertEqual([each.id for each in found.steps], ["m0003_third", "m0004_fourth"])
        self.assertTrue(all(each.secs > 0 for each in found.steps))
        self.assertEqual((found.level, found.count), ("m0004_fourth", 4))
        self.assertEqual(found.schema[0], "+ index of_one")
        self.assertRegex(found.schema[1], r"\+ table four \(f\b")
        self.assertRegex(found.schema[2].lower(), r"~ table one: \+ e text")
        self.assertEqual(len(found.schema), 3)
        self.assertEqual(
            found.rows,
            (
                RowChange("four", None, 1),
                RowChange(table="one", before=2, after=2, rewritten=("b",)),
            ),
        )


class SqliteTests(Case):
    """Files."""

    def setUp(self) -> None:
        super().setUp()
        self.url = fresh_url(self)
        self.factory = SqliteFactory(folder=lambda: self.folder)

    def old_store(self) -> None:
        """A store of before, with rows."""
        self.factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)
        connection = sqlite3.connect(path_of(self.url))
        connection.executescript(ROWS)
        connection.close()
        self.write(NEW)

    def test_report(self) -> None:
        """It says what each step took and changed, and the store has the same bytes."""
        self.old_store()
        before = files_beside(self.url)
        self.check(self.rehearse(self.factory, self.url))
        self.assertEqual(files_beside(self.url), before)
        self.factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)
        self.assertEqual(self.rehearse(self.factory, self.url).steps, ())

    def test_no_store_yet(self) -> None:
        """Where there is none yet all is rehearsed, and none is made."""
        found = self.rehearse(self.factory, self.url)
        self.assertEqual(found.count, 2)
        self.assertIn("+ table two (c)", found.schema)
        self.assertEqual(files_beside(self.url), {})

    def test_beside_a_writer(self) -> None:
        """What is in the journal of whoever writes belongs to the copy; the lock stays his."""
        self.old_store()
        held = take_lock(path_of(self.url) + ".lock", "serving", lambda: 0.0)
        assert held is not None
        writer = sqlite3.connect(path_of(self.url))
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("INSERT INTO two VALUES ('begin')")
        writer.commit()
        before = {name: data for name, data in files_beside(self.url).items() if "shm" not in name}
        self.write({"m0005_fifth.sql": "DELETE FROM two;"})
        found = self.rehearse(self.factory, self.url)
        self.assertIn(RowChange(table="two", before=3, after=0, rewritten=("c",)), found.rows)
        after = {name: data for name, data in files_beside(self.url).items() if "shm" not in name}
        self.assertEqual(after, before)
        writer.close()
        held.release()

    def test_a_step_that_fails(self) -> None:
        """What would fail fails on the copy, which is gone."""
        self.old_store()
        self.write({"m0005_fifth.sql": "INSERT INTO nowhere VALUES (1);"})
        before = files_beside(self.url)
        self.assertRaises(sqlite3.OperationalError, self.rehearse, self.factory, self.url)
        self.assertEqual(files_beside(self.url), before)

    def test_no_room(self) -> None:
        """A disk that has no room for a copy is not filled."""
        self.old_store()
        os.truncate(path_of(self.url), 1 << 42)
        refusal = self.assertRaises(SvcError, self.rehearse, self.factory, self.url)
        self.assertEqual(refusal.reason, "rehearsal_refused")
        self.assertIn("12582912 MiB free next to", refusal.text)
        self.assertEqual(self.copies(), [])

    def test_a_newer_store(self) -> None:
        """There is nothing to rehearse on a store of a newer build."""
        self.old_store()
        connection = sqlite3.connect(path_of(self.url))
        with connection:
            connection.execute("INSERT INTO svc_migrations VALUES ('m9999_x', 'x', 1, 'newer')")
        connection.close()
        before = files_beside(self.url)
        self.assertRaises(UnknownApplied, self.rehearse, self.factory, self.url)
        self.assertEqual(files_beside(self.url), before)

    def test_killed(self) -> None:
        """What a killed rehearsal leaves the next one removes; a signal lets it end in order."""
        self.old_store()
        before = files_beside(self.url)
        for number, status, left in (("SIGTERM", 143, 0), ("SIGKILL", -9, 1)):
            step = f"import os, signal\ndef up(db): os.kill(os.getpid(), signal.{number})\n"
            self.write({"m0005_fifth.py": step})
            done = run_child(_REHEARSING, self.url, str(self.folder.resolve()))
            self.assertEqual(done.status, status, done.stderr)
            self.assertEqual(len(self.copies()), left)
        self.write({"m0005_fifth.py": "def up(db): pass\n"})
        (copy,) = self.copies()
        running = os.open(copy, os.O_RDONLY)
        fcntl.flock(running, fcntl.LOCK_EX)
        self.rehearse(self.factory, self.url)
        self.assertEqual(self.copies(), [copy], "another one works in it")
        os.close(running)
        self.rehearse(self.factory, self.url)
        self.assertEqual(files_beside(self.url), before)

    def copies(self) -> list[Path]:
        """Directories that rehearsals work in."""
        return list(Path(path_of(self.url)).parent.glob(f"{PREFIX}*"))


_REHEARSING = """
import sys, time
from pathlib import Path
from svc.cli.authority.upkeep.store import rehearse
from svc.ops.store import StorePlace
from svc.store.sqlite.factory import SqliteFactory
from svc.store.postgres.factory import PostgresFactory
folder = lambda: Path(sys.argv[2])
both = SqliteFactory(folder=folder), PostgresFactory(time.monotonic, folder=folder)
place = StorePlace(both["postgres" in sys.argv[1]], sys.argv[1])
sys.exit(rehearse(place, False, time.time, time.monotonic))
"""


class PostgresTests(Case):
    """Databases."""

    def setUp(self) -> None:
        super().setUp()
        self.url = empty_database(self)
        self.factory = PostgresFactory(lambda: 0.0, folder=lambda: self.folder)

    def old_store(self) -> None:
        """A store of before, with rows."""
        self.factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)
        with connected(self.url) as cursor:
            cursor.execute(ROWS)
        self.write(NEW)

    def everything(self) -> list[object]:
        """What a dump would show."""
        found: list[object] = [*dump(self.url)]
        with connected(self.url) as cursor:
            cursor.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1")
            found += cursor.fetchall()
            for table in ("one", "two"):
                cursor.execute(f"SELECT t.*, xmin FROM {table} t ORDER BY 1")
                found += cursor.fetchall()
        return found

    def test_report(self) -> None:
        """It says what each step took and changed, and the database is as it was."""
        self.old_store()
        before = self.everything()
        with connected(self.url) as cursor:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE two SET c = c")  # somebody writes; nobody waits for anybody
            self.check(self.rehearse(self.factory, self.url))
            cursor.execute("ROLLBACK")
        self.assertEqual(self.everything(), before)
        self.factory.migrate(self.url, "test", lambda: 0.0, lambda: 0.0)
        self.assertEqual(self.rehearse(self.factory, self.url).steps, ())

    def test_no_store_yet(self) -> None:
        """In an empty database all is rehearsed, and nothing is made."""
        found = self.rehearse(self.factory, self.url)
        self.assertEqual((found.count, dump(self.url)), (2, []))

    def test_a_step_that_fails(self) -> None:
        """What would fail fails on the copy, which is gone."""
        self.old_store()
        self.write({"m0005_fifth.sql": "INSERT INTO nowhere VALUES (1);"})
        before = self.everything()
        self.assertRaises(SvcError, self.rehearse, self.factory, self.url)
        self.assertEqual(self.everything(), before)

    def test_killed(self) -> None:
        """A rehearsal that is killed, or ended by a signal, leaves nothing either."""
        self.old_store()
        before = self.everything()
        for number, status in (("SIGTERM", 143), ("SIGKILL", -9)):
            step = f"import os, signal\ndef up(db): os.kill(os.getpid(), signal.{number})\n"
            self.write({"m0005_fifth.py": step})
            done = run_child(_REHEARSING, self.url, str(self.folder.resolve()))
            self.assertEqual(done.status, status, done.stderr)
            self.assertEqual(self.everything(), before)

    def test_a_role_without_the_right(self) -> None:
        """A role that may not make a schema is refused with what it needs."""
        self.old_store()
        name = database_place(self.url).parameters["dbname"]
        role = f"{name}_reader"
        with connected(self.url) as cursor:
            cursor.execute(
                f"CREATE ROLE {role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
            )
            self.addCleanup(self.drop_role, role)
        refusal = self.assertRaises(
            SvcError, self.rehearse, self.factory, self.url.replace("//svc@", f"//{role}@")
        )
        self.assertEqual(refusal.reason, "rehearsal_refused")
        self.assertIn(f"GRANT CREATE ON DATABASE {name} TO {role}", refusal.text)

    def drop_role(self, role: str) -> None:
        """The server is shared."""
        with connected(self.url) as cursor:
            cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
