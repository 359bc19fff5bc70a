"""The demo's database: started where that can be, and gone afterwards."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from shutil import rmtree

import psycopg2
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from svc.demo.database import DemoDatabase
from svc.demo.scene import DATABASE_NAME, DATABASE_ROLE, Scene
from tests.support.postgres import programs


class DemoDatabaseTests(TestCase):
    """One server, in a directory for temporary files that is empty."""

    def setUp(self) -> None:
        self.temporary = Path(tempfile.mkdtemp(prefix="svc-test-db-"))
        self.temporary.chmod(0o711)
        self.addCleanup(rmtree, self.temporary, True)
        self.patch(tempfile, "tempdir", str(self.temporary))

    def database(self, folder: Path | None) -> DemoDatabase:
        """One that finds its programs in *folder*."""
        made = DemoDatabase(reactor=reactor, clock=reactor, entropy=os.urandom, look=lambda: folder)
        self.addCleanup(lambda: Deferred.fromCoroutine(made.stop()))
        return made

    def left(self) -> list[str]:
        """What lies in the directory."""
        return sorted(each.name for each in self.temporary.iterdir())

    async def test_started_and_gone(self) -> None:
        """It answers to the Connector's password and to no other, and leaves no file."""
        database = self.database(programs())
        await database.start()
        self.assertEqual(database.problem, "")
        host, _, port = database.address.rpartition(":")
        file = Path(database.table["password_files"][DATABASE_ROLE])
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        where = {"host": host, "port": port, "user": DATABASE_ROLE, "dbname": DATABASE_NAME}
        psycopg2.connect(**where, password=file.read_text("ascii")).close()
        for wrong in ("", "app"):
            self.assertRaises(psycopg2.OperationalError, psycopg2.connect, **where, password=wrong)
        await database.stop()
        self.assertEqual((self.left(), database.is_running), ([], False))
        self.assertRaises(psycopg2.OperationalError, psycopg2.connect, **where, password="x")

    async def test_none_here(self) -> None:
        """Without a server on this machine it says so, and the demo's scene has no database."""
        database = self.database(None)
        await database.start()
        self.assertIn("no PostgreSQL server", database.problem)
        scene = Scene(has_database=database.is_running)
        self.assertNotIn("postgres", scene.kinds)
        self.assertNotIn("dbQuery", scene.policy)

    async def test_broken_one(self) -> None:
        """A server that does not start is told with its own last line, and leaves no file."""
        folder = self.temporary / "broken"
        folder.mkdir(0o755)
        for name in ("initdb", "postgres"):
            (folder / name).write_text("#!/bin/sh\necho no shared memory >&2\nexit 3\n", "ascii")
            (folder / name).chmod(0o755)
        database = self.database(folder)
        await database.start()
        self.assertEqual(database.problem, "initdb ended with 3: no shared memory")
        self.assertEqual(self.left(), ["broken"])

    async def test_stopped_amid_the_start(self) -> None:
        """One that is stopped while it is being made leaves no file either."""
        database = self.database(programs())
        starting = Deferred.fromCoroutine(database.start())
        while not self.left():
            await _turn()
        starting.cancel()
        starting.addErrback(lambda failure: None)
        await database.stop()
        self.assertEqual(self.left(), [])


def _turn() -> Deferred[None]:
    """The reactor's next turn."""
    turn: Deferred[None] = Deferred()
    reactor.callLater(0, turn.callback, None)
    return turn
