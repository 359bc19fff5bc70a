"""SQLite connections: how they are opened and used, and how their errors read.

Every writing connection is WAL with ``synchronous=FULL``: what was committed
is on the disk.  Transactions are begun and ended by the callers; the driver
begins none by itself (``isolation_level=None``).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from attrs import define, frozen

from svc.errors import StoreFull, StoreUnavailable
from svc.model.store.migration import AppliedMigration
from svc.runtime import durable
from svc.store.sql.schema import Schema
from svc.store.sql.statements import Row, storable
from svc.store.sqlite.location import file_uri

T = TypeVar("T")

BUSY_MILLISECONDS = 5000
_OF_THE_DATABASE = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)

_MAY_BE_FULL = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
"""Errors that SQLite answers for want of room too: of a quota and a file size limit always."""
_IN_A_WRITE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE})
"""Errors of a call that writes.  A commit's last call that writes is that of its mark in the
``-wal``, without which it is none."""
WHOSE = "the Authority"


@frozen
class StoreFile:
    """What is known of the disk under a store that failed.

    Attributes:
        path: The store file; empty for a store in memory.
    """

    path: str = ""

    def is_full(self, error: Exception) -> bool:
        """Whether *error* is for want of room; blocks."""
        if isinstance(error, StoreFull) or durable.is_full(error):
            return True
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if self.path and code in _MAY_BE_FULL:
            try:
                durable.try_room(Path(self.path).parent)
            except OSError as refused:
                return durable.is_full(refused)
        return code == sqlite3.SQLITE_FULL

    def refusal(self, error: sqlite3.Error, desc: str) -> StoreUnavailable | None:
        """The error for the caller if the database failed; None for a bug in svc."""
        if self.is_full(error):
            return StoreFull.on(WHOSE)
        return unavailable(error, desc)


NO_FILE = StoreFile()


def is_undone(error: sqlite3.Error) -> bool:
    """Whether a commit that failed so left nothing."""
    return getattr(error, "sqlite_errorcode", None) in _IN_A_WRITE


@frozen
class SqliteStatements:
    """:class:`Statements` over one connection."""

    connection: sqlite3.Connection

    def one(self, sql: str, *values: object) -> Row | None:
        """See :class:`Statements`."""
        if values:
            storable(values)
        rows = self.connection.execute(sql, values).fetchall()
        return rows[0] if rows else None

    def all(self, sql: str, *values: object) -> list[Row]:
        """See :class:`Statements`."""
        if values:
            storable(values)
        return self.connection.execute(sql, values).fetchall()

    def change(self, sql: str, *values: object) -> int:
        """See :class:`Statements`."""
        if values:
            storable(values)
        return self.connection.execute(sql, values).rowcount

    def write(self, sql: str, *values: object) -> None:
        """See :class:`Statements`."""
        if values:
            storable(values)
        self.connection.execute(sql, values)

    def raw(self, column: str) -> str:
        """See :class:`Statements`.  SQLite keeps text that is no UTF-8, and any type anywhere."""
        return f"CAST({column} AS BLOB)"

    def member(self, column: str, name: str) -> str:
        """See :class:`Statements`."""
        return f"json_extract({column}, '$.{name}')"


@frozen
class SqliteDatabase(SqliteStatements):
    """A connection that migrations are applied over."""

    def begin(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """See :class:`svc.store.migrate.Database`."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")


def read_ledger(connection: sqlite3.Connection) -> tuple[AppliedMigration, ...]:
    """The applied migrations; none where there is no ledger yet."""
    statements = SqliteStatements(connection)
    there = statements.one("SELECT 1 FROM sqlite_master WHERE name = 'svc_migrations'")
    return () if there is None else Schema(statements).applied()


def open_writer(path: str) -> sqlite3.Connection:
    """Open for writing; the file must be there and ours."""
    connection = _connect(file_uri(path, "mode=rw"))
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def open_reader(path: str) -> sqlite3.Connection:
    """Open to look at only; an attempt to write fails."""
    return _connect(file_uri(path, "mode=ro"))


def open_still(path: str) -> sqlite3.Connection:
    """Open a file that nobody writes and that has no journal; creates no other file."""
    return _connect(file_uri(path, "mode=ro&immutable=1"))


def open_filling(path: str) -> sqlite3.Connection:
    """Open a new file to be filled at once and thrown away should that fail.

    Nothing of it is durable before its maker syncs it; references are checked at the end.
    """
    connection = _connect(file_uri(path, "mode=rw"))
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def open_memory() -> sqlite3.Connection:
    """A store that is gone with its connection."""
    connection = _connect("file::memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _connect(uri: str) -> sqlite3.Connection:
    """Connections move to the thread that uses them, one thread at a time."""
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
    return connection


def unavailable(error: sqlite3.Error, desc: str) -> StoreUnavailable | None:
    """The refusal for a fault of the database; None for a fault of ours."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code & 0xFF not in _OF_THE_DATABASE:
        return None
    return StoreUnavailable(f"store: {desc}: {error}; nothing was written")


@define
class SqliteReader:
    """Reads a store file without creating any other file.

    Beside a live writer the file has a ``-wal``: SQLite's read-only mode takes
    part in its locking and creates nothing.  With every role stopped there is
    none, and that mode would create one; then the file is read as immutable,
    and read again should a writer have come in between.
    """

    path: str
    _attempts: int = 5

    def look(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Run *fn* over one consistent snapshot.

        Raises:
            StoreUnavailable: there is no file, or writers came and went all the time.
            sqlite3.Error: as *fn* or the database raised it.
        """
        for _ in range(self._attempts):
            if os.path.exists(self.path + "-wal"):
                return self._once("mode=ro", fn)
            before = self._stamp()
            try:
                result = self._once("mode=ro&immutable=1", fn)
            except Exception:
                # Whatever it says may come from pages of two different moments.
                if self._stamp() == before:
                    raise
                continue
            if self._stamp() == before:
                return result
        raise StoreUnavailable(f"store: {self.path} changed during every attempt to read it")

    def _once(self, query: str, fn: Callable[[sqlite3.Connection], T]) -> T:
        connection = _connect(file_uri(self.path, query))
        try:
            connection.execute("BEGIN")
            return fn(connection)
        finally:
            connection.close()

    def _stamp(self) -> tuple[int, int, bool]:
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise StoreUnavailable(f"store: {self.path}: {error.strerror}") from None
        return found.st_mtime_ns, found.st_size, os.path.exists(self.path + "-wal")
