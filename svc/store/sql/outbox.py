"""The audit queue.

The invariant: a number is used once.  Numbers come from a counter that every
writer takes in its own transaction, so they also grow in the order of commits.
What a row says is kept as bytes, because a text may hold what a database
refuses to give back.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Sequence
from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.errors import Malformed
from svc.interfaces.outbox import IOutbox
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.outbox import Hold, Offered, QueueCounts, QueuedRow
from svc.model.audit.spool import SpoolRow, row_digest
from svc.model.canonical import decode
from svc.store.sql.statements import IN_LIST, Row, Statements, marks, parts

_LENGTH = 4
UNREADABLE = PersonalValue("", b"", "")
"""Stands for personal values that are malformed: they fit no record."""


def _packed(values: Sequence[PersonalValue]) -> bytes:
    """Path, salt and value of each, with the length before each of them.

    Not as JSON: the texts beside a batch of requests are JSON, and would be escaped within it.
    """
    packed = bytearray()
    try:
        for one in values:
            for part in (one.path.encode(), one.salt, one.value.encode()):
                packed += len(part).to_bytes(_LENGTH, "big")
                packed += part
    except UnicodeEncodeError:
        raise Malformed("store: a text contains a lone surrogate") from None
    return bytes(packed)


def _as_json(packed: bytes) -> tuple[PersonalValue, ...]:
    """As builds before wrote them: rows may wait in the queue while the build is replaced."""
    try:
        form: Any = decode(packed, max_bytes=len(packed))
        return tuple(
            PersonalValue(str(path), b64decode(str(salt)), str(value)) for path, salt, value in form
        )
    except (Malformed, ValueError, TypeError):
        return (UNREADABLE,)


def _personal(packed: bytes) -> tuple[PersonalValue, ...]:
    if packed[:1] == b"[":  # as a length it would be of more than a gigabyte
        return _as_json(packed)
    parts, at, whole = list[bytes](), 0, len(packed)
    while at < whole:
        begin = at + _LENGTH
        at = begin + int.from_bytes(packed[at:begin], "big")
        parts.append(packed[begin:at])
    if at != whole or len(parts) % 3:
        return (UNREADABLE,)
    try:
        return tuple(
            PersonalValue(path.decode(), salt, value.decode())
            for path, salt, value in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        )
    except UnicodeDecodeError:
        return (UNREADABLE,)


_SIZE = "length(record) + length(personal)"
"""The column ``size``, which stands behind these: to read it, SQLite would read through both."""

_SELECT = "SELECT id, record, personal, key_id, signature, queued_at, hold, held_at FROM outbox "


def _queued(row: Row) -> QueuedRow:
    """Column by column: a value by names alone costs twice as much, for thousands a second."""
    id, record, personal, key_id, signature, queued_at, hold, held_at = row
    key = bytes(key_id).decode("utf-8", "replace")
    came = SpoolRow(
        canonical=bytes(record),
        personal=_personal(bytes(personal)),
        key_id=key,
        signature=bytes(signature),
    )
    held = None if hold is None else Hold(hold)
    return QueuedRow(id=id, row=came, queued_at=queued_at, hold=held, held_at=held_at)


@implementer(IOutbox)
@frozen
class Outbox:
    """See :class:`IOutbox`."""

    _db: Statements

    def add(self, rows: Sequence[Offered], at: float) -> None:
        taken = self._db.one(
            "UPDATE revisions SET value = value + ? WHERE name = 'outbox' RETURNING value",
            len(rows),
        )
        assert taken is not None, "a migration puts the counter there and nothing removes it"
        for number, one in enumerate(rows, int(taken[0]) - len(rows) + 1):
            row, personal = one.row, _packed(one.row.personal)
            self._db.write(
                "INSERT INTO outbox (id, origin, spool_id, n, record, personal, key_id, signature,"
                " digest, size, queued_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                number,
                one.origin,
                one.spool_id,
                one.n,
                row.canonical,
                personal,
                row.key_id.encode(),
                row.signature,
                row_digest(row),
                len(row.canonical) + len(personal),
                at,
            )

    def rows(self, after: int, limit: int) -> tuple[QueuedRow, ...]:
        rows = self._db.all(_SELECT + "WHERE id > ? ORDER BY id LIMIT ?", after, limit)
        return tuple(map(_queued, rows))

    def waiting(
        self, after: int, limit: int, max_bytes: int, keys: Collection[str] = ()
    ) -> tuple[QueuedRow, ...]:
        found = self._db.all(
            f"SELECT id, {_SIZE} FROM outbox WHERE hold IS NULL AND id > ? ORDER BY id LIMIT ?",
            after,
            limit,
        )
        if keys:
            named = [key.encode() for key in sorted(keys)[:IN_LIST]]
            found += self._db.all(
                f"SELECT id, {_SIZE} FROM outbox WHERE hold = 'unknown_key' AND id > ?"
                f" AND key_id IN ({marks(len(named))}) ORDER BY id LIMIT ?",
                after,
                *named,
                limit,
            )
        wanted: list[int] = []
        room = max_bytes
        for id, size in sorted(found)[:limit]:
            room -= size
            if wanted and room < 0:
                break
            wanted.append(id)
        if not wanted:
            return ()
        rows = self._db.all(_SELECT + f"WHERE id IN ({marks(len(wanted))}) ORDER BY id", *wanted)
        return tuple(map(_queued, rows))

    def unknown_keys(self) -> tuple[str, ...]:
        rows = self._db.all("SELECT DISTINCT key_id FROM outbox WHERE hold = 'unknown_key'")
        return tuple(sorted(bytes(key).decode("utf-8", "replace") for (key,) in rows))

    def hold(self, row_id: int, why: Hold, at: float) -> bool:
        fresh = self._db.change(
            "UPDATE outbox SET hold = ?, held_at = ? WHERE id = ? AND hold IS NULL",
            why.value,
            at,
            row_id,
        )
        if not fresh:
            self._db.change("UPDATE outbox SET hold = ? WHERE id = ?", why.value, row_id)
        return bool(fresh)

    def drop(self, row_ids: Collection[int]) -> int:
        return sum(
            self._db.change(f"DELETE FROM outbox WHERE id IN ({marks(len(part))})", *part)
            for part in parts(row_ids)
        )

    def counts(self, origin: str | None = None) -> QueueCounts:
        if origin is not None:
            row = self._db.one(
                "SELECT count(*), coalesce(sum(size), 0) FROM outbox WHERE origin = ?", origin
            )
            return QueueCounts() if row is None else QueueCounts(row[0], bytes=int(row[1]))
        row = self._db.one("SELECT count(*), coalesce(sum(size), 0) FROM outbox")
        held = self._db.one("SELECT count(*) FROM outbox WHERE hold IS NOT NULL")
        oldest = self._db.one("SELECT queued_at FROM outbox ORDER BY id LIMIT 1")
        assert row is not None and held is not None, "a count is always one row"
        return QueueCounts(
            rows=row[0],
            held=held[0],
            bytes=int(row[1]),
            oldest=None if oldest is None else oldest[0],
        )

    def ids(self, limit: int) -> tuple[int, ...]:
        rows = self._db.all("SELECT id FROM outbox ORDER BY id LIMIT ?", limit)
        return tuple(id for (id,) in rows)
