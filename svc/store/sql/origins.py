"""Rows of other instances that left the queue: appended to the log, or discarded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.outbox import IOrigins
from svc.model.audit.ledger import BEGINNING, ChainRow, FiledRecord
from svc.model.audit.outbox import AcceptedRow
from svc.model.audit.spool import SpoolRow
from svc.store.sql.audit import AuditLog
from svc.store.sql.statements import Statements, marks, parts

_ROWS = 100
"""Rows in one statement."""


def _text(found: str | bytes) -> str:
    return found if isinstance(found, str) else bytes(found).decode("utf-8", "replace")


@implementer(IOrigins)
@frozen
class Origins:
    """See :class:`IOrigins`."""

    _db: Statements
    _log: AuditLog

    def append(self, rows: Sequence[SpoolRow]) -> list[ChainRow]:
        return self._log.append_all(rows)

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

    def near(self, decision_id: str, limit: int) -> tuple[FiledRecord, ...]:
        # Not all of each: a batch is long, and few of these are wanted.
        begin = self._db.raw(f"substr(canonical, 1, {BEGINNING})")
        rows = self._db.all(
            f"SELECT seq, {self._db.raw('decision_id')}, {begin} FROM audit_log"
            " WHERE decision_id <= ? ORDER BY decision_id DESC, seq DESC LIMIT ?",
            decision_id,
            limit,
        )
        return tuple(FiledRecord(seq, _text(id), _text(begins)) for seq, id, begins in rows)

    def events(self, event_ids: Collection[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in parts(event_ids):
            rows = self._db.all(
                f"SELECT event_id FROM audit_origins WHERE event_id IN ({marks(len(part))})", *part
            )
            found.update(event_id for (event_id,) in rows)
        return frozenset(found)

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
