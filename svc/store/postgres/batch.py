"""Runs jobs on PostgreSQL: many writes in one commit, or one read at a time.

Nothing here knows threads: a batch runs in whatever thread calls it, and
leaves each job's outcome in the job.

A batch is first run as one: no savepoints, and writes that nobody asks about go
to the server together.  If anything in it fails, all of it is undone and run
again with care, each job in a savepoint, so that only what failed is undone.

The invariants of writing: an outcome that is no failure is left only after the
server confirmed the commit that holds its writes; and one transaction writes at
a time among all processes (the lock ``WRITING``, taken before anything is read),
so that a chain has one next link, whoever appends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import psycopg2
from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import RecordLost, StoreUnavailable, SvcError
from svc.interfaces.crash import CrashPoint
from svc.interfaces.store import ChainHash
from svc.store.engine.threaded import Job
from svc.store.postgres.connect import LOCKS, WRITING, PostgresDialer
from svc.store.postgres.connection import (
    PostgresConnection,
    PostgresStatements,
    can_be_retried,
    error_text,
    full,
    refusal,
)
from svc.store.sql.audit import Appended, HeadMemory
from svc.store.sql.transaction import Transaction

ATTEMPTS = 4
_BEGIN = (
    # Not a stricter isolation: its snapshot would be older than the lock.
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    f"SELECT pg_advisory_xact_lock({LOCKS}, {WRITING})"
)
_LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
# A timeout in a commit that waits for a standby would end the waiting and report success.
_COMMIT = "SET LOCAL statement_timeout = 0;COMMIT"
_KEY = re.compile(r"\(seq\)=\(([0-9]{1,18})\)")
_log = Logger(namespace="svc_store")


class _GivenUp(Exception):
    """The database undid a transaction that it was to commit; nothing of it was kept."""


class _RetryOneByOne(Exception):
    """A job of a batch that was run as one failed, or its caller went away."""


@define(eq=False)
class PostgresWriteBatch:
    """Group commit: many jobs, one durable commit for all of them.

    Args:
        seconds: The clock of the deadlines.
        limit: What a batch may take, in seconds, its repetitions included.
    """

    _connector: PostgresDialer
    _chain_hash: ChainHash
    _crash_point: CrashPoint
    _seconds: Callable[[], float]
    _limit: float
    _db: PostgresStatements | None = field(init=False, default=None)
    _transaction: Transaction | None = field(init=False, default=None)
    _head: HeadMemory = field(init=False, factory=HeadMemory)
    _appended: Appended = field(init=False, factory=Appended)

    @property
    def _connection(self) -> PostgresConnection | None:
        return None if self._db is None else self._db.connection

    def perform(self, jobs: Sequence[Job]) -> None:
        """Run *jobs*; each has its outcome when this returns.  Never raises."""
        claimed = [job for job in jobs if job.claim()]
        by, careful = self._seconds() + self._limit, False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._once(claimed, by, careful)
                return
            except _RetryOneByOne:
                careful = True
            except (psycopg2.Error, OSError, SvcError, _GivenUp) as error:
                again = can_be_retried(error, self._connection) and self._seconds() < by
                self.close()
                if attempt == ATTEMPTS or not again:
                    self._fail(claimed, error)
                    return
            for job in claimed:
                job.unseal()
        self._fail(claimed, StoreUnavailable("store: interrupted repeatedly"))

    def adopt(self, connection: PostgresConnection) -> None:
        """Write over *connection*, which has the locks of :meth:`PostgresDialer.to_write`."""
        self._db = PostgresStatements(connection)
        self._transaction = Transaction(
            db=self._db, chain_hash=self._chain_hash, head=self._head, appended=self._appended
        )

    def close(self) -> None:
        """Close the connection.  Idempotent."""
        db, self._db, self._transaction = self._db, None, None
        if db is not None:
            db.connection.close()

    def _once(self, jobs: Sequence[Job], by: float, careful: bool) -> None:
        db = self._begin(by, careful)
        if careful:
            # Savepoints by name: what undoes one job can never undo its neighbour.
            kept = [job for number, job in enumerate(jobs) if self._alone(db, job, f"job{number}")]
        else:
            kept = self._together(db, jobs)
        if kept:
            self._commit(db, kept, careful)
        else:
            self._roll_back(db)

    def _begin(self, by: float, careful: bool) -> PostgresStatements:
        if self._db is None:
            self.adopt(self._connector.to_write(by))
        db = self._db
        assert db is not None, "adopt made it"
        db.connection.deadline, db.ahead, db.holds = by, "", not careful
        self._head.head = None
        self._appended.undo(0)
        if careful:
            db.connection.ask(_BEGIN)
        else:
            db.ahead = f"{_BEGIN};"
        return db

    def _together(self, db: PostgresStatements, jobs: Sequence[Job]) -> list[Job]:
        """Run all of *jobs*; those whose writes are to be kept.

        Raises:
            _RetryOneByOne: one failed, and others are not to suffer for it; all is undone.
        """
        assert self._transaction is not None, "_begin made it"
        for job in jobs:
            try:
                job.outcome = job.fn(self._transaction)
                self._require_usable(db)
            except BaseException as error:
                if can_be_retried(error, db.connection) or db.connection.is_lost:
                    raise
                if len(jobs) == 1 and not isinstance(error, psycopg2.Error):
                    job.outcome = Failure(error)
                    return []
                raise self._undone(db) from None
            if not job.seal():
                raise self._undone(db)
        return list(jobs)

    def _alone(self, db: PostgresStatements, job: Job, name: str) -> bool:
        """Run one job in its savepoint; whether its writes are to be kept."""
        assert self._transaction is not None, "_begin made it"
        db.connection.ask(f"SAVEPOINT {name}")
        before = len(self._appended.links)
        try:
            job.outcome = job.fn(self._transaction)
            self._require_usable(db)
            if job.seal():
                db.connection.ask(f"RELEASE SAVEPOINT {name}")
                return True
            job.outcome = None
        except BaseException as error:
            if can_be_retried(error, db.connection) or db.connection.is_lost:
                raise
            job.outcome = self._not_written(job.desc, error)
        self._head.head = None
        self._appended.undo(before)
        db.connection.ask(f"ROLLBACK TO SAVEPOINT {name};RELEASE SAVEPOINT {name}")
        return False

    def _undone(self, db: PostgresStatements) -> _RetryOneByOne:
        self._roll_back(db)
        return _RetryOneByOne()

    def _roll_back(self, db: PostgresStatements) -> None:
        db.ahead = ""
        if db.connection.in_transaction:
            db.connection.ask("ROLLBACK")

    def _require_usable(self, db: PostgresStatements) -> None:
        """A job may have caught the error that failed its transaction, or lost it."""
        if db.connection.is_lost:
            raise psycopg2.OperationalError("the connection was lost")
        if db.connection.has_failed:
            raise SvcError(
                "store: a statement failed, but its function continued; nothing was written"
            )

    def _commit(self, db: PostgresStatements, kept: Sequence[Job], careful: bool) -> None:
        connection = db.connection
        assert self._transaction is not None, "_begin made it"
        try:
            self._appended.require_kept(self._transaction.audit)
        except RecordLost as lost:
            self._roll_back(db)
            for job in kept:
                job.outcome = Failure(RecordLost(lost.text))
            return
        except psycopg2.Error as error:
            # Of a write that had gone ahead; one after the other, it is told of its own job.
            if careful or connection.is_lost or can_be_retried(error, connection):
                raise
            raise self._undone(db) from None
        self._crash_point("before_commit")
        del connection.notices[:]
        try:
            answer = db.send(_COMMIT).statusmessage
        except psycopg2.Error as error:
            if error.pgcode is not None and not connection.is_lost:
                # The server says that it undid it: for a write that had gone ahead, perhaps.
                if careful or can_be_retried(error, connection):
                    raise
                raise self._undone(db) from None
            self._unknown(kept, error_text(error, self._connector.place))
            return
        if answer != "COMMIT":
            raise _GivenUp("the database rolled a transaction back instead of committing it")
        if connection.notices:
            # It waited for a standby and was told to wait no longer.
            self._unknown(kept, "the server warned that the commit may not last")
            return
        self._crash_point("after_commit")

    def _unknown(self, jobs: Sequence[Job], why: str) -> None:
        _log.error("store commit failed", reason=why, jobs=len(jobs))
        self.close()
        for job in jobs:
            refused = StoreUnavailable(
                f"store: {job.desc}: the commit failed; it is unknown whether the data was written",
                reason="store_outcome_unknown",
            )
            job.outcome = Failure(refused)

    def _not_written(self, desc: str, error: BaseException) -> Failure:
        if (
            isinstance(error, psycopg2.errors.ForeignKeyViolation)
            and error.diag.table_name == "personal_values"
            and self._appended.links
        ):
            # They go in right behind their records, of which one is not there any more.
            named = _KEY.search(error.diag.message_detail or "")
            seq = self._appended.links[-1].seq if named is None else int(named[1])
            return Failure(RecordLost.at(seq))
        if isinstance(error, psycopg2.Error):
            return Failure(refusal(error, self._connector.place, desc))
        return Failure(error)

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        why = str(error)
        if isinstance(error, psycopg2.Error):
            why = error_text(error, self._connector.place)
        _log.error("store transaction failed", reason=why, jobs=len(jobs))
        for job in jobs:
            if isinstance(job.outcome, Failure):
                continue
            no_room = full(error)
            if no_room is not None:
                job.outcome = Failure(no_room)
            elif isinstance(error, SvcError) and not isinstance(error, StoreUnavailable):
                job.outcome = Failure(error)  # the store is not of this build: said as it is
            else:
                cause = why.removeprefix("store: ")
                refused = StoreUnavailable(f"store: {job.desc}: {cause}; nothing was written")
                job.outcome = Failure(refused)


@define(eq=False)
class PostgresReadBatch:
    """One snapshot a job, over a connection that refuses to write."""

    _connector: PostgresDialer
    _chain_hash: ChainHash
    _seconds: Callable[[], float]
    _limit: float
    _connection: PostgresConnection | None = field(init=False, default=None)

    def perform(self, jobs: Sequence[Job]) -> None:
        """Run *jobs*; each has its outcome when this returns.  Never raises."""
        for job in jobs:
            if job.claim():
                self._run_one(job)

    def close(self) -> None:
        """Close the connection.  Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run_one(self, job: Job) -> None:
        by = self._seconds() + self._limit
        for attempt in range(1, ATTEMPTS + 1):
            try:
                job.outcome = self._look(job, by)
                return
            except BaseException as error:
                again = can_be_retried(error, self._connection) and self._seconds() < by
                if isinstance(error, psycopg2.Error):
                    self.close()
                if attempt == ATTEMPTS or not again:
                    job.outcome = self._failure(job, error)
                    return

    def _look(self, job: Job, by: float) -> object:
        if self._connection is None:
            self._connection = self._connector.to_read(by)
        self._connection.deadline = by
        return look(self._connection, job.fn, self._chain_hash)

    def _failure(self, job: Job, error: BaseException) -> Failure:
        if isinstance(error, psycopg2.Error):
            return Failure(refusal(error, self._connector.place, job.desc))
        return Failure(error)


def look(
    connection: PostgresConnection, fn: Callable[[Transaction], object], chain_hash: ChainHash
) -> object:
    """Run *fn* over one snapshot.

    Raises:
        psycopg2.Error: the database's, or the connection's.
    """
    statements = PostgresStatements(connection, ahead=_LOOK)
    try:
        return fn(Transaction(statements, chain_hash))
    finally:
        if connection.in_transaction:
            connection.ask("ROLLBACK")
