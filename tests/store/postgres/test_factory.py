"""What only a store in PostgreSQL has: a URL with a password, a server that comes and goes."""

from __future__ import annotations

import atexit
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread
from urllib.parse import quote, unquote

from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.plugin import IPlugin
from twisted.trial.unittest import SkipTest, SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from svc.errors import ConfigError, MigrationsPending, StoreUnavailable, SvcError, UnknownApplied
from svc.interfaces.store import IReadOnlyStore, IStore, IStoreFactory, ITransaction, StoreNeeds
from svc.plugins.store_postgresql import store_postgresql
from svc.store.postgres.connect import settle
from svc.store.postgres.connection import PostgresConnection
from svc.store.postgres.url import database_place
from svc.testing.contracts.store import plain_chain_hash
from svc.testing.gateway.postgres import LOCKED, PostgresServer
from tests.store.places import real_needs, run_child
from tests.support.postgres import connected, empty_database, migrated_database, programs
from tests.support.proof import proves

CANARY = "cAnary-47%11"
ESCAPED = "cAnary-47%2511"


class UrlTests(SynchronousTestCase):
    """Which URLs name a database."""

    @proves("G-OPEN-20")
    def test_libpq_urls(self) -> None:
        """libpq's URLs are taken, with a host and a database, and with its parameters."""
        for url in (
            "postgresql://svc@db.example/svc",
            "postgres://svc:secret@db.example:5433/svc?sslmode=verify-full&sslrootcert=/ca.pem",
            "postgresql://svc@a.example,b.example:5433/svc?target_session_attrs=read-write",
            "postgresql://svc@%2Frun%2Fpostgresql/svc",
            "postgresql:///svc?host=/run/postgresql&user=svc",
            "postgresql://svc@[::1]:5432/svc",
            "postgresql://svc:%40%3A%2F@h/svc",
        ):
            store_postgresql.check(url)

    @proves("G-OPEN-20")
    def test_malformed_urls_show_nothing(self) -> None:
        """Any other URL is refused by its key, and no part of a password is shown."""
        for url in (
            "mysql://u:secret@h/d",
            "postgresql://u:sec@ret@h/d",
            "postgresql://u:secret/x@h/d",
            "postgresql://u:12/secret@h/d",
            "postgresql://u:12?secret@h/d",
            "postgresql://u:secret@h:port/d",
            "postgresql://u:sec#ret@h:1/d?x@y",
            "postgresql://u:secret@h/d?nonsense=secret",
            "postgresql://u:secret@h/d?sslmode",
            "postgresql://u:se%zzcret@h/d",
            "postgresql://u:secret@h",
            "postgresql:///d?password=secret",
            "postgresql://u:secret@h/d?replication=database",
            "postgresql://u:sec ret@h/d",
            "postgresql://u:secret@h\0/d",
            "secret",
        ):
            refusal = self.assertRaises(ConfigError, store_postgresql.check, url)
            self.assertEqual(refusal.where, "store_url", url)
            self.assertNotIn("sec", refusal.text.replace("sec_", ""), url)
            self.assertIsNone(refusal.__cause__)

    def test_the_drop_in(self) -> None:
        """The drop-in offers a whole store factory under the word operators write."""
        verifyObject(IStoreFactory, store_postgresql)
        verifyObject(IPlugin, store_postgresql)
        self.assertEqual(store_postgresql.name, "postgresql")


class PasswordTests(TestCase):
    """A password is used and never shown."""

    async def test_never_shown(self) -> None:
        """Neither a wrong nor a right password is in an error, a repr or the process list."""
        base = migrated_database(self)
        with connected(base) as cursor:
            cursor.execute("SELECT current_database()")
            (name,) = cursor.fetchone()
            cursor.execute(f"DROP ROLE IF EXISTS {LOCKED}")
            cursor.execute(f"CREATE ROLE {LOCKED} SUPERUSER LOGIN PASSWORD '{CANARY}'")
        host = base.split("@")[1].split("/")[0]
        wrong = f"postgresql://{LOCKED}:{ESCAPED}x@{host}/{name}"
        right = f"postgresql://{LOCKED}:{ESCAPED}@{host}/{name}"
        refusal = self.assertRaises(StoreUnavailable, store_postgresql.open, wrong, real_needs())
        self.assertIn("password authentication failed", refusal.text)
        store = store_postgresql.open(right, real_needs())
        await store.run("write", partial(_add_group, "a"))
        look = store_postgresql.open_read_only(right, plain_chain_hash)
        shown = [refusal.text, repr(refusal.__context__), repr(store), repr(look)]
        with connected(base) as cursor:
            cursor.execute(f"ALTER ROLE {LOCKED} NOLOGIN")
            refused = self.assertRaises(StoreUnavailable, _look, right)
            shown.append(refused.text)
            await store.close()
            cursor.execute(f"DROP ROLE {LOCKED}")
        shown += map(_legible, Path("/proc").glob("[0-9]*/cmdline"))
        for text in shown:
            self.assertNotIn("cAnary", text)


