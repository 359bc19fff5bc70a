"""Runs jobs on a connection: many writes in one commit, or one read at a time.

Nothing here knows threads: a batch runs in whatever thread calls it, and
leaves each job's outcome in the job.

The invariant of writing: an outcome that is no failure is left only after the
commit that holds its writes has returned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import RecordLost, StoreFull, StoreUnavailable
from svc.interfaces.crash import CrashPoint
from svc.interfaces.store import ChainHash
from svc.store.engine.threaded import Job
from svc.store.sql.audit import Appended, HeadMemory
from svc.store.sql.transaction import Transaction
from svc.store.sqlite.connection import NO_FILE, WHOSE, SqliteStatements, StoreFile, is_undone

_log = Logger(namespace="svc_store")


def _outcome_unknown(desc: str, is_full: bool) -> Failure:
    why = f"the disk of {WHOSE} is full" if is_full else "the commit failed"
    return Failure(
        StoreUnavailable(
            f"store: {desc}: {why}; it is unknown whether the data was written",
            reason="store_outcome_unknown",
        )
    )


def _not_written(desc: str, error: BaseException, file: StoreFile) -> Failure:
    """What a job's caller is told; a fault of ours stays what it is."""
    refused = file.refusal(error, desc) if isinstance(error, sqlite3.Error) else None
    return Failure(refused or error)


def _given_up(job: Job) -> StoreUnavailable:
    """Why nothing of a batch is written in which *job* failed."""
    if isinstance(job.outcome, Failure) and isinstance(job.outcome.value, StoreFull):
        return StoreFull.on(WHOSE)
    return StoreUnavailable("store: the database rolled a transaction back")


@define
class WriteBatch:
    """Group commit: a savepoint a job, one durable commit for all of them.

    A job that is alone needs none: what undoes it undoes the transaction.

    ``reopen`` gives a fresh, checked connection; it is asked for at the first
    batch and again after the database failed.
    """

    _reopen: Callable[[], sqlite3.Connection]
    _chain_hash: ChainHash
    _crash_point: CrashPoint
    _file: StoreFile = NO_FILE
    _connection: sqlite3.Connection | None = field(init=False, default=None)
    _transaction: Transaction | None = field(init=False, default=None)
    _head: HeadMemory = field(init=False, factory=HeadMemory)
    _appended: Appended = field(init=False, factory=Appended)

    def perform(self, jobs: Sequence[Job]) -> None:
        """Run *jobs*; each has its outcome when this returns.  Never raises."""
        claimed = [job for job in jobs if job.claim()]
        try:
            connection = self._begin()
        except (sqlite3.Error, OSError, StoreUnavailable) as error:
            self._fail(claimed, error)
            return
        kept, is_alone = [], len(claimed) == 1
        try:
            for job in claimed:
                if self._run_one(connection, job, is_alone=is_alone):
                    kept.append(job)
                elif not connection.in_transaction:
                    # SQLite gave up the whole transaction (disk full, I/O error).
                    raise _given_up(job)
            if is_alone and not kept:
                connection.execute("ROLLBACK")
                return
        except (sqlite3.Error, StoreUnavailable) as error:
            self._fail(claimed, error)
            return
        self._commit(connection, kept)

    def close(self) -> None:
        """Close the connection.  Idempotent."""
        connection, self._connection, self._transaction = self._connection, None, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                _log.warn("store connection did not close", reason=str(error))

    def _begin(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._reopen()
            self._transaction = Transaction(
                SqliteStatements(self._connection),
                self._chain_hash,
                head=self._head,
                appended=self._appended,
            )
        self._forget(0)
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def _run_one(self, connection: sqlite3.Connection, job: Job, *, is_alone: bool) -> bool:
        """Run one job, in its savepoint unless it is alone; whether its writes are to be kept."""
        assert self._transaction is not None, "_begin made it"
        before = len(self._appended.links)
        try:
            if not is_alone:
                connection.execute("SAVEPOINT job")
            job.outcome = job.fn(self._transaction)
            if job.seal():
                if not is_alone:
                    connection.execute("RELEASE job")
                return True
            job.outcome = None
        except BaseException as error:
            job.outcome = _not_written(job.desc, self._lost(error) or error, self._file)
        self._forget(before)
        if connection.in_transaction and not is_alone:
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        return False

    def _forget(self, kept: int) -> None:
        """What was appended after the first *kept* links is undone, or of another transaction."""
        self._appended.undo(kept)
        self._head.head = None

    def _lost(self, error: BaseException) -> RecordLost | None:
        """A row that another one refers to, and that was there a moment ago."""
        assert self._transaction is not None, "_begin made it"
        if isinstance(error, sqlite3.IntegrityError):
            try:
                self._appended.require_kept(self._transaction.audit)
            except RecordLost as lost:
                return lost
            except sqlite3.Error:
                pass  # the first error is the one that is told
        return None

    def _commit(self, connection: sqlite3.Connection, kept: Sequence[Job]) -> None:
        assert self._transaction is not None, "_begin made it"
        try:
            self._appended.require_kept(self._transaction.audit)
        except RecordLost as lost:
            self.close()  # which undoes the transaction
            for job in kept:
                job.outcome = Failure(RecordLost(lost.text))
            return
        except sqlite3.Error as error:
            for job in kept:
                job.outcome = None
            self._fail(kept, error)
            return
        self._crash_point("before_commit")
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            _log.error(
                "store commit failed", reason=str(error), jobs=len(kept), file=self._file.path
            )
            self.close()
            is_full = self._file.is_full(error)
            for job in kept:
                if is_full and is_undone(error):
                    job.outcome = Failure(StoreFull.on(WHOSE))
                else:
                    job.outcome = _outcome_unknown(job.desc, is_full)
            return
        self._crash_point("after_commit")

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        _log.error(
            "store transaction failed", reason=str(error), jobs=len(jobs), file=self._file.path
        )
        self.close()
        is_full = self._file.is_full(error)
        for job in jobs:
            if isinstance(job.outcome, Failure):
                continue
            if is_full:
                job.outcome = Failure(StoreFull.on(WHOSE))
            else:
                refusal = StoreUnavailable(f"store: {job.desc}: {error}; nothing was written")
                job.outcome = Failure(refusal)


@define
class ReadBatch:
    """One snapshot a job, over a connection that refuses to write.

    ``shared`` says that a writer uses the same connection (the memory store):
    then it refuses to write only while a job looks, and is not closed here.
    """

    _reopen: Callable[[], sqlite3.Connection]
    _chain_hash: ChainHash
    _shared: bool = False
    _file: StoreFile = NO_FILE
    _connection: sqlite3.Connection | None = field(init=False, default=None)

    def perform(self, jobs: Sequence[Job]) -> None:
        """Run *jobs*; each has its outcome when this returns.  Never raises."""
        for job in jobs:
            if job.claim():
                self._run_one(job)

    def close(self) -> None:
        """Close the connection unless a writer shares it.  Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None and not self._shared:
            connection.close()

    def _run_one(self, job: Job) -> None:
        try:
            if self._connection is None:
                self._connection = self._reopen()
            job.outcome = self._look(self._connection, job)
        except BaseException as error:
            job.outcome = _not_written(job.desc, error, self._file)
            if isinstance(error, sqlite3.Error):
                self.close()

    def _look(self, connection: sqlite3.Connection, job: Job) -> object:
        if self._shared:
            connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        try:
            return job.fn(Transaction(SqliteStatements(connection), self._chain_hash))
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if self._shared:
                connection.execute("PRAGMA query_only = OFF")
