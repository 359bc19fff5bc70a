"""The signatures of records that change protected rows.

The records themselves are in the log; this only says which they are.  Rows are
read as they stand, holes and all: verifying them is ``svc.audit.state.in_force``.
"""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import IStateLog
from svc.model.audit.state import StateHead, StateRow
from svc.store.sql.statements import Row, Statements


def _row(row: Row) -> StateRow:
    n, seq, prev_hash, link_hash, canonical, key_id, signature, certificate = row
    return StateRow(
        n=n,
        seq=seq,
        prev_hash=bytes(prev_hash or b""),
        hash=bytes(link_hash or b""),
        canonical=canonical.encode("utf-8") if isinstance(canonical, str) else canonical or b"",
        key_id=key_id,
        signature=bytes(signature),
        certificate=bytes(certificate or b""),
    )


@implementer(IStateLog)
@frozen
class StateLog:
    """See :class:`IStateLog`."""

    _db: Statements

    def append(self, n: int, seq: int, key_id: str, signature: bytes, certificate: bytes) -> None:
        self._db.change(
            "INSERT INTO state_signers (key_id, certificate) VALUES (?, ?)"
            " ON CONFLICT (key_id) DO NOTHING",
            key_id,
            certificate,
        )
        added = self._db.change(
            "INSERT INTO state_changes (n, seq, key_id, signature) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            n,
            seq,
            key_id,
            signature,
        )
        if not added:
            raise AlreadyExists("store: a state record with this number already exists")

    def tip(self) -> int:
        row = self._db.one("SELECT max(n) FROM state_changes")
        return 0 if row is None or row[0] is None else int(row[0])

    def head(self) -> StateHead:
        row = self._db.one(
            "SELECT s.n, s.seq, a.hash FROM state_changes s LEFT JOIN audit_log a ON a.seq = s.seq"
            " ORDER BY s.n DESC LIMIT 1"
        )
        return StateHead() if row is None else StateHead(row[0], row[1], bytes(row[2] or b""))

    def since(self, n: int, limit: int) -> tuple[StateRow, ...]:
        canonical = self._db.raw("a.canonical")
        rows = self._db.all(
            f"SELECT s.n, s.seq, a.prev_hash, a.hash, {canonical}, s.key_id, s.signature,"
            " k.certificate FROM state_changes s LEFT JOIN audit_log a ON a.seq = s.seq"
            " LEFT JOIN state_signers k ON k.key_id = s.key_id"
            " WHERE s.n > ? ORDER BY s.n LIMIT ?",
            n,
            limit,
        )
        return tuple(map(_row, rows))
