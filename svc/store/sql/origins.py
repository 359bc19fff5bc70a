"""Rows of other instances that left the queue: appended to the log, or discarded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.outbox import IOrigins
from svc.model.audit.outbox import AcceptedRow
from svc.store.sql.statements import Statements, marks, parts

_ROWS = 100
"""Rows in one statement."""


@implementer(IOrigins)
@frozen
class Origins:
    """See :class:`IOrigins`."""

    _db: Statements

    def accepted(self, rows: Sequence[AcceptedRow]) -> None:
        for part in parts(rows, _ROWS):
            values = [
                (one.seq, one.row_id, one.event_id, one.origin, one.spool_id, one.n) for one in part
            ]
            added = self._db.change(
                "INSERT INTO audit_origins (seq, queue_id, event_id, origin, spool_id, n)"
                " VALUES "
                + ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(part))
                + " ON CONFLICT DO NOTHING",
                *(value for row in values for value in row),
            )
            if added != len(part):
                raise AlreadyExists("store: the log already has a row with this place or event id")

    def events(self, event_ids: Collection[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in parts(event_ids):
            rows = self._db.all(
                f"SELECT event_id FROM audit_origins WHERE event_id IN ({marks(len(part))})", *part
            )
            found.update(event_id for (event_id,) in rows)
        return frozenset(found)

    def uncovered(self, origin: str, spool_id: str, size: int) -> int | None:
        # By the few newest records, not by all of the spool: the concatenation keeps its index out.
        row = self._db.one(
            "SELECT min(n) FROM audit_origins"
            " WHERE seq > ? AND origin || '' = ? AND spool_id || '' = ?",
            size,
            origin,
            spool_id,
        )
        return None if row is None else row[0]

    def seq(self, origin: str, spool_id: str, n: int) -> int | None:
        row = self._db.one(
            "SELECT seq FROM audit_origins WHERE origin = ? AND spool_id = ? AND n = ?",
            origin,
            spool_id,
            n,
        )
        return None if row is None else row[0]

    def discard(
        self, row_id: int, origin: str, spool_id: str, n: int, digest: bytes, at: float
    ) -> None:
        self._db.write(
            "INSERT INTO outbox_discarded (queue_id, origin, spool_id, n, digest, discarded_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            row_id,
            origin,
            spool_id,
            n,
            digest,
            at,
        )

    def discarded(self, origin: str, spool_id: str, digests: Collection[bytes]) -> frozenset[bytes]:
        found: set[bytes] = set()
        for part in parts(digests):
            rows = self._db.all(
                "SELECT digest FROM outbox_discarded WHERE origin = ? AND spool_id = ?"
                f" AND digest IN ({marks(len(part))})",
                origin,
                spool_id,
                *part,
            )
            found.update(bytes(digest) for (digest,) in rows)
        return frozenset(found)

    def reached(self, row_ids: Collection[int]) -> frozenset[int]:
        found: set[int] = set()
        for part in parts(row_ids):
            for table in ("audit_origins", "outbox_discarded"):
                rows = self._db.all(
                    f"SELECT queue_id FROM {table} WHERE queue_id IN ({marks(len(part))})", *part
                )
                found.update(row_id for (row_id,) in rows)
        return frozenset(found)
