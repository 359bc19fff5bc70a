"""Opening and migrating SQLite stores: what the drop-in ``store_sqlite`` offers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from functools import lru_cache
from pathlib import Path

from attrs import field, frozen
from twisted.plugin import IPlugin
from zope.interface import implementer

from svc.errors import LockTimeout, StoreUnavailable
from svc.interfaces.copies import IStoreCopies
from svc.interfaces.store import (
    ChainHash,
    IReadOnlyStore,
    IRehearser,
    IStore,
    IStoreFactory,
    StoreNeeds,
)
from svc.model.store.migration import MigrationReport, MigrationStatus, StoreStanding
from svc.model.store.rehearsal import Rehearsal
from svc.store.engine.lock import holder, pause, take_lock, wait_for_lock
from svc.store.migrate import Migration, apply_pending, discover, migrations_folder, status_of
from svc.store.sqlite.connection import (
    SqliteDatabase,
    SqliteReader,
    StoreFile,
    open_memory,
    open_reader,
    open_writer,
    read_ledger,
    unavailable,
)
from svc.store.sqlite.copy import SqliteCopies, SqliteCopy, SqliteFilling, files
from svc.store.sqlite.location import SCHEME, create_private, lock_path, require_private, store_path
from svc.store.sqlite.rehearsal import rehearse_file
from svc.store.sqlite.store import MemoryStore, ReadOnlySqliteStore, file_store


@implementer(IPlugin, IStoreFactory, IStoreCopies, IRehearser)
@frozen
class SqliteFactory:
    """See :class:`IStoreFactory`.

    Args:
        pause: Blocks that long between two attempts at the lock.
        folder: Finds the migrations; not looked for before they are needed.
    """

    name: str = SCHEME
    is_shared: bool = False
    pause: Callable[[float], object] = pause
    folder: Callable[[], Path] = field(default=migrations_folder)

    def check(self, url: str) -> None:
        store_path(url)

    def migration_status(self, url: str) -> MigrationStatus:
        return self._status(store_path(url), self._migrations())

    def _status(self, path: str, migrations: Sequence[Migration]) -> MigrationStatus:
        if not os.path.exists(path):
            return status_of(migrations, ())
        try:
            return status_of(migrations, SqliteReader(path).look(read_ledger))
        except sqlite3.Error as error:
            raise unavailable(error, "migration status") or error from error

    def migrate(
        self,
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        wait_secs: float = 120.0,
    ) -> MigrationReport:
        path, migrations = store_path(url), self._migrations()
        require_private(path)
        before = self._status(path, migrations)
        if before.standing not in (StoreStanding.CURRENT, StoreStanding.PENDING):
            before.require_current()
        lock = wait_for_lock(lock_path(path), "migrating", wait_secs, now, monotonic, self.pause)
        if lock is None:
            raise LockTimeout(
                f"store: not free within {wait_secs:g} s: {holder(lock_path(path))} writes to it; "
                "stop that process, then run this again"
            )
        try:
            create_private(path)
            return self._migrate(path, migrations, binary_version, now)
        finally:
            lock.release()

    def rehearse(
        self,
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> Rehearsal:
        path, migrations = store_path(url), self._migrations()
        require_private(path)
        status = self._status(path, migrations)
        if status.standing is not StoreStanding.PENDING:
            status.require_current()
        try:
            return rehearse_file(path, migrations, binary_version, now, monotonic)
        except sqlite3.Error as error:
            raise unavailable(error, "rehearse") or error from error

    def open(self, url: str, needs: StoreNeeds) -> IStore:
        path, migrations = store_path(url), self._migrations()
        require_private(path)
        self._status(path, migrations).require_current()
        lock = take_lock(lock_path(path), "serving", needs.now)
        if lock is None:
            raise StoreUnavailable(
                f"store: {path} is in use: {holder(lock_path(path))} writes to it",
                reason="store_in_use",
            )

        def open_to_write() -> sqlite3.Connection:
            connection = open_writer(path)
            try:
                status_of(migrations, read_ledger(connection)).require_current()
            except BaseException:
                connection.close()
                raise
            return connection

        try:
            open_to_write().close()
            return file_store(
                lock, needs, open_to_write, lambda: open_reader(path), StoreFile(path)
            )
        except sqlite3.Error as error:
            lock.release()
            raise unavailable(error, "open") or error from error
        except BaseException:
            lock.release()
            raise

    def open_read_only(self, url: str, chain_hash: ChainHash) -> IReadOnlyStore:
        path = store_path(url)
        if not os.path.exists(path):
            raise StoreUnavailable(f"store: {path} does not exist")
        return ReadOnlySqliteStore(SqliteReader(path), chain_hash)

    def files(self, url: str) -> Sequence[str]:
        return files(store_path(url))

    def is_there(self, url: str) -> bool:
        return os.path.lexists(store_path(url))

    def copied(
        self, url: str, chain_hash: ChainHash, now: Callable[[], float], alone: bool
    ) -> AbstractContextManager[SqliteCopy]:
        return SqliteCopies(store_path(url), chain_hash, now).copied(alone)

    def filled(
        self, url: str, chain_hash: ChainHash, now: Callable[[], float]
    ) -> AbstractContextManager[SqliteFilling]:
        return SqliteCopies(store_path(url), chain_hash, now).filled(self._migrations())

    def open_memory(self, needs: StoreNeeds, binary_version: str = "memory") -> MemoryStore:
        """A migrated store in memory, for tests and rehearsals; its ledger knows no times."""
        connection = open_memory()
        with closing(open_memory()) as image:
            image.deserialize(_image(self.folder(), binary_version))
            image.backup(connection)
        return MemoryStore.over(connection, needs)

    def _migrate(
        self,
        path: str,
        migrations: tuple[Migration, ...],
        binary_version: str,
        now: Callable[[], float],
    ) -> MigrationReport:
        try:
            connection = open_writer(path)
        except sqlite3.Error as error:
            raise unavailable(error, "migrate") or error from error
        try:
            return _apply(connection, migrations, binary_version, now)
        except sqlite3.Error as error:
            raise unavailable(error, "migrate") or error from error
        finally:
            connection.close()

    def _migrations(self) -> tuple[Migration, ...]:
        return discover(self.folder(), SCHEME)


@lru_cache(maxsize=2)
def _image(folder: Path, version: str) -> bytes:
    """An empty store; made once, because a process that wants one in memory wants many."""
    with closing(open_memory()) as connection:
        _apply(connection, discover(folder, SCHEME), version, lambda: 0.0)
        return connection.serialize()


def _apply(
    connection: sqlite3.Connection,
    migrations: tuple[Migration, ...],
    version: str,
    now: Callable[[], float],
) -> MigrationReport:
    database = SqliteDatabase(connection)
    return apply_pending(database, migrations, lambda: read_ledger(connection), version, now)
