"""Certificates of issuing authorities and purpose keys."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import NoSuchRow
from svc.interfaces.facets import IKeyrings
from svc.model.cluster.key_revision import KeyRevision, KeyState
from svc.model.distribution import RotationPause
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements

_REVISIONS = RowColumns(
    KeyRevision,
    "key_revisions",
    "kind, revision, certificate, state, since",
    state=KeyState,
)
_PAUSES = RowColumns(
    RotationPause, "rotation_pauses", "id, is_paused, since, by, reason", is_paused=bool
)
_PAUSE = RowInsert(
    "rotation_pauses",
    _PAUSES.listed,
    rest="ON CONFLICT (id) DO UPDATE SET is_paused = excluded.is_paused,"
    " since = excluded.since, by = excluded.by, reason = excluded.reason",
)


@implementer(IKeyrings)
@frozen
class Keyrings:
    """See :class:`IKeyrings`."""

    _db: Statements

    def add(self, kind: str, certificate: str, at: float) -> KeyRevision:
        row = self._db.one(
            f"INSERT INTO key_revisions ({_REVISIONS.listed}) VALUES (?, (SELECT"
            " coalesce(max(revision), 0) + 1 FROM key_revisions WHERE kind = ?),"
            f" ?, 'prepared', ?) RETURNING {_REVISIONS.listed}",
            kind,
            kind,
            certificate,
            at,
        )
        assert row is not None, "an INSERT that returns gives its row"
        return _REVISIONS.value(row)

    def enter(self, kind: str, revision: int, state: KeyState, at: float) -> KeyRevision:
        there = self._db.one(
            "SELECT 1 FROM key_revisions WHERE kind = ? AND revision = ?", kind, revision
        )
        if there is None:
            raise NoSuchRow(f"store: there is no revision {revision} of the {kind} key")
        if state is KeyState.ACTIVE:
            self._db.change(
                "UPDATE key_revisions SET state = 'retired', since = ?"
                " WHERE kind = ? AND state = 'active' AND revision <> ?",
                at,
                kind,
                revision,
            )
        row = self._db.one(
            "UPDATE key_revisions SET state = ?, since = ? WHERE kind = ? AND revision = ?"
            f" RETURNING {_REVISIONS.listed}",
            state.value,
            at,
            kind,
            revision,
        )
        assert row is not None, "the row was there a statement ago, in this transaction"
        return _REVISIONS.value(row)

    def active(self, kind: str) -> KeyRevision | None:
        return _REVISIONS.one(self._db, "WHERE kind = ? AND state = 'active'", kind)

    def all(self) -> tuple[KeyRevision, ...]:
        return _REVISIONS.all(self._db, "ORDER BY kind, revision")

    def pauses(self) -> tuple[RotationPause, ...]:
        return _PAUSES.all(self._db, "ORDER BY id")

    def pause(self, pause: RotationPause) -> None:
        _PAUSE(self._db, pause)
