"""PostgreSQL connections: every wait has a deadline, and errors are distinguished.

A connection is libpq's asynchronous one and is waited for here, in the thread
that uses it: a server that has stopped answering (a stopped process, a network
that swallows packets) costs its deadline and no thread.  Transactions are
begun and ended by the callers.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import psycopg2
from attrs import define, field
from psycopg2 import extensions

from svc.errors import StoreFull, StoreUnavailable, SvcError
from svc.store.postgres.url import DatabasePlace
from svc.store.sql.statements import Row, storable

RETRY_SECS = 1.0
MOST_AHEAD = 1 << 17
"""Characters that may wait for the next statement."""
_RETRIED = frozenset({"40001", "40P01"})
"""The transaction met another one: serialization failure, deadlock."""
_OF_THE_DATABASE = ("08", "25", "28", "3D", "40", "42501", "53", "54", "55", "57", "58", "F0", "XX")
"""Beginnings of SQLSTATEs that are faults of the database, its host or its administration."""
_MISSING = ("42P01", "3F000")
_DISK_FULL = "53100"


class TimedOut(psycopg2.OperationalError):  # type: ignore[misc]  # it comes without types
    """The server did not answer by the deadline; the connection is closed."""


@define(eq=False)
class PostgresConnection:
    """One connection; used by one thread at a time.

    Attributes:
        deadline: When waiting ends, by the clock that was passed in.
    """

    _raw: Any
    _seconds: Callable[[], float]
    deadline: float
    _cursor: Any = field(init=False, default=None)

    @classmethod
    def opened(
        cls, place: DatabasePlace, purpose: str, seconds: Callable[[], float], deadline: float
    ) -> PostgresConnection:
        """Connect.

        Raises:
            psycopg2.Error: the server refuses, or does not answer by *deadline*.
        """
        raw = psycopg2.connect(**place.connection_parameters(purpose), async_=1)
        made = cls(raw, seconds, deadline)
        try:
            made._wait()
            made._cursor = raw.cursor()
        except BaseException:
            raw.close()
            raise
        return made

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be asked over it any more."""
        return bool(self._raw.closed)

    @property
    def has_failed(self) -> bool:
        """Whether the open transaction takes no more statements."""
        return bool(self._status() == extensions.TRANSACTION_STATUS_INERROR)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return not self.is_lost and self._status() != extensions.TRANSACTION_STATUS_IDLE

    @property
    def process_id(self) -> int:
        """The server process as the server named it when the connection was made."""
        return int(self._raw.info.backend_pid)

    @property
    def notices(self) -> list[str]:
        """The server's notices; the caller may clear them."""
        found: list[str] = self._raw.notices
        return found

    def filled(self, sql: str, values: tuple[object, ...]) -> str:
        """The statement with its values as literals."""
        text: bytes = self._cursor.mogrify(sql, values)
        return text.decode("utf-8")

    def ask(self, sql: str) -> Any:
        """Run statements; the cursor that holds what the last of them gave.

        Raises:
            psycopg2.Error: as the server or libpq raised it; :class:`TimedOut`.
        """
        self._cursor.execute(sql)
        self._wait()
        return self._cursor

    def close(self) -> None:
        """Close; an open transaction is undone by the server.  Idempotent."""
        self._raw.close()

    def _wait(self) -> None:
        raw = self._raw
        while (state := raw.poll()) != extensions.POLL_OK:
            left = self.deadline - self._seconds()
            ready = select.poll()
            ready.register(
                raw.fileno(), select.POLLIN if state == extensions.POLL_READ else select.POLLOUT
            )
            if left <= 0 or not ready.poll(left * 1000):
                raw.close()
                raise TimedOut("the server did not answer in time")

    def _status(self) -> int:
        return int(self._raw.info.transaction_status)


@define(eq=False)
class PostgresStatements:
    """:class:`Statements` over one connection.

    Attributes:
        ahead: Statements that go to the server together with the next one: every
            way there and back costs more than most statements.
        holds: Whether writes go ahead too.  What is wrong with one then shows later.
    """

    connection: PostgresConnection
    ahead: str = ""
    holds: bool = False

    def one(self, sql: str, *values: object) -> Row | None:
        """See :class:`Statements`."""
        rows = self.all(sql, *values)
        return rows[0] if rows else None

    def all(self, sql: str, *values: object) -> list[Row]:
        """See :class:`Statements`."""
        rows: list[Row] = self.send(self._text(sql, values)).fetchall()
        return rows

    def change(self, sql: str, *values: object) -> int:
        """See :class:`Statements`."""
        return int(self.send(self._text(sql, values)).rowcount)

    def write(self, sql: str, *values: object) -> None:
        """See :class:`Statements`."""
        text = self._text(sql, values)
        if self.holds and len(self.ahead) < MOST_AHEAD:
            self.ahead += f"{text};"
        else:
            self.send(text)

    def raw(self, column: str) -> str:
        """See :class:`Statements`.  The server keeps each type, and text of its encoding alone."""
        return column

    def member(self, column: str, name: str) -> str:
        """See :class:`Statements`.  Text with the escape of NUL is no JSON to the server."""
        found = (
            f"CASE WHEN strpos({column}, '\\u0000') = 0 THEN {column}::json ->> '{name}'"
            f' ELSE substring({column} from \'"{name}":"([^"]*)"\') END'
        )
        return f'({found}) COLLATE "C"'

    def send(self, text: str) -> Any:
        """Send what is ahead and *text*; the cursor that holds what *text* gave."""
        ahead, self.ahead = self.ahead, ""
        return self.connection.ask(ahead + text)

    def _text(self, sql: str, values: tuple[object, ...]) -> str:
        storable(values)
        return self.connection.filled(_marked(sql), values) if values else sql


@lru_cache(maxsize=512)
def _marked(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def can_be_retried(error: BaseException, connection: PostgresConnection | None) -> bool:
    """Whether the same transaction, run again, may well succeed; nothing of it was kept."""
    if isinstance(error, TimedOut) or not isinstance(error, psycopg2.Error):
        return False
    code: str | None = getattr(error, "pgcode", None)
    return code in _RETRIED or (connection is not None and connection.is_lost)


def error_text(error: psycopg2.Error, place: DatabasePlace) -> str:
    """What an error says, without values of rows or secrets of the place."""
    if error.pgcode is None:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return place.scrub(lines[0])
    message = error.diag.message_primary if error.pgcode.startswith(_OF_THE_DATABASE) else ""
    where = [error.diag.table_name, error.diag.constraint_name]
    name = ", ".join(part for part in (f"SQLSTATE {error.pgcode}", *where) if part)
    return place.scrub(f"{message} ({name})" if message else name)


def full(error: Exception) -> StoreFull | None:
    """The refusal where the server has no room; None where that is not why it failed."""
    if getattr(error, "pgcode", None) != _DISK_FULL:
        return None
    return StoreFull.on("the Authority's database")


def refusal(
    error: psycopg2.Error, place: DatabasePlace, desc: str, ending: str = "; nothing was written"
) -> SvcError:
    """The error for the caller; it never contains the values of a statement."""
    no_room = full(error)
    if no_room is not None:
        return no_room
    if error.pgcode in _MISSING:
        return StoreUnavailable(
            f"store: {desc}: this database has no store; run: svc authority store migrate"
        )
    if error.pgcode is None or error.pgcode.startswith(_OF_THE_DATABASE):
        return StoreUnavailable(
            f"store: {desc}: {error_text(error, place)}{ending}", retry_after=RETRY_SECS
        )
    return SvcError(f"store: {desc}: a statement was refused: {error_text(error, place)}{ending}")
