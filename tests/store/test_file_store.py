"""What only a store in a file has: a lock, modes, deadlines, a disk that can be full."""

from __future__ import annotations

import os
import stat
from functools import partial
from threading import Event

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.plugin import IPlugin
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from svc.errors import AuditBroken, ConfigError, MigrationsPending, StoreUnavailable
from svc.interfaces.store import IReadOnlyStore, IStoreFactory, ITransaction
from svc.plugins.store_sqlite import store_sqlite
from svc.store.engine.lock import take_lock
from svc.store.sqlite.factory import SqliteFactory
from svc.testing.contracts.store import plain_chain_hash
from tests.store.places import (
    files_beside,
    fresh_url,
    migrate,
    migrated_url,
    path_of,
    real_needs,
    run_child,
)
from tests.support.proof import proves


class UrlTests(SynchronousTestCase):
    """Which URLs name a store."""

    @proves("G-OPEN-20")
    def test_only_absolute_sqlite_urls(self) -> None:
        """Anything but sqlite:///absolute/path.db is refused, and no password is shown."""
        store_sqlite.check("sqlite:///var/lib/svc/store.db")
        for url in (
            "mysql://u:secret@h/db",
            "sqlite://relative.db",
            "sqlite:/one.db",
            "sqlite:///a.db?mode=memory",
            "sqlite:///dir/",
            "sqlite:///dir/..",
            "/plain/path",
            "",
        ):
            refusal = self.assertRaises(ConfigError, store_sqlite.check, url)
            self.assertEqual(refusal.where, "store_url")
            self.assertNotIn("secret", refusal.text)

    def test_the_drop_in(self) -> None:
        """The drop-in offers a whole store factory under the word operators write."""
        verifyObject(IStoreFactory, store_sqlite)
        verifyObject(IPlugin, store_sqlite)
        self.assertEqual(store_sqlite.name, "sqlite")


class PrivacyTests(TestCase):
    """A store that others could read or change is not opened."""

    async def test_files_are_ours_alone(self) -> None:
        """Every file of a store in use has mode 0600."""
        url = migrated_url(self)
        store = store_sqlite.open(url, real_needs())
        self.addCleanup(lambda: Deferred.fromCoroutine(store.close()))
        await store.run("write", partial(_add_group, "a"))
        self.assertEqual(len(files_beside(url)), 4)
        for name in files_beside(url):
            mode = os.stat(os.path.join(os.path.dirname(path_of(url)), name)).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600, name)

    def test_an_open_file_is_refused(self) -> None:
        """A store that others may read is refused with the command that closes it."""
        url = migrated_url(self)
        os.chmod(path_of(url), 0o640)
        refusal = self.assertRaises(ConfigError, store_sqlite.open, url, real_needs())
        self.assertIn("chmod 600", refusal.text)

    def test_an_open_directory_is_refused(self) -> None:
        """A directory that others may write to is refused before anything is made in it."""
        url = fresh_url(self)
        os.chmod(os.path.dirname(path_of(url)), 0o777)
        self.assertRaises(ConfigError, migrate, url)
        self.assertEqual(files_beside(url), {})


class OneWriterTests(TestCase):
    """Two processes never write to one file."""

    @proves("G-OPEN-49")
    async def test_a_second_writer_is_refused(self) -> None:
        """Who comes second is told the pid of who is there, and gets in once that one left."""
        url = migrated_url(self)
        first = store_sqlite.open(url, real_needs())
        refusal = self.assertRaises(StoreUnavailable, store_sqlite.open, url, real_needs())
        self.assertEqual(refusal.reason, "store_in_use")
        self.assertIn(f"pid {os.getpid()} ", refusal.text)
        await first.close()
        await store_sqlite.open(url, real_needs()).close()

    def test_the_lock_dies_with_its_holder(self) -> None:
        """A killed holder leaves its file behind, and the lock is free."""
        path = os.path.abspath(self.mktemp())
        done = run_child(
            "import os, sys; from svc.store.engine.lock import take_lock\n"
            "assert take_lock(sys.argv[1], 'test', lambda: 0.0); os.kill(os.getpid(), 9)",
            path,
        )
        self.assertEqual((done.status, done.stderr), (-9, ""))
        self.assertTrue(os.path.exists(path))
        lock = take_lock(path, "test", lambda: 0.0)
        assert lock is not None
        lock.release()

    async def test_pending_migrations_refuse(self) -> None:
        """A store that lacks migrations is not opened, and no file is made for it."""
        url = fresh_url(self)
        self.assertRaises(MigrationsPending, store_sqlite.open, url, real_needs())
        self.assertEqual(files_beside(url), {})


