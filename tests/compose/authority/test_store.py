"""A start that waits for its store: for an answer, or for the planned migration."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import TestCase

from svc.compose.authority.store import (
    LONGEST_PAUSE,
    PENDING_SECS,
    RELEASE_TIMEOUT_SECS,
    AwaitedStore,
)
from svc.errors import MigrationsPending, StoreUnavailable, SvcError, UnknownApplied
from svc.interfaces.store import IStore
from svc.model.audit.record import chain_hash
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.runtime.threads import inline
from svc.store.engine.lock import take_lock
from svc.store.postgres.connect import connect, take_serving
from svc.store.postgres.connection import PostgresConnection
from svc.store.postgres.url import database_place
from svc.store.sqlite.memory import memory_store
from tests.store.places import fresh_url, path_of, real_needs
from tests.support.nothing import nothing
from tests.support.postgres import connected, empty_database
from tests.support.proof import proves

PENDING = MigrationsPending("store: 2 migrations are pending (m0001_a, m0002_b)")
HELD = StoreUnavailable("store: in use: pid 1 writes to it", reason="store_in_use")
AWAY = StoreUnavailable("store: does not answer", retry_after=1.0)
NEWER = UnknownApplied("store: it has migrations that this build does not know (m9999_x)")


def opened(factory: Any, url: str) -> IStore:
    """The store, without migrating it."""
    store: IStore = factory.open(url, real_needs())
    return store


class WaitingCase(TestCase):
    """A start at a clock of the test's own."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        heard: Any = self.heard
        globalLogPublisher.addObserver(heard)
        self.addCleanup(globalLogPublisher.removeObserver, heard)

    def heard(self, event: Any) -> None:
        """Keep what is said of the store."""
        if event["log_namespace"] == "svc_store":
            self.said.append(f"{event['log_format']}: {event.get('reason', '')}")

    def begun(
        self,
        opening: Callable[[], IStore],
        migrate: Callable[[], object] = nothing,
    ) -> Any:
        """A start that waits for *opening* to give a store."""
        self.store = AwaitedStore(migrate, opening)
        return Deferred.fromCoroutine(self.store.answered(self.clock, inline))


