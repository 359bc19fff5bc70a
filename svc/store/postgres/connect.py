"""Opens a connection to a PostgreSQL store: settings, checks and locks.

Two advisory locks exist in a store's database.  ``SERVING`` belongs to sessions:
every process that writes holds it shared, whoever migrates holds it alone; so
nobody writes to a schema that changes, and a killed holder frees it.  ``WRITING``
belongs to transactions: one writes at a time, among all processes, and what it
reads is what will stand when it commits.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg2
from attrs import define, field

from svc.errors import StoreUnavailable, SvcError
from svc.model.store.migration import AppliedMigration, MigrationStatus
from svc.runtime.backoff import Backoff
from svc.store.postgres.connection import (
    RETRY_SECS,
    PostgresConnection,
    PostgresStatements,
    refusal,
)
from svc.store.postgres.url import DatabasePlace
from svc.store.sql.schema import Schema
from svc.store.sql.statements import Statements

LOCKS = 0x53564331
"""The first key of every lock of ours ("SVC1"); locks are the database's own, not the server's."""
SERVING = 1
WRITING = 2
LEDGER = (
    'CREATE TABLE IF NOT EXISTS svc_migrations (id TEXT COLLATE "C" PRIMARY KEY,'
    " checksum TEXT NOT NULL, applied_at DOUBLE PRECISION NOT NULL, binary_version TEXT NOT NULL)"
)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
_OLDEST = 120_000
_LOCK_SHARE = 0.8
"""Of a transaction's time: so much may be spent on waiting for another writer."""


def settle(connection: PostgresConnection, secs: float) -> None:
    """Give a new connection its settings, and see whether a store can be kept over it.

    Args:
        secs: What a transaction may take.

    Raises:
        StoreUnavailable: a pooler stands between, or the database is of a kind that
            cannot keep a store.
    """
    whole, lock = int(secs * 1000), int(secs * 1000 * _LOCK_SHARE)
    rows = connection.ask(
        f"SET statement_timeout = {whole}; SET lock_timeout = {lock};"
        # A process of ours that was stopped in a transaction must not stop the others.
        f"SET idle_in_transaction_session_timeout = {whole};"
        "SET standard_conforming_strings = on; SET DateStyle = ISO;"
        # A database or role may have weakened it: what we call durable is on the disk.
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off';"
        # To compress a batch of requests as by default takes longer than all else that is done
        # with it; a server may be built without the other way.
        "SELECT set_config(name, 'lz4', false) FROM pg_settings"
        " WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals);"
        "SELECT pg_backend_pid(), current_setting('server_encoding'),"
        " current_setting('server_version_num')::int"
    ).fetchall()
    process_id, encoding, version = rows[0]
    if process_id != connection.process_id:
        raise StoreUnavailable(
            "store: there is a connection pooler between this process and PostgreSQL; locks and "
            "settings of a session do not survive that: let store_url name the server itself"
        )
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"store: the database has the encoding {encoding}; create one with ENCODING 'UTF8'"
        )
    if version < _OLDEST:
        raise StoreUnavailable("store: PostgreSQL 12 or newer is required")


def read_ledger(statements: Statements) -> tuple[AppliedMigration, ...]:
    """The applied migrations; none where there is no ledger yet."""
    there = statements.one("SELECT to_regclass('svc_migrations') IS NOT NULL")
    return Schema(statements).applied() if there is not None and there[0] else ()


def take_serving(connection: PostgresConnection, alone: bool) -> bool:
    """Take the lock ``SERVING`` if it is free; the session's until its end."""
    how = "pg_try_advisory_lock" if alone else "pg_try_advisory_lock_shared"
    return bool(connection.ask(f"SELECT {how}({LOCKS}, {SERVING})").fetchone()[0])


