"""Which rows of other instances' spools were accepted, and where one is missing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import AuditBroken
from svc.interfaces.outbox import ISpools
from svc.model.audit.outbox import Offered
from svc.model.audit.replay import Hole, SpoolMemory
from svc.model.audit.spool import SpoolRow, row_digest
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Statements, marks, parts

_COLUMNS = "origin, spool_id, high, top, holes, closed, lost, given_up"


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _hole(form: list[Any]) -> Hole:
    first, last, before, after, since, is_recorded = form
    numbers = isinstance(first, int) and isinstance(last, int) and 0 < first <= last
    if not numbers or not isinstance(since, (int, float)) or not isinstance(is_recorded, bool):
        raise ValueError("not a hole")
    if not all(text is None or isinstance(text, str) for text in (before, after)):
        raise ValueError("not a hole")
    return Hole(
        first=first,
        last=last,
        before=_bytes(before),
        after=_bytes(after),
        since=since,
        is_recorded=is_recorded,
    )


@frozen
class _KeptSpool:
    """What was accepted of one spool, and of which."""

    origin: str
    spool_id: str
    memory: SpoolMemory

    @classmethod
    def read(cls, origin: str, spool_id: str, holes: str, **plain: Any) -> _KeptSpool:
        """See :class:`RowColumns`.  Raises AuditBroken."""
        try:
            found = tuple(_hole(each) for each in json.loads(holes))
        except (ValueError, TypeError, RecursionError):
            raise AuditBroken(
                f"store: what was accepted of spool {spool_id} of {origin} cannot be read",
                reason="spool_memory_broken",
            ) from None
        return cls(origin, spool_id, SpoolMemory(holes=found, **plain))


_SPOOLS = RowColumns(_KeptSpool.read, "outbox_spools", _COLUMNS, top=bytes, lost=bool)


@implementer(ISpools)
@frozen
class Spools:
    """See :class:`ISpools`."""

    _db: Statements

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

    def memory(self, origin: str, spool_id: str) -> SpoolMemory | None:
        kept = _SPOOLS.one(self._db, "WHERE origin = ? AND spool_id = ?", origin, spool_id)
        return None if kept is None else kept.memory

    def keep(self, origin: str, spool_id: str, memory: SpoolMemory) -> None:
        holes = [
            [
                hole.first,
                hole.last,
                _hex(hole.before),
                _hex(hole.after),
                hole.since,
                hole.is_recorded,
            ]
            for hole in memory.holes
        ]
        since = min((hole.since for hole in memory.holes if not hole.is_recorded), default=None)
        self._db.write(
            f"INSERT INTO outbox_spools ({_COLUMNS}, holed_since)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (origin, spool_id) DO UPDATE SET"
            " high = excluded.high, top = excluded.top, holes = excluded.holes,"
            " closed = excluded.closed, lost = excluded.lost, given_up = excluded.given_up,"
            " holed_since = excluded.holed_since",
            origin,
            spool_id,
            memory.high,
            memory.top,
            json.dumps(holes),
            memory.closed,
            int(memory.lost),
            memory.given_up,
            since,
        )

    def unended(self, origin: str) -> Mapping[str, SpoolMemory]:
        unended = "WHERE origin = ? AND closed IS NULL AND lost = 0"
        return {one.spool_id: one.memory for one in _SPOOLS.all(self._db, unended, origin)}

    def holed(self, before: float, limit: int) -> tuple[tuple[str, str, SpoolMemory], ...]:
        holed = "WHERE holed_since <= ? ORDER BY holed_since, spool_id LIMIT ?"
        kept = _SPOOLS.all(self._db, holed, before, limit)
        return tuple((one.origin, one.spool_id, one.memory) for one in kept)

    def queued(self, origin: str) -> Mapping[str, int]:
        rows = self._db.all(
            "SELECT spool_id, max(n) FROM outbox WHERE origin = ?"
            " AND (hold IS NULL OR hold = 'unknown_key') GROUP BY spool_id",
            origin,
        )
        return {spool_id: int(last) for spool_id, last in rows}

    def queued_through(self, origin: str, spool_id: str, n: int) -> int:
        row = self._db.one(
            "SELECT count(DISTINCT n), max(n) FROM outbox"
            " WHERE origin = ? AND spool_id = ? AND n > ?",
            origin,
            spool_id,
            n,
        )
        if row is None or not row[0]:
            return n
        if row[0] == row[1] - n:
            return int(row[1])
        rows = self._db.all(
            "SELECT DISTINCT n FROM outbox WHERE origin = ? AND spool_id = ? AND n > ? ORDER BY n",
            origin,
            spool_id,
            n,
        )
        for (number,) in rows:
            if number != n + 1:
                break
            n = number
        return n

    def there(self, offered: Sequence[Offered]) -> frozenset[bytes]:
        wanted = {(one.origin, one.spool_id, one.n, row_digest(one.row)) for one in offered}
        found: set[tuple[str, str, int, bytes]] = set()
        for part in parts({digest for *_, digest in wanted}):
            rows = self._db.all(
                "SELECT origin, spool_id, n, digest FROM outbox"
                f" WHERE digest IN ({marks(len(part))})",
                *part,
            )
            found.update((*place, bytes(digest)) for *place, digest in rows)
        for spool in {(one.origin, one.spool_id) for one in offered}:
            numbers = {one.n for one in offered if (one.origin, one.spool_id) == spool}
            found.update((*spool, *one) for one in self._logged(*spool, numbers))
        return frozenset(digest for *_, digest in wanted & found)

    def _logged(
        self, origin: str, spool_id: str, numbers: Collection[int]
    ) -> Iterator[tuple[int, bytes]]:
        """Number and digest of the rows of these places; a place is in the log once."""
        canonical = self._db.raw("a.canonical")
        for part in parts(numbers):
            rows = self._db.all(
                f"SELECT o.n, {canonical}, a.signature FROM audit_origins o"
                " JOIN audit_log a ON a.seq = o.seq"
                f" WHERE o.origin = ? AND o.spool_id = ? AND o.n IN ({marks(len(part))})",
                origin,
                spool_id,
                *part,
            )
            for n, text, signature in rows:
                written = text.encode("utf-8") if isinstance(text, str) else text
                row = SpoolRow(written, signature=bytes(signature or b""))
                yield n, row_digest(row)
