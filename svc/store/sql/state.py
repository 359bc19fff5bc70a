"""The signatures of records that change protected rows.

The records themselves are in the log; this only says which they are.  Rows are
read as they stand, holes and all: verifying them is ``svc.audit.state.in_force``.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.facets import IStateLog
from svc.model.audit.state import StateHead, StateRow
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements


def _head(hash: bytes | None, **plain: Any) -> StateHead:
    return StateHead(hash=hash or b"", **plain)


def _row(
    prev_hash: bytes | None,
    hash: bytes | None,
    canonical: str | bytes | None,
    certificate: bytes | None,
    **plain: Any,
) -> StateRow:
    return StateRow(
        prev_hash=prev_hash or b"",
        hash=hash or b"",
        canonical=canonical.encode("utf-8") if isinstance(canonical, str) else canonical or b"",
        certificate=certificate or b"",
        **plain,
    )


_HEAD = RowColumns(
    _head,
    "state_changes s LEFT JOIN audit_log a ON a.seq = s.seq",
    "s.n, s.seq, a.hash",
    hash=bytes,
)


def _rows(db: Statements) -> RowColumns[StateRow]:
    return RowColumns(
        _row,
        "state_changes s LEFT JOIN audit_log a ON a.seq = s.seq"
        " LEFT JOIN state_signers k ON k.key_id = s.key_id",
        f"s.n, s.seq, a.prev_hash, a.hash, {db.raw('a.canonical')} AS canonical, s.key_id, "
        "s.signature, k.certificate",
        prev_hash=bytes,
        hash=bytes,
        signature=bytes,
        certificate=bytes,
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
        return _HEAD.one(self._db, "ORDER BY s.n DESC LIMIT 1") or StateHead()

    def since(self, n: int, limit: int) -> tuple[StateRow, ...]:
        return _rows(self._db).all(self._db, "WHERE s.n > ? ORDER BY s.n LIMIT ?", n, limit)