def holder(connection: PostgresConnection) -> str:
    """Who holds ``SERVING``, for a text; never a reason to act."""
    row = connection.ask(
        "SELECT a.application_name,"
        " to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), a.pid"
        " FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
        f" WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {LOCKS}"
        f" AND l.objid = {SERVING} AND l.objsubid = 2"
        " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND l.pid <> pg_backend_pid() ORDER BY a.backend_start LIMIT 1"
    ).fetchone()
    if row is None or not row[0] or not row[0].isprintable():
        return "an unnamed session"
    return f"{row[0]}, since {row[1]}, server process {row[2]}"


@define(eq=False)
class PostgresDialer:
    """Makes connections; after a failure it lets some time pass before the next attempt.

    Args:
        status: Compares the database's ledger with this build's migrations.
        transaction_secs: What one transaction may take.
    """

    place: DatabasePlace
    _seconds: Callable[[], float]
    _status: Callable[[Statements], MigrationStatus]
    _transaction_secs: float
    _waits: Backoff = field(init=False, factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE))
    _not_before: float = field(init=False, default=float("-inf"))
    _why: str = field(init=False, default="")

    def to_write(self, deadline: float) -> PostgresConnection:
        """A connection that holds ``SERVING`` over a store of this build's schema.

        Raises:
            StoreUnavailable: the database does not answer, or is being migrated.
            MigrationsPending, UnknownApplied, MigrationsBroken: it is not of this build.
        """
        return self._made("serving", deadline, self._begin_serving)

    def to_read(self, deadline: float) -> PostgresConnection:
        """A connection that cannot write, over a store of this build's schema.

        Raises:
            StoreUnavailable: the database does not answer.
            MigrationsPending, UnknownApplied, MigrationsBroken: it is not of this build.
        """
        return self._made("reading", deadline, self._begin_reading)

    def _made(
        self, purpose: str, deadline: float, begin: Callable[[PostgresConnection], None]
    ) -> PostgresConnection:
        if self._seconds() < self._not_before:
            raise StoreUnavailable(f"store: {self._why}", retry_after=RETRY_SECS)
        try:
            connection = connect(
                self.place, purpose, self._seconds, deadline, self._transaction_secs
            )
            try:
                _refuse_standby(connection)
                begin(connection)
            except BaseException:
                connection.close()
                raise
        except psycopg2.Error as error:
            failed = refusal(error, self.place, "connect", "")
            self._rest(failed.text.removeprefix("store: "))
            raise failed from None
        except SvcError as error:
            self._rest(error.text.removeprefix("store: "))
            raise
        self._waits.reset()
        self._not_before = float("-inf")
        return connection

    def _begin_serving(self, connection: PostgresConnection) -> None:
        if not take_serving(connection, alone=False):
            raise StoreUnavailable(
                f"store: it is being migrated by {holder(connection)}",
                reason="store_in_use",
                retry_after=RETRY_SECS,
            )
        self._status(PostgresStatements(connection)).require_current()

    def _begin_reading(self, connection: PostgresConnection) -> None:
        connection.ask("SET default_transaction_read_only = on")
        self._status(PostgresStatements(connection)).require_current()

    def _rest(self, why: str) -> None:
        self._not_before = self._seconds() + self._waits.next()
        self._why = why


def _refuse_standby(connection: PostgresConnection) -> None:
    """Whoever serves reads from the server that it writes to.

    One that follows may lag behind it: what was revoked would still be in force there.
    """
    if connection.ask("SELECT pg_is_in_recovery()").fetchone()[0]:
        raise StoreUnavailable(
            "store: the server is a standby, which accepts no writes and may lag behind; let "
            "store_url name the primary, or several hosts with target_session_attrs=read-write"
        )


def connect(
    place: DatabasePlace,
    purpose: str,
    seconds: Callable[[], float],
    deadline: float,
    transaction_secs: float,
) -> PostgresConnection:
    """A settled connection.

    Raises:
        psycopg2.Error: the server refuses, or does not answer by *deadline*.
        StoreUnavailable: see :func:`settle`.
    """
    connection = PostgresConnection.opened(place, purpose, seconds, deadline)
    try:
        settle(connection, transaction_secs)
    except BaseException:
        connection.close()
        raise
    return connection