class DeadlineTests(TestCase):
    """Nobody waits for ever, and nothing is granted on a late answer."""

    async def test_a_late_transaction_is_undone(self) -> None:
        """A caller is told at its deadline, and what was still running is not kept."""
        clock, begun, go = Clock(), Event(), Event()
        store = store_sqlite.open(migrated_url(self), real_needs(clock))

        def slow(tx: object) -> None:
            tx.people.add_group("late", 1.0)  # type: ignore[attr-defined]
            begun.set()
            go.wait(30)

        running = Deferred.fromCoroutine(store.run("slow", slow))
        queued = Deferred.fromCoroutine(store.run("queued", lambda tx: self.fail("it ran")))
        begun.wait(30)
        clock.advance(10.0)
        for asked in (running, queued):
            refusal = self.failureResultOf(asked, StoreUnavailable).value
            self.assertEqual(refusal.reason, "store_unavailable")
            self.assertIn("nothing was written", refusal.text)
        go.set()
        seen = await store.run("look", lambda tx: tx.people.groups())
        self.assertEqual((seen, clock.getDelayedCalls()), ((), []))
        await store.close()

    async def test_a_commit_that_stalls_is_not_granted(self) -> None:
        """When the deadline falls into the commit the caller is told that nobody knows."""
        clock, committing, go = Clock(), Event(), Event()

        def stall(point: str) -> None:
            if point == "before_commit":
                committing.set()
                go.wait(30)

        needs = evolve(real_needs(clock), crash_point=stall)
        store = store_sqlite.open(migrated_url(self), needs)
        asked = Deferred.fromCoroutine(
            store.run("grant", lambda tx: tx.people.add_group("late", 1.0))
        )
        committing.wait(30)
        clock.advance(10.0)
        refusal = self.failureResultOf(asked, StoreUnavailable).value
        self.assertEqual(refusal.reason, "store_outcome_unknown")
        go.set()
        await store.close()

    async def test_a_caller_that_left_writes_nothing(self) -> None:
        """A cancelled call that has not begun leaves nothing."""
        begun, go = Event(), Event()
        store = store_sqlite.open(migrated_url(self), real_needs())

        def hold(tx: object) -> None:
            begun.set()
            go.wait(30)

        first = Deferred.fromCoroutine(store.run("hold", hold))
        second = Deferred.fromCoroutine(
            store.run("gone", lambda tx: tx.people.add_group("gone", 1.0))
        )
        second.addErrback(lambda failure: None)
        begun.wait(30)
        second.cancel()
        go.set()
        await first
        self.assertEqual(await store.read("look", lambda tx: tx.people.groups()), ())
        await store.close()

    async def test_close_finishes_what_was_asked(self) -> None:
        """Calls made before closing are answered, with what they wrote kept."""
        url = migrated_url(self)
        store = store_sqlite.open(url, real_needs())
        asked = [
            Deferred.fromCoroutine(store.run("add", partial(_add_group, f"g{n}")))
            for n in range(300)
        ]
        await store.close()
        for each in asked:
            await each
        look = store_sqlite.open_read_only(url, plain_chain_hash)
        self.assertEqual(len(await look.read("look", lambda tx: tx.people.groups())), 300)

    async def test_close_leaves_one_file(self) -> None:
        """A closed store is one file and its lock: a copy of it then is whole."""
        url = migrated_url(self)
        store = store_sqlite.open(url, real_needs())
        await store.run("write", partial(_add_group, "a"))
        await store.read("look", lambda tx: tx.people.groups())
        await store.close()
        self.assertEqual(set(files_beside(url)), {"store.db", "store.db.lock"})

    async def test_close_in_an_answer(self) -> None:
        """Who asks once more and closes, both in one answer, still gets what was asked."""
        url = migrated_url(self)
        store = store_sqlite.open(url, real_needs())
        await store.run("first", partial(_add_group, "a"))
        asked = Deferred.fromCoroutine(store.run("second", partial(_add_group, "b")))
        await store.close()
        await asked
        look = store_sqlite.open_read_only(url, plain_chain_hash)
        self.assertEqual(await look.read("look", lambda tx: tx.people.groups()), ("a", "b"))