class OpenTests(TestCase):
    """What is opened, and what is not."""

    def test_pending_migrations_refuse(self) -> None:
        """An empty database is not opened, and nothing is made in it."""
        url = empty_database(self)
        self.assertRaises(MigrationsPending, store_postgresql.open, url, real_needs())
        refusal = self.assertRaises(StoreUnavailable, _look, url)
        self.assertIn("svc authority store migrate", refusal.text)
        with connected(url) as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            )
            self.assertEqual(cursor.fetchone(), (0,))

    def test_no_such_database(self) -> None:
        """A database or server that is not there is said to be unavailable, in one sentence."""
        url = empty_database(self)
        for missing in (f"{url}_not", "postgresql://svc@%2Fno%2Fsuch%2Fdirectory/svc"):
            for ask in (
                partial(store_postgresql.open, missing, real_needs()),
                partial(store_postgresql.migration_status, missing),
                partial(store_postgresql.migrate, missing, "test", lambda: 0.0, lambda: 0.0),
                partial(_look, missing),
            ):
                refusal = self.assertRaises(StoreUnavailable, ask)
                self.assertEqual(refusal.reason, "store_unavailable")

    async def test_another_encoding(self) -> None:
        """A database that keeps no UTF-8 is refused, with what to do."""
        url = empty_database(self)
        with connected(url) as cursor:
            name = url.rpartition("/")[2] + "_ascii"
            cursor.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
            try:
                refusal = self.assertRaises(
                    StoreUnavailable, store_postgresql.migration_status, f"{url}_ascii"
                )
            finally:
                cursor.execute(f"DROP DATABASE {name}")
        self.assertIn("ENCODING 'UTF8'", refusal.text)

    async def test_statements_are_not_shown(self) -> None:
        """What the database refuses is told without the values that were to be written."""
        store = store_postgresql.open(migrated_database(self), real_needs())
        self.addCleanup(lambda: Deferred.fromCoroutine(store.close()))
        bad = b'{"event":"secret-value",}'
        with self.assertRaises(SvcError) as caught:
            await store.run("append", lambda tx: tx.audit.append(bad))
        self.assertIn("SQLSTATE 22P02", caught.exception.text)
        self.assertNotIn("secret-value", caught.exception.text)

    async def test_a_caught_database_error_fails_its_job_alone(self) -> None:
        """A function that goes on after a failed statement fails, and its neighbours do not."""
        store = store_postgresql.open(migrated_database(self), real_needs())
        self.addCleanup(lambda: Deferred.fromCoroutine(store.close()))

        swallowed: list[Exception] = []

        def swallow(tx: ITransaction) -> None:
            tx.people.add_group("swallowed", 1.0)
            try:
                tx.audit.append(b"{,}")
            except SvcError:
                raise
            except Exception as error:
                swallowed.append(error)  # what no function of ours does

        asked = [
            Deferred.fromCoroutine(store.run("a", partial(_add_group, "a"))),
            Deferred.fromCoroutine(store.run("swallow", swallow)),
            Deferred.fromCoroutine(store.run("b", partial(_add_group, "b"))),
        ]
        asked[1].addCallbacks(lambda _: self.fail("kept"), lambda failure: failure.trap(SvcError))
        await gatherResults(asked)
        self.assertEqual(await store.read("look", lambda tx: tx.people.groups()), ("a", "b"))