class AnswerTests(WaitingCase):
    """What ends the wait, and what does not."""

    def starting(self, *answers: SvcError | None) -> Any:
        """A start whose attempts end so, one after the other; None: the store opens."""
        left = list(answers)

        def opening() -> IStore:
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer is not None:
                raise answer
            return memory_store(chain_hash)

        return self.begun(opening)

    @proves("G-OPEN-43")
    def test_pending(self) -> None:
        """It looks every 5 s, names the migrations once, and goes on when they are applied."""
        starting = self.starting(PENDING, PENDING, PENDING, None)
        self.clock.advance(5)
        self.clock.advance(5)
        self.clock.advance(4.9)
        self.assertNoResult(starting)
        self.failureResultOf(self.reading(), StoreUnavailable)
        self.assertEqual(len(self.said), 1)
        self.assertIn("m0001_a, m0002_b", self.said[0])
        self.clock.advance(0.1)
        self.successResultOf(starting)
        self.assertIn("continuing the start", self.said[1])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def reading(self) -> Any:
        """Ask the store something."""
        return Deferred.fromCoroutine(self.store.read("look", lambda tx: tx.audit.head()))

    @proves("G-OPEN-43", "G-STORE-02", "X-20")
    def test_newer_while_waiting(self) -> None:
        """A store that turns out newer than this build ends the wait with status 4."""
        starting = self.starting(PENDING, AWAY, NEWER)
        self.clock.advance(PENDING_SECS)
        self.clock.advance(LONGEST_PAUSE)
        self.assertEqual(self.failureResultOf(starting, UnknownApplied).value.exit_code, 4)

    def test_whoever_migrated_may_leave(self) -> None:
        """Who has just migrated it may hold it for a while more; somebody else may not."""
        starting = self.starting(PENDING, HELD, HELD, None)
        for pause in (PENDING_SECS, LONGEST_PAUSE, LONGEST_PAUSE):
            self.clock.advance(pause)
        self.successResultOf(starting)
        self.failureResultOf(self.starting(HELD), StoreUnavailable)
        starting = self.starting(PENDING, HELD)
        self.clock.pump([1] * round(PENDING_SECS + RELEASE_TIMEOUT_SECS))
        self.assertNoResult(starting)
        self.clock.pump([1] * round(LONGEST_PAUSE))
        self.failureResultOf(starting, StoreUnavailable)

    def test_stopped_while_waiting(self) -> None:
        """A start that is given up leaves no timer."""
        starting = self.starting(PENDING)
        starting.cancel()
        self.failureResultOf(starting)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class BackendTests(WaitingCase):
    """The planned migration of a real store, beside a start that waits for it."""

    def check(self, factory: Any, url: str) -> None:
        """Not there; migrated; opened."""
        starting = self.begun(partial(opened, factory, url))
        self.clock.advance(PENDING_SECS)
        self.assertNoResult(starting)
        self.assertIn("m0001_store_facts", self.said[0])
        factory.migrate(url, "test", lambda: 0.0, lambda: 0.0)
        self.clock.advance(PENDING_SECS)
        self.successResultOf(starting)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.store.close()))

    @proves("U-MIG-11")
    def test_held_after_migrating(self) -> None:
        """It opens later what it migrated, where another one held the database then."""
        url = empty_database(self)
        others: list[PostgresConnection] = []
        applied: list[str] = []

        def migrate() -> None:
            applied.extend(store_postgresql.migrate(url, "test", lambda: 0.0, lambda: 0.0).applied)
            if not others:
                place, deadline = database_place(url), monotonic() + 60
                others.append(connect(place, "migrating", monotonic, deadline, 60))
                self.assertTrue(take_serving(others[0], alone=True))

        starting = self.begun(partial(opened, store_postgresql, url), migrate)
        self.assertNoResult(starting)
        others[0].close()
        self.clock.advance(LONGEST_PAUSE)
        self.successResultOf(starting)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.store.close()))
        self.assertEqual(len(applied), store_postgresql.migration_status(url).count)

    @proves("G-OPEN-43", "G-CFG-09")
    def test_sqlite(self) -> None:
        """A file that is made while the Authority waits; the wait itself makes none."""
        self.check(store_sqlite, fresh_url(self))

    @proves("G-OPEN-43", "G-CFG-09")
    def test_postgresql(self) -> None:
        """A database that is migrated while the Authority waits."""
        self.check(store_postgresql, empty_database(self))

    def test_newer(self) -> None:
        """Of both kinds, one that a newer build migrated meanwhile ends the wait."""
        newer = "INSERT INTO svc_migrations VALUES ('m9999_x', 'x', 1, 'newer')"

        def edit_file(url: str) -> None:
            with sqlite3.connect(path_of(url)) as connection:
                connection.execute(newer)

        def edit_database(url: str) -> None:
            with connected(url) as cursor:
                cursor.execute(newer)

        both: Any = (
            (store_sqlite, fresh_url(self), edit_file),
            (store_postgresql, empty_database(self), edit_database),
        )
        for factory, url, edit in both:
            starting = self.begun(partial(opened, factory, url))
            factory.migrate(url, "test", lambda: 0.0, lambda: 0.0)
            edit(url)
            self.clock.advance(PENDING_SECS)
            self.failureResultOf(starting, UnknownApplied)

    def test_held_by_the_migration(self) -> None:
        """A file that is being migrated is neither opened nor given up."""
        url = fresh_url(self)
        starting = self.begun(partial(opened, store_sqlite, url))
        store_sqlite.migrate(url, "test", lambda: 0.0, lambda: 0.0)
        held = take_lock(path_of(url) + ".lock", "migrating", lambda: 0.0)
        assert held is not None
        self.clock.advance(PENDING_SECS)
        self.clock.advance(LONGEST_PAUSE)
        self.assertNoResult(starting)
        held.release()
        self.clock.advance(LONGEST_PAUSE)
        self.successResultOf(starting)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.store.close()))