class LookingTests(TestCase):
    """A store is looked at without a trace."""

    @proves("X-17")
    async def test_with_all_roles_stopped(self) -> None:
        """Looking at a store at rest makes no file and changes none."""
        url = migrated_url(self)
        before = files_beside(url)
        store = store_sqlite.open_read_only(url, plain_chain_hash)
        verifyObject(IReadOnlyStore, store)
        await store.read("look", lambda tx: self.assertEqual(files_beside(url), before))
        await store.close()
        self.assertEqual(files_beside(url), before)

    async def test_no_store(self) -> None:
        """A store that is not there is not made by looking."""
        url = fresh_url(self)
        self.assertRaises(StoreUnavailable, store_sqlite.open_read_only, url, plain_chain_hash)
        self.assertEqual(files_beside(url), {})

    @proves("X-18")
    async def test_beside_a_live_writer(self) -> None:
        """Who looks sees one moment, while the writer goes on and is not held up."""
        url = migrated_url(self)
        writer = store_sqlite.open(url, real_needs())
        await writer.run("add", lambda tx: tx.people.add_group("a", 1.0))
        look = store_sqlite.open_read_only(url, plain_chain_hash)

        def twice(tx: object) -> tuple[object, object]:
            before = tx.people.groups()  # type: ignore[attr-defined]
            other = SqliteFactory().open_read_only(url, plain_chain_hash)
            self.successResultOf(
                Deferred.fromCoroutine(other.read("also", lambda tx: tx.people.groups()))
            )
            return before, tx.people.groups()  # type: ignore[attr-defined]

        more = Deferred.fromCoroutine(writer.run("add", lambda tx: tx.people.add_group("b", 1.0)))
        before, after = await look.read("look", twice)
        self.assertEqual(before, after)
        await more
        self.assertEqual(await look.read("look", lambda tx: tx.people.groups()), ("a", "b"))
        await writer.close()

    async def test_a_writer_that_comes_in_between(self) -> None:
        """A look at a store at rest is begun again when a writer came and went meanwhile."""
        url = migrated_url(self)
        look = store_sqlite.open_read_only(url, plain_chain_hash)
        looks: list[object] = []

        def slow(tx: object) -> object:
            if not looks:
                run_child(_WRITE_ONE, url)
            looks.append(tx.people.groups())  # type: ignore[attr-defined]
            return looks[-1]

        self.assertEqual(await look.read("look", slow), ("from-child",))
        self.assertEqual(len(looks), 2)

    async def test_what_it_says_of_two_moments_is_not_believed(self) -> None:
        """A complaint made while a writer came in between is not passed on, a real one is."""
        url = migrated_url(self)
        look = store_sqlite.open_read_only(url, plain_chain_hash)
        looks: list[str] = []

        def complain(tx: ITransaction) -> int:
            looks.append("look")
            if len(looks) == 1:
                run_child(_WRITE_ONE, url)
            if len(looks) != 2:
                raise AuditBroken("the chain does not hold")
            return len(looks)

        self.assertEqual(await look.read("look", complain), 2)
        with self.assertRaises(AuditBroken):
            await look.read("look", complain)


def _add_group(name: str, tx: ITransaction) -> None:
    tx.people.add_group(name, 1.0)


_WRITE_ONE = """
import sys
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.connection import open_writer
c = open_writer(sys.argv[1].removeprefix("sqlite://"))
c.execute("INSERT INTO person_groups (name, added_at) VALUES ('from-child', 1.0)")
c.close()
"""
