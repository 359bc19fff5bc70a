"""Acts at a named message between an Authority and its PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from attrs import define, field

from svc.store.postgres.connect import LOCKS, WRITING
from tests.fault.tcp import DOWN, UP, Way

BEGIN = f"pg_advisory_xact_lock({LOCKS}, {WRITING});SELECT epoch".encode()
HEAD_READ = b"FROM audit_log ORDER BY seq DESC"
ROW_INSERT = b"INSERT INTO audit_log"
STATE_INSERT = b"INSERT INTO state_changes"
COMMIT = b"COMMIT\0"
STEPS = (BEGIN, HEAD_READ, ROW_INSERT, STATE_INSERT, COMMIT)
"""Of an append, in order; what updates the head of the chain is the inserted row."""
_READY = b"Z\0\0\0\5"


@define(eq=False)
class Trap:
    """Springs once, at the first message of an append that holds a mark; watches a fault proxy.

    Attributes:
        mark: Part of what a client sends.
        is_after: Whether it springs at the server's answer, before the client has it.
        act: Called in the connection's thread, which waits for it; returns whether the message,
            or the answer, is then passed on.
    """

    mark: bytes
    is_after: bool
    act: Callable[[], bool]
    sprung: Event = field(init=False, factory=Event)
    _appending: set[Way] = field(init=False, factory=set)
    _way: Way | None = field(init=False, default=None)

    def __call__(self, way: Way, direction: str, data: bytes) -> bool:
        """See ``Watcher``."""
        if self.sprung.is_set():
            return True
        if direction == UP and BEGIN in data:
            self._appending.add(way)
        if direction == UP and self._way is None and way in self._appending and self.mark in data:
            self._way = way
            return True if self.is_after else self._spring()
        if direction == DOWN and way is self._way and _READY in data:
            return self._spring()
        return True

    def _spring(self) -> bool:
        goes_on = self.act()
        self.sprung.set()
        return goes_on