class SettingsTests(SynchronousTestCase):
    """What a database or role may have set otherwise."""

    def setting(self, name: str, url: str) -> str:
        """What holds in a session of ours."""
        place = database_place(url)
        opened = PostgresConnection.opened(place, "test", time.monotonic, time.monotonic() + 60)
        with closing(opened) as connection:
            settle(connection, 10.0)
            [(found,)] = connection.ask(f"SHOW {name}").fetchall()
        return str(found)

    @proves("G-ROLE-10", "G-AUD-01")
    def test_a_commit_is_on_the_disk(self) -> None:
        """Where the database was set to answer before the disk has it, our sessions wait for it."""
        url = empty_database(self)
        name = url.rpartition("/")[2]
        for setting, found in (("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")):
            with connected(url) as cursor:
                cursor.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = {setting}')
            self.assertEqual(self.setting("synchronous_commit", url), found)

    def test_long_texts(self) -> None:
        """They are compressed in the faster of the ways that the server has."""
        url = empty_database(self)
        with connected(url) as cursor:
            cursor.execute(
                "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"
            )
            found = cursor.fetchall()
        if not found:
            raise SkipTest("before PostgreSQL 14 there is one way")
        [(known,)] = found
        way = "lz4" if "lz4" in known else "pglz"
        self.assertEqual(self.setting("default_toast_compression", url), way)


class PoolerTests(SynchronousTestCase):
    """A pooler gives a session to whoever comes; locks of a session do not hold through it."""

    def test_a_pooler_is_refused(self) -> None:
        """One that stands between is noticed, and the refusal says what to do."""
        url = migrated_database(self)
        host, database = url.rpartition("@")[2].split("/")
        server = f"{unquote(host)}/.s.PGSQL.5432"
        place = mkdtemp(prefix="svc-pool-")
        self.addCleanup(shutil.rmtree, place)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(f"{place}/.s.PGSQL.5432")
        listener.listen()
        Thread(target=_pool, args=(listener, server), daemon=True).start()
        pooled = f"postgresql://svc@{quote(place, safe='')}/{database}?sslmode=disable"
        for ask in (
            partial(store_postgresql.open, pooled, real_needs()),
            partial(store_postgresql.migrate, pooled, "test", lambda: 0.0, lambda: 0.0),
        ):
            refusal = self.assertRaises(StoreUnavailable, ask)
            self.assertIn("there is a connection pooler between", refusal.text)


def _pool(listener: socket.socket, server: str) -> None:
    """Like PgBouncer: tell each client a process id of our own making, and pass the rest on."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        behind = socket.socket(socket.AF_UNIX)
        behind.connect(server)
        behind.sendall(client.recv(65536))
        greeting = b""
        while not greeting.endswith(b"Z\0\0\0\5I"):
            greeting += behind.recv(65536)
        at = greeting.index(b"K\0\0\0\x0c") + 5
        client.sendall(greeting[:at] + b"\0\0\0\7" + greeting[at + 4 :])
        while asked := client.recv(65536):
            if asked[:1] == b"X":
                break
            behind.sendall(asked)
            client.sendall(behind.recv(65536))
        client.close()
        behind.close()


_APPENDING = """
import sys
from twisted.internet import reactor, task
from twisted.internet.defer import Deferred, gatherResults
from svc.interfaces.store import StoreNeeds
from svc.plugins.store_postgresql import store_postgresql
from svc.testing.contracts.store import plain_chain_hash
url, who = sys.argv[1:]
async def append(reactor):
    needs = StoreNeeds(reactor, lambda: 0.0, reactor.callFromThread, plain_chain_hash)
    store = store_postgresql.open(url, needs)
    def one(number):
        text = b'{"event":"%s%d"}' % (who.encode(), number)
        return Deferred.fromCoroutine(store.run("append", lambda tx: tx.audit.append(text).seq))
    seqs = []
    for begin in range(0, 200, 8):
        seqs += await gatherResults([one(begin + n) for n in range(8)])
    await store.close()
    print(*seqs)
