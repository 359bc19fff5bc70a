"""Sessions.  The invariants: a uid is used once; the first end recorded stays."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import ISessions
from svc.model.session.session import ReportedEnd, Session, SessionEnd, SessionState
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements

_SESSIONS = RowColumns(
    Session,
    "sessions",
    "uid, person_id, resource_id, kind, connector_id, proxy_id, decision_id, started_at, state, "
    "ended_at, end_reason, bytes_up, bytes_down",
    state=SessionState,
)
_ADD = RowInsert("sessions", _SESSIONS.listed)


@implementer(ISessions)
@frozen
class Sessions:
    """See :class:`ISessions`."""

    _db: Statements

    def insert(self, session: Session) -> None:
        if not _ADD(self._db, session):
            raise AlreadyExists("store: this session uid was already used")

    def end(self, uid: str, end: SessionEnd) -> ReportedEnd:
        ended = self._db.change(
            "UPDATE sessions SET state = ?, ended_at = ?, end_reason = ?, bytes_up = ?,"
            " bytes_down = ? WHERE uid = ? AND state = 'open'",
            end.state.value,
            end.at,
            end.reason,
            end.bytes_up,
            end.bytes_down,
            uid,
        )
        if ended:
            return ReportedEnd.WAS_OPEN
        return ReportedEnd.UNKNOWN if self.get(uid) is None else ReportedEnd.ALREADY_ENDED

    def ask_end(self, uid: str, reason: str) -> bool:
        sql = "UPDATE sessions SET end_reason = ? WHERE uid = ? AND state = 'open'"
        return bool(self._db.change(sql, reason, uid))

    def get(self, uid: str) -> Session | None:
        return _SESSIONS.one(self._db, "WHERE uid = ?", uid)

    def beginning(self, word: str, limit: int) -> tuple[Session, ...]:
        # A uid is hex: whatever begins so is less than the word with a "g" behind it.
        return _SESSIONS.all(
            self._db, "WHERE uid >= ? AND uid < ? ORDER BY uid LIMIT ?", word, f"{word}g", limit
        )

    def open(self) -> tuple[Session, ...]:
        return _SESSIONS.all(self._db, "WHERE state = 'open' ORDER BY started_at, uid")

    def open_of_proxy(self, proxy_id: str) -> tuple[Session, ...]:
        return _SESSIONS.all(
            self._db, "WHERE state = 'open' AND proxy_id = ? ORDER BY started_at, uid", proxy_id
        )

    def open_of_person(self, person_id: str) -> tuple[Session, ...]:
        return _SESSIONS.all(
            self._db, "WHERE state = 'open' AND person_id = ? ORDER BY started_at, uid", person_id
        )
