"""Copying a SQLite store, and filling one: what the journal holds is read with it.

A copy is read by SQLite itself, so commits that are only in ``-wal`` are in it; a
store is filled in a file beside its place, which a rename brings there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, Malformed, StoreUnavailable
from svc.interfaces.copies import CopyHead, IStoreCopy, IStoreFilling
from svc.interfaces.store import ChainHash, ITransaction
from svc.model.canonical import Json
from svc.runtime import durable
from svc.store.copy.fill import fill
from svc.store.copy.lines import BATCH, BYTES, INT, REAL, TEXT, CopyWriter, Table
from svc.store.engine.lock import FileLock, holder, take_lock
from svc.store.migrate import LEDGER, Migration
from svc.store.sql.statements import Row, Statements
from svc.store.sql.transaction import Transaction
from svc.store.sqlite.connection import (
    SqliteDatabase,
    SqliteStatements,
    open_filling,
    open_reader,
    open_still,
    read_ledger,
    unavailable,
)
from svc.store.sqlite.location import SCHEME, create_private, lock_path, require_private

STAGED = ".restoring"
_KINDS = {"INTEGER": INT, "REAL": REAL, "TEXT": TEXT, "BLOB": BYTES}


def files(path: str) -> tuple[str, ...]:
    """The store's file, SQLite's extra files, the lock, and files that a restore may leave."""
    staged = path + STAGED
    return (
        path,
        *(f"{path}-{word}" for word in ("wal", "shm", "journal")),
        lock_path(path),
        staged,
        *(f"{staged}-{word}" for word in ("wal", "shm", "journal")),
    )


def tables(connection: sqlite3.Connection) -> list[Table]:
    """Every table; derived columns are left out."""
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%'"
        " ESCAPE '~' ORDER BY name"
    ).fetchall()
    return [_table(connection, name) for (name,) in names]


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = [
        (column, kind, key)
        for _, column, kind, _, _, key, hidden in connection.execute(f"PRAGMA table_xinfo({name})")
        if not hidden
    ]
    unknown = {kind for _, kind, _ in columns} - _KINDS.keys()
    if unknown:
        raise Malformed(
            f"store: {name}: a column has the unsupported type {', '.join(sorted(unknown))}"
        )
    parents = {row[2] for row in connection.execute(f"PRAGMA foreign_key_list({name})")}
    keys = sorted((key, column) for column, _, key in columns if key)
    return Table(
        name=name,
        columns=tuple(column for column, _, _ in columns),
        kinds=tuple(_KINDS[kind] for _, kind, _ in columns),
        key=tuple(column for _, column in keys),
        parents=frozenset(parents),
    )


@implementer(IStoreCopy)
@define
class SqliteCopy:
    """See :class:`IStoreCopy`."""

    _connection: sqlite3.Connection
    _chain_hash: ChainHash
    dialect: str = SCHEME
    rows: Mapping[str, int] = field(factory=dict)
    statements: Statements = field(init=False)
    tx: ITransaction = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.statements = SqliteStatements(self._connection)
        self.tx = Transaction(self.statements, self._chain_hash)

    def lines(self, stamp: Json) -> Iterator[bytes]:
        writer = CopyWriter(self, read_ledger(self._connection))
        self.rows = writer.rows
        try:
            yield from writer.lines(stamp)
        except sqlite3.Error as error:
            raise unavailable(error, "backup") or error from error

    def tables(self) -> Iterable[Table]:
        """See :class:`CopiedFrom`."""
        return tables(self._connection)

    def stream(self, sql: str) -> Iterator[Sequence[Row]]:
        """See :class:`CopiedFrom`."""
        cursor = self._connection.execute(sql)
        while rows := cursor.fetchmany(BATCH):
            yield rows


@implementer(IStoreFilling)
@define
class SqliteFilling:
    """See :class:`IStoreFilling`."""

    _connection: sqlite3.Connection
    _migrations: Sequence[Migration]
    _chain_hash: ChainHash
    _path: str
    dialect: str = SCHEME
    ledger: str = LEDGER
    statements: Statements = field(init=False)
    tx: ITransaction = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.statements = SqliteDatabase(self._connection)
        self.tx = Transaction(self.statements, self._chain_hash)

    def fill(self, lines: Iterable[bytes]) -> CopyHead:
        try:
            head = fill(self, lines, self._migrations)
            wrong = self._connection.execute("PRAGMA foreign_key_check").fetchone()
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            raise Malformed(f"store copy: a row does not fit its table: {error}") from None
        except sqlite3.Error as error:
            raise unavailable(error, "restore") or error from error
        if wrong is not None:
            raise Malformed(f"store copy: a row of {wrong[0]} refers to a row that does not exist")
        return head

    def tables(self) -> Iterable[Table]:
        """See :class:`FilledInto`."""
        return tables(self._connection)

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """See :class:`FilledInto`."""
        marks = ", ".join("?" * len(table.columns))
        self._connection.executemany(
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({marks})", rows
        )

    def commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise unavailable(error, "restore") or error from error
        self._connection.close()
        staged = self._path + STAGED
        try:
            _sync(staged, os.O_RDWR)
            durable.move(Path(staged), Path(self._path))
        except OSError as error:
            raise StoreUnavailable(f"store: cannot write {self._path}: {error.strerror}") from None


@frozen
class SqliteCopies:
    """Copies of the stores of one factory."""

    path: str
    chain_hash: ChainHash
    now: Callable[[], float]

    @contextmanager
    def copied(self, alone: bool) -> Iterator[SqliteCopy]:
        """See :class:`IStoreCopies`."""
        if not os.path.exists(self.path):
            raise StoreUnavailable(f"store: {self.path} does not exist")
        lock = self._lock("backing up")
        if lock is None and alone:
            raise self._in_use()
        try:
            # With nobody writing and no journal left, reading need not make one.
            still = lock is not None and not os.path.exists(self.path + "-wal")
            with _closing((open_still if still else open_reader)(self.path)) as connection:
                connection.execute("BEGIN")
                yield SqliteCopy(connection, self.chain_hash)
        finally:
            if lock is not None:
                lock.release()

    @contextmanager
    def filled(self, migrations: Sequence[Migration]) -> Iterator[SqliteFilling]:
        """See :class:`IStoreCopies`."""
        require_private(self.path)
        lock = self._lock("restoring")
        if lock is None:
            raise self._in_use()
        try:
            if any(os.path.lexists(self.path + word) for word in ("", "-wal", "-journal")):
                raise AlreadyExists(f"store: {self.path} already contains a store")
            self._clear()
            create_private(self.path + STAGED)
            with _closing(open_filling(self.path + STAGED)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield SqliteFilling(
                    connection=connection,
                    migrations=migrations,
                    chain_hash=self.chain_hash,
                    path=self.path,
                )
        finally:
            self._clear()
            lock.release()

    def _lock(self, purpose: str) -> FileLock | None:
        place = lock_path(self.path)
        is_new = not os.path.exists(place)
        lock = take_lock(place, purpose, self.now)
        if is_new and os.geteuid() == 0:
            # Root looks after a store that is somebody's: the lock must be that one's to open.
            owner = os.stat(os.path.dirname(self.path))
            os.chown(place, owner.st_uid, owner.st_gid)
        return lock

    def _in_use(self) -> StoreUnavailable:
        who = holder(lock_path(self.path))
        return StoreUnavailable(
            f"store: {self.path} is in use: {who} writes to it", reason="store_in_use"
        )

    def _clear(self) -> None:
        for each in files(self.path):
            if Path(each).name.startswith(Path(self.path + STAGED).name):
                Path(each).unlink(missing_ok=True)


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    finally:
        connection.close()


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
