"""SQLite stores: a file with two threads, one in memory, and a read-only file.

All three keep the promises of ``svc.interfaces.store``; they differ only in
where a batch of jobs runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer

from svc.interfaces.crash import CrashPoint
from svc.interfaces.store import ChainHash, IReadOnlyStore, IStore, ITransaction, StoreNeeds
from svc.store.engine.lock import FileLock
from svc.store.engine.threaded import Job, ThreadedStore, Worker, closed
from svc.store.sql.transaction import Transaction
from svc.store.sqlite.batch import ReadBatch, WriteBatch
from svc.store.sqlite.connection import SqliteReader, SqliteStatements, StoreFile, unavailable

T = TypeVar("T")


def file_store(
    lock: FileLock,
    needs: StoreNeeds,
    open_to_write: Callable[[], sqlite3.Connection],
    open_to_read: Callable[[], sqlite3.Connection],
    file: StoreFile,
) -> ThreadedStore:
    """One store file, written by one thread and read by another.

    Called with the lock held, which is let go when both threads have ended; the
    connections are opened when first needed.
    """
    writing = WriteBatch(
        reopen=open_to_write, chain_hash=needs.chain_hash, crash_point=needs.crash_point, file=file
    )
    reading = ReadBatch(open_to_read, needs.chain_hash, file=file)
    writer = Worker(writing, needs.call_from_thread, needs.crash_point)
    reader = Worker(reading, needs.call_from_thread, _nothing)
    writer.start("svc-store-writer")
    reader.start("svc-store-reader")
    return ThreadedStore(needs=needs, writer=writer, reader=reader, release=lock.release)


@implementer(IStore)
@define(eq=False)
class MemoryStore:
    """The same store over ``:memory:``; every call has its answer at once."""

    _writing: WriteBatch
    _reading: ReadBatch
    _crash_point: CrashPoint
    _closed: bool = field(init=False, default=False)

    @classmethod
    def over(cls, connection: sqlite3.Connection, needs: StoreNeeds) -> MemoryStore:
        """A store over a migrated connection, which it closes."""
        writing = WriteBatch(lambda: connection, needs.chain_hash, needs.crash_point)
        reading = ReadBatch(lambda: connection, needs.chain_hash, shared=True)
        return cls(writing, reading, needs.crash_point)

    async def run(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return await self._ask(self._writing, desc, fn)

    async def read(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        return await self._ask(self._reading, desc, fn)

    async def close(self) -> None:
        self._closed = True
        self._reading.close()
        self._writing.close()

    async def _ask(
        self, batch: WriteBatch | ReadBatch, desc: str, fn: Callable[[ITransaction], T]
    ) -> T:
        if self._closed:
            raise closed(desc)
        job = Job(desc, fn, Deferred())
        batch.perform([job])
        if batch is self._writing:
            self._crash_point("before_answer")
        job.deliver()
        return cast(T, await job.answer)


@implementer(IReadOnlyStore)
@define(eq=False)
class ReadOnlySqliteStore:
    """A store file that is only looked at, in the calling thread."""

    _reader: SqliteReader
    _chain_hash: ChainHash

    async def read(self, desc: str, fn: Callable[[ITransaction], T]) -> T:
        try:
            return self._reader.look(
                lambda connection: fn(Transaction(SqliteStatements(connection), self._chain_hash))
            )
        except sqlite3.Error as error:
            raise unavailable(error, desc) or error from error

    async def close(self) -> None:
        """See :class:`IReadOnlyStore`.  Nothing is held between two reads."""


def _nothing(point: str) -> None:
    """A reader has no point at which a crash could matter."""
