"""Certificates of issuing authorities and purpose keys."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import NoSuchRow
from svc.interfaces.facets import IKeyrings
from svc.model.cluster.key_revision import KeyRevision, KeyState
from svc.store.sql.statements import Row, Statements

_COLUMNS = "kind, revision, certificate, state, since"


def _revision(row: Row) -> KeyRevision:
    kind, revision, certificate, state, since = row
    return KeyRevision(
        kind=kind, revision=revision, certificate=certificate, state=KeyState(state), since=since
    )


@implementer(IKeyrings)
@frozen
class Keyrings:
    """See :class:`IKeyrings`."""

    _db: Statements

    def add(self, kind: str, certificate: str, at: float) -> KeyRevision:
        row = self._db.one(
            f"INSERT INTO key_revisions ({_COLUMNS}) VALUES (?, (SELECT"
            " coalesce(max(revision), 0) + 1 FROM key_revisions WHERE kind = ?),"
            f" ?, 'prepared', ?) RETURNING {_COLUMNS}",
            kind,
            kind,
            certificate,
            at,
        )
        assert row is not None, "an INSERT that returns gives its row"
        return _revision(row)

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
            f" RETURNING {_COLUMNS}",
            state.value,
            at,
            kind,
            revision,
        )
        assert row is not None, "the row was there a statement ago, in this transaction"
        return _revision(row)

    def active(self, kind: str) -> KeyRevision | None:
        row = self._db.one(
            f"SELECT {_COLUMNS} FROM key_revisions WHERE kind = ? AND state = 'active'", kind
        )
        return None if row is None else _revision(row)

    def all(self) -> tuple[KeyRevision, ...]:
        rows = self._db.all(f"SELECT {_COLUMNS} FROM key_revisions ORDER BY kind, revision")
        return tuple(map(_revision, rows))