task.react(lambda reactor: Deferred.fromCoroutine(append(reactor)))
"""


class TwoProcessesTests(TestCase):
    """Several processes write to one store."""

    async def test_one_chain(self) -> None:
        """Two processes that append at once make one chain without a gap or a fork."""
        url = migrated_database(self)
        done = await gatherResults([deferToThread(run_child, _APPENDING, url, who) for who in "ab"])
        for each in done:
            self.assertEqual(each.status, 0, each.stderr)
        seqs = [[int(word) for word in each.stdout.split()] for each in done]
        self.assertEqual(sorted(seqs[0] + seqs[1]), list(range(1, 401)))
        rows = await store_postgresql.open_read_only(url, plain_chain_hash).read(
            "rows", lambda tx: tx.audit.rows(1, 1000)
        )
        prev = bytes(32)
        for number, row in enumerate(rows, 1):
            self.assertEqual((row.seq, row.prev_hash), (number, prev))
            prev = plain_chain_hash(row.seq, prev, row.canonical)
            self.assertEqual(row.hash, prev)
        self.assertEqual(len(rows), 400)


@cache
def victim() -> PostgresServer:
    """The server that these tests stop, kill and silence; it runs between them."""
    server = PostgresServer.made(programs())
    atexit.register(server.remove)
    server.start()
    store_postgresql.migrate(server.url(), "test", lambda: 0.0, lambda: 0.0)
    return server


class FaultTests(TestCase):
    """A server that goes, and comes back."""

    def setUp(self) -> None:
        self.server = victim()
        if not self.server.is_running:
            self.server.start()
        with connected(self.server.url()) as cursor:
            cursor.execute("TRUNCATE memberships, person_groups, persons, audit_log CASCADE")

    def opened(self, crash_point: Callable[[str], None] | None = None, secs: float = 10) -> IStore:
        needs: StoreNeeds = evolve(real_needs(), transaction_secs=secs)
        if crash_point is not None:
            needs = evolve(needs, crash_point=crash_point)
        store = store_postgresql.open(self.server.url(), needs)
        self.addCleanup(lambda: Deferred.fromCoroutine(store.close()))
        return store

    async def answered(self, store: IStore, name: str) -> None:
        """Ask until the store has written; trial ends a test that never comes back."""
        while True:
            try:
                await store.run("again", partial(_add_group, name))
                return
            except StoreUnavailable as refusal:
                self.assertEqual(refusal.reason, "store_unavailable")
                await deferLater(reactor, 0.05)

    async def test_gone_and_back(self) -> None:
        """While the server is gone every call is refused; when it is back calls succeed again."""
        store = self.opened()
        await store.run("before", partial(_add_group, "before"))
        self.server.stop()
        for ask in (store.run, store.read):
            with self.assertRaises(StoreUnavailable) as caught:
                await ask("meanwhile", partial(_add_group, "meanwhile"))
            self.assertEqual(caught.exception.reason, "store_unavailable")
        self.server.start()
        await self.answered(store, "after")
        groups = await store.read("look", lambda tx: tx.people.groups())
        self.assertEqual(groups, ("after", "before"))

    async def test_restarted_between_two_calls(self) -> None:
        """A server that was restarted while nothing was asked is not noticed at all."""
        store = self.opened()
        await store.run("before", partial(_add_group, "a"))
        await store.read("before", lambda tx: tx.people.groups())
        self.server.stop()
        self.server.start()
        self.assertEqual(await store.read("look", lambda tx: tx.people.groups()), ("a",))
        await store.run("after", partial(_add_group, "b"))

    async def test_migrated_meanwhile(self) -> None:
        """A store that a newer build migrated while its server was away is not used any more."""
        store = self.opened()
        with connected(self.server.url()) as cursor:
            cursor.execute("INSERT INTO svc_migrations VALUES ('m9999_x', 'x', 1, 'newer')")
        self.server.stop()
        self.server.start()
        for ask in (store.run, store.read):
            with self.assertRaises(UnknownApplied):
                await ask("meanwhile", partial(_add_group, "a"))
        with connected(self.server.url()) as cursor:
            cursor.execute("SELECT count(*) FROM person_groups")
            self.assertEqual(cursor.fetchone(), (0,))
            cursor.execute("DELETE FROM svc_migrations WHERE id = 'm9999_x'")

    async def test_standby(self) -> None:
        """A server that follows another one is not read from either: it may lag behind."""
        store = self.opened()
        await store.run("before", partial(_add_group, "before"))
        self.server.stop(signal.SIGINT)
        following = self.server.directory / "data" / "standby.signal"
        following.touch()
        try:
            self.server.start()
            for ask in (store.run, store.read):
                with self.assertRaises(StoreUnavailable) as caught:
                    await ask("meanwhile", partial(_add_group, "meanwhile"))
                self.assertIn("target_session_attrs=read-write", caught.exception.text)
            look = store_postgresql.open_read_only(self.server.url(), plain_chain_hash)
            groups = await look.read("an operator may", lambda tx: tx.people.groups())
            self.assertEqual(groups, ("before",))
        finally:
            self.server.stop()
            following.unlink()
            self.server.start()
        await self.answered(store, "after")

    async def test_lost_before_the_commit(self) -> None:
        """A function whose connection is cut before the commit runs again and is kept once."""
        store, runs = self.opened(), []

        def cut(tx: ITransaction) -> None:
            runs.append(1)
            tx.audit.append(b'{"event":"once"}')
            if len(runs) == 1:
                with connected(self.server.url()) as cursor:
                    cursor.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE application_name LIKE '%(serving)'"
                    )
            tx.people.add_group("a", 1.0)

        await store.run("cut", cut)
        seen = await store.read("look", lambda tx: (tx.people.groups(), tx.audit.head().seq))
        self.assertEqual((len(runs), seen), (2, (("a",), 1)))

    async def test_lost_in_the_commit(self) -> None:
        """When the server dies while it commits, the caller is told that nobody knows."""

        def die(point: str) -> None:
            if point == "before_commit":
                self.server.stop()

        store = self.opened(die)
        with self.assertRaises(StoreUnavailable) as caught:
            await store.run("grant", partial(_add_group, "a"))
        self.assertEqual(caught.exception.reason, "store_outcome_unknown")

    async def test_refused_at_the_commit(self) -> None:
        """A commit that the server itself refuses is known not to be written."""
        with connected(self.server.url()) as cursor:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'no'; END $$"
            )
            cursor.execute(
                "CREATE CONSTRAINT TRIGGER no AFTER INSERT ON person_groups"
                " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no()"
            )
            store = self.opened()
            try:
                with self.assertRaises(StoreUnavailable) as caught:
                    await store.run("grant", partial(_add_group, "a"))
            finally:
                cursor.execute("DROP TRIGGER no ON person_groups")
        self.assertEqual(caught.exception.reason, "store_unavailable")
        self.assertIn("nothing was written", caught.exception.text)
        await store.run("again", partial(_add_group, "a"))

    async def test_silent(self) -> None:
        """A server that answers nothing costs its callers their deadline, and then goes on."""
        store = self.opened(secs=1)
        await store.run("before", partial(_add_group, "a"))
        self.server.signal(signal.SIGSTOP)
        try:
            with self.assertRaises(StoreUnavailable) as caught:
                await store.run("meanwhile", partial(_add_group, "b"))
        finally:
            self.server.signal(signal.SIGCONT)
        self.assertEqual(caught.exception.reason, "store_unavailable")
        self.assertIn("nothing was written", caught.exception.text)
        await self.answered(store, "c")
        groups = await store.read("look", lambda tx: tx.people.groups())
        self.assertEqual(groups, ("a", "c"))

    async def test_another_writer_that_hangs(self) -> None:
        """Who holds the order of writing and does nothing is put out by the server."""
        hanging, go = Event(), Event()
        first, second = self.opened(secs=1), self.opened(secs=10)

        def hang(tx: ITransaction) -> None:
            tx.people.add_group("hung", 1.0)
            hanging.set()
            go.wait(30)

        asked = Deferred.fromCoroutine(first.run("hang", hang))
        asked.addErrback(lambda failure: failure.trap(StoreUnavailable))
        hanging.wait(30)
        await second.run("write", partial(_add_group, "written"))
        go.set()
        await asked
        groups = await second.read("look", lambda tx: tx.people.groups())
        self.assertEqual(groups, ("written",))


def _legible(path: Path) -> str:
    """What a file says; nothing where it cannot be read, as of a process that has ended."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _look(url: str) -> object:
    store: IReadOnlyStore = store_postgresql.open_read_only(url, plain_chain_hash)
    reading = store.read("look", lambda tx: tx.people.groups())
    try:
        reading.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the answer did not arrive immediately")


def _add_group(name: str, tx: ITransaction) -> None:
    tx.people.add_group(name, 1.0)
