"""Opening and migrating PostgreSQL stores: what the drop-in ``store_postgresql`` offers.

Several processes may have one store open.  Their writes are in one order; who
of them may write at all is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar, cast

import psycopg2
from attrs import define, field, frozen
from twisted.plugin import IPlugin
from zope.interface import implementer

from svc.errors import AlreadyExists, LockTimeout, StoreUnavailable
from svc.interfaces.copies import IStoreCopies
from svc.interfaces.store import (
    ChainHash,
    IReadOnlyStore,
    IRehearser,
    IStore,
    IStoreFactory,
    ITransaction,
    StoreNeeds,
)
from svc.model.store.migration import MigrationReport, MigrationStatus, StoreStanding
from svc.model.store.rehearsal import Rehearsal
from svc.store.engine.lock import POLL_SECS, pause
from svc.store.engine.threaded import Batch, Readers, ThreadedStore, Worker
from svc.store.migrate import Migration, apply_pending, discover, migrations_folder, status_of
from svc.store.postgres.batch import PostgresReadBatch, PostgresWriteBatch, look
from svc.store.postgres.connect import (
    LEDGER,
    LOCKS,
    SERVING,
    PostgresDialer,
    connect,
    holder,
    read_ledger,
    take_serving,
)
from svc.store.postgres.connection import PostgresConnection, PostgresStatements, refusal
from svc.store.postgres.copy import (
    BEGIN_FILLING,
    BEGIN_LOOKING,
    IS_THERE,
    STEP_SECS,
    PostgresCopy,
    PostgresFilling,
)
from svc.store.postgres.rehearsal import PostgresRehearsal
from svc.store.postgres.url import SCHEME, DatabasePlace, database_place
from svc.store.sql.statements import Statements

T = TypeVar("T")

READERS = 3
ANSWER_SECS = 10.0
"""How long a command, or a start, waits for one answer."""
MIGRATION_SECS = 3600.0
"""How long one migration may take: it may walk over every row there is."""
_UNLOCK = f"SELECT pg_advisory_unlock({LOCKS}, {SERVING})"


@define(eq=False)
class PostgresDatabase(PostgresStatements):
    """A connection that migrations are applied over."""

    def begin(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        self.connection.ask("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")

    def commit(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        self.connection.ask("COMMIT")

    def rollback(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        if self.connection.in_transaction:
            self.connection.ask("ROLLBACK")


@implementer(IPlugin, IStoreFactory, IStoreCopies, IRehearser)
@frozen
class PostgresFactory:
    """See :class:`IStoreFactory`.

    Args:
        seconds: The clock of the deadlines.
        pause: Blocks that long between two attempts at the lock.
        folder: Finds the migrations; not looked for before they are needed.
    """

    seconds: Callable[[], float]
    name: str = SCHEME
    is_shared: bool = True
    pause: Callable[[float], object] = pause
    folder: Callable[[], Path] = field(default=migrations_folder)

    def check(self, url: str) -> None:
        database_place(url)

    def migration_status(self, url: str) -> MigrationStatus:
        place, migrations = database_place(url), self._migrations()
        with self._connected(place, "checking", "migration status", ANSWER_SECS) as connection:
            connection.ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return status_of(migrations, read_ledger(PostgresStatements(connection)))

    def migrate(
        self,
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        wait_secs: float = 120.0,
    ) -> MigrationReport:
        place, migrations = database_place(url), self._migrations()
        with self._connected(place, "migrating", "migrate", MIGRATION_SECS) as connection:
            statements = PostgresDatabase(connection)
            deadline = monotonic() + wait_secs
            connection.deadline = self.seconds() + ANSWER_SECS
            while True:
                # Before the wait, and each time again: another one may have done it.
                status = status_of(migrations, read_ledger(statements))
                if status.standing is not StoreStanding.PENDING:
                    status.require_current()
                    return MigrationReport((), status.level, status.count)
                if take_serving(connection, alone=True):
                    break
                left = deadline - monotonic()
                if left <= 0:
                    raise LockTimeout(
                        f"store: not free within {wait_secs:g} s: {holder(connection)} uses it; "
                        "stop that process, then run this again"
                    )
                self.pause(min(POLL_SECS, left))
                connection.deadline = self.seconds() + ANSWER_SECS
            connection.deadline = self.seconds() + MIGRATION_SECS
            report = apply_pending(
                statements,
                migrations,
                lambda: read_ledger(statements),
                binary_version,
                now,
                LEDGER,
            )
            _let_go(connection)
            return report

    def rehearse(
        self,
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> Rehearsal:
        place, migrations = database_place(url), self._migrations()
        with self._connected(place, "rehearsing", "rehearse", MIGRATION_SECS) as connection:
            connection.deadline = self.seconds() + MIGRATION_SECS
            return PostgresRehearsal(
                connection=connection,
                migrations=migrations,
                binary_version=binary_version,
                now=now,
                seconds=monotonic,
            ).rehearse()

    def open(self, url: str, needs: StoreNeeds) -> IStore:
        place, migrations = database_place(url), self._migrations()
        secs = needs.transaction_secs

        def status(statements: Statements) -> MigrationStatus:
            return status_of(migrations, read_ledger(statements))

        connector = PostgresDialer(
            place=place, seconds=self.seconds, status=status, transaction_secs=secs
        )
        writing = PostgresWriteBatch(
            connector=connector,
            chain_hash=needs.chain_hash,
            crash_point=needs.crash_point,
            seconds=self.seconds,
            limit=secs,
        )
        writing.adopt(connector.to_write(self.seconds() + secs))
        writer = Worker(writing, needs.call_from_thread, needs.crash_point)
        readers = Readers(needs.call_from_thread)
        looking: list[Batch] = [
            PostgresReadBatch(
                connector=PostgresDialer(
                    place=place, seconds=self.seconds, status=status, transaction_secs=secs
                ),
                chain_hash=needs.chain_hash,
                seconds=self.seconds,
                limit=secs,
            )
            for _ in range(READERS)
        ]
        writer.start("svc-store-writer")
        readers.start("svc-store-reader", looking)
        return ThreadedStore(
            needs=needs, writer=writer, reader=readers, release=_nothing_to_release
        )

    def open_read_only(self, url: str, chain_hash: ChainHash) -> IReadOnlyStore:
        return ReadOnlyPostgresStore(self, database_place(url), chain_hash)

    def files(self, url: str) -> Sequence[str]:
        return ()

    def is_there(self, url: str) -> bool:
        place = database_place(url)
        with self._connected(place, "looking", "restore", ANSWER_SECS) as connection:
            return bool(connection.ask(IS_THERE).fetchone()[0])

    @contextmanager
    def copied(
        self, url: str, chain_hash: ChainHash, now: Callable[[], float], alone: bool
    ) -> Iterator[PostgresCopy]:
        place = database_place(url)
        with (
            self._connected(place, "backing up", "backup", STEP_SECS) as connection,
            self._kept_out(connection) if alone else nullcontext(),
        ):
            connection.ask(BEGIN_LOOKING)
            yield PostgresCopy(connection, self.seconds, chain_hash)

    @contextmanager
    def filled(
        self, url: str, chain_hash: ChainHash, now: Callable[[], float]
    ) -> Iterator[PostgresFilling]:
        place = database_place(url)
        with (
            self._connected(place, "restoring", "restore", STEP_SECS) as connection,
            self._kept_out(connection),
        ):
            connection.ask(BEGIN_FILLING)
            if connection.ask(IS_THERE).fetchone()[0]:
                raise AlreadyExists("store: the database is not empty; use an empty one")
            yield PostgresFilling(
                connection,
                self.seconds,
                chain_hash,
                migrations=self._migrations(),
                ledger=LEDGER,
                place=place,
            )

    def look(
        self,
        place: DatabasePlace,
        desc: str,
        fn: Callable[[ITransaction], T],
        chain_hash: ChainHash,
    ) -> T:
        """Run *fn* over one snapshot and a connection of its own, in the calling thread."""
        with self._connected(place, "looking", desc, ANSWER_SECS) as connection:
            return cast(T, look(connection, fn, chain_hash))

    @contextmanager
    def _kept_out(self, connection: PostgresConnection) -> Iterator[None]:
        """Nobody opens the store to write meanwhile.

        The lock is freed before the connection is closed: a server may take its time to see that
        a session has ended, and would refuse whoever comes next.
        """
        if not take_serving(connection, alone=True):
            raise StoreUnavailable(
                f"store: it is in use: {holder(connection)} may write to it", reason="store_in_use"
            )
        try:
            yield
        finally:
            with suppress(psycopg2.Error):  # then the session's end frees it
                connection.deadline = self.seconds() + ANSWER_SECS
                connection.ask("ROLLBACK")
                connection.ask(_UNLOCK)

    @contextmanager
    def _connected(
        self, place: DatabasePlace, purpose: str, desc: str, secs: float
    ) -> Iterator[PostgresConnection]:
        """A connection for a command; what the database says against it ends in a refusal."""
        try:
            connection = connect(place, purpose, self.seconds, self.seconds() + ANSWER_SECS, secs)
            try:
                yield connection
            finally:
                connection.close()
        except psycopg2.Error as error:
            # The error itself repeats the values of a statement: it is no cause to show.
            raise refusal(error, place, desc, "") from None

    def _migrations(self) -> tuple[Migration, ...]:
        return discover(self.folder(), SCHEME)


@implementer(IReadOnlyStore)
@frozen
class ReadOnlyPostgresStore:
    """A store that is only looked at, in the calling thread."""

    _factory: PostgresFactory
    _place: DatabasePlace
    _chain_hash: ChainHash

    async def read(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return self._factory.look(self._place, desc, fn, self._chain_hash)

    async def close(self) -> None:
        """See :class:`IReadOnlyStore`.  Nothing is held between two reads."""


def _let_go(connection: PostgresConnection) -> None:
    """Free the lock, and see that it was held: it kept two migrations apart."""
    if not connection.ask(_UNLOCK).fetchone()[0]:
        raise StoreUnavailable(
            "store: the migration lock was lost meanwhile; the migrations are applied: check them "
            "with: svc authority store migrate --check"
        )


def _nothing_to_release() -> None:
    """What a session holds ends with it."""
