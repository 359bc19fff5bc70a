"""The hash chain.

The invariant: link n+1 is computed from link n as this very transaction sees
it.  The head is read back by sequence number in each transaction, once: the one
who runs transactions brings a :class:`HeadMemory`, and forgets it with whatever
is undone, so a rolled-back savepoint can never leave a head that no row has.
Who brings none reads it each time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import cast

from attrs import define, field, frozen
from zope.interface import implementer

from svc.errors import AuditBroken, Malformed, RecordLost
from svc.interfaces.facets import IAuditLog, ILogRepair, IStoredLog
from svc.interfaces.store import ChainHash
from svc.model.audit.batch import BESIDE
from svc.model.audit.events import DECIDED
from svc.model.audit.ledger import (
    ChainHead,
    ChainRow,
    EntitySlice,
    PersonalValue,
    StoredRow,
    StoredValue,
)
from svc.model.audit.record import SealedRecord
from svc.model.audit.spool import SpoolRow
from svc.store.sql.columns import RowColumns
from svc.store.sql.statements import Row, Statements, marks, write_all

_HEAD = RowColumns(ChainHead, "audit_log", "seq, hash", hash=bytes)
_SLICES = RowColumns(EntitySlice, "entity_slices", "digest, text")


def _link(row: Row) -> ChainRow:
    try:
        seq, prev_hash, link_hash, canonical, signature = row
        text = canonical.encode("utf-8") if isinstance(canonical, str) else bytes(canonical)
        values = (seq, bytes(prev_hash), bytes(link_hash), text)
        # By place: a log has millions of rows, and names cost a third of this.
        return ChainRow(*values, b"" if signature is None else bytes(signature))
    except (TypeError, AttributeError, ValueError) as failed:
        raise AuditBroken(f"audit log: record {row[0]}: unreadable") from failed


def _text(canonical: bytes) -> str:
    """The record as text; only its form is looked at, since its maker is ours.

    What does not parse inside fails in the index over ``decision_id``: parsing
    it here too would cost a third of an append.
    """
    if canonical[:1] == b"{" and canonical[-1:] == b"}":
        try:
            return canonical.decode("utf-8")
        except UnicodeDecodeError:
            pass  # the same refusal as for anything else that is no object
    raise Malformed("audit: a record is not a JSON object in UTF-8")


@define
class Appended:
    """The links that the open transaction appended, to be compared with what the store kept.

    A trigger, or whoever else can reach the tables, may drop or change a row as it is inserted;
    nothing that is recorded there may happen then.
    """

    links: list[ChainRow] = field(factory=list)

    def undo(self, count: int) -> None:
        """Keep only the first *count*: the rest was rolled back."""
        del self.links[count:]

    def require_kept(self, log: AuditLog) -> None:
        """Return if the log ends with exactly these; before the commit, in the store's thread.

        Raises:
            RecordLost: naming the first that is not as it was written, or was not written here.
        """
        if not self.links or log.ends_with(self.links):
            return
        try:
            kept = log.rows(self.links[0].seq, len(self.links) + 1)
        except AuditBroken:
            raise RecordLost.at(self.links[0].seq) from None
        for written, row in zip_longest(self.links, kept):
            if row != written:
                raise RecordLost.at((written or row).seq)


@define
class HeadMemory:
    """The head as the open transaction left it; None where it is to be read."""

    head: ChainHead | None = None


@implementer(IStoredLog)
@frozen
class StoredLog:
    """See :class:`IStoredLog`."""

    _db: Statements
    select: str = field(init=False)

    @select.default
    def _columns(self) -> str:
        """A record is read as bytes: one that somebody made no text must not hide the others."""
        canonical = self._db.raw("canonical")
        return f"SELECT seq, prev_hash, hash, {canonical}, signature FROM audit_log "

    def rows(self, from_seq: int, limit: int) -> list[StoredRow]:
        where = "WHERE seq >= ? ORDER BY seq LIMIT ?"
        return cast("list[StoredRow]", self._db.all(self.select + where, from_seq, limit))

    def values(self, first: int, last: int) -> list[StoredValue]:
        rows = self._db.all(
            "SELECT seq, path, salt, value FROM personal_values"
            " WHERE seq BETWEEN ? AND ? ORDER BY seq, path",
            first,
            last,
        )
        return cast("list[StoredValue]", rows)


@implementer(IAuditLog)
@frozen
class AuditLog:
    """See :class:`IAuditLog`."""

    _db: Statements
    _chain_hash: ChainHash
    _memory: HeadMemory | None = None
    _appended: Appended | None = None
    _stored: StoredLog = field(init=False)

    @_stored.default
    def _of_database(self) -> StoredLog:
        return StoredLog(self._db)

    def append(
        self,
        canonical: bytes,
        personal: Sequence[PersonalValue] = (),
        entities: EntitySlice | None = None,
        signature: bytes = b"",
        before: Sequence[SealedRecord] = (),
    ) -> ChainRow:
        rows = [SpoolRow(one.canonical, one.personal) for one in before]
        rows.append(SpoolRow(canonical, tuple(personal), signature=signature))
        link = self.append_all(rows)[-1]
        if entities is not None:
            self._db.write(
                "INSERT INTO entity_slices (digest, text) VALUES (?, ?)"
                " ON CONFLICT (digest) DO NOTHING",
                entities.digest,
                entities.text,
            )
        return link

    def append_all(self, rows: Sequence[SpoolRow]) -> list[ChainRow]:
        """See :meth:`IOrigins.append`; in few statements, each of which has a price."""
        if not rows:
            return []
        head = self.head()
        seq, last = head.seq, head.hash
        links, texts, beside = list[ChainRow](), list[Row](), list[Row]()
        for row in rows:
            text, before = _text(row.canonical), last
            seq += 1
            last = self._chain_hash(seq, before, row.canonical)
            links.append(
                ChainRow(
                    seq=seq,
                    prev_hash=before,
                    hash=last,
                    canonical=row.canonical,
                    signature=row.signature,
                )
            )
            texts.append((seq, before, last, text, row.signature or None))
            beside += [(seq, one.path, one.salt, one.value) for one in row.personal]
        write_all(self._db, "audit_log (seq, prev_hash, hash, canonical, signature)", texts)
        if self._memory is not None:
            self._memory.head = ChainHead(seq, last)
        if self._appended is not None:
            self._appended.links += links
        write_all(self._db, "personal_values (seq, path, salt, value)", beside)
        return links

    def head(self) -> ChainHead:
        if self._memory is None:
            return self._stored_head()
        if self._memory.head is None:
            self._memory.head = self._stored_head()
        return self._memory.head

    def _stored_head(self) -> ChainHead:
        return _HEAD.one(self._db, "ORDER BY seq DESC LIMIT 1") or ChainHead()

    def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        return tuple(map(_link, self._stored.rows(from_seq, limit)))

    def ends_with(self, links: Sequence[ChainRow]) -> bool:
        """Whether the rows from the first of *links* on are these, and no more."""
        written = [
            (one.seq, one.prev_hash, one.hash, one.canonical, one.signature or None)
            for one in links
        ]
        rows = self._stored.rows(links[0].seq, len(links) + 1)
        if rows == written:
            return True
        # Not as SQLite gives them: PostgreSQL's driver gives memoryviews, and text as text.
        try:
            return [*map(_link, rows)] == [*links]
        except AuditBroken:
            return False

    def tail(self, limit: int) -> tuple[ChainRow, ...]:
        rows = self._db.all(self._stored.select + "ORDER BY seq DESC LIMIT ?", limit)
        return tuple(map(_link, reversed(rows)))

    def by_decision(self, decision_id: str) -> tuple[ChainRow, ...]:
        rows = self._db.all(self._stored.select + "WHERE decision_id = ? ORDER BY seq", decision_id)
        return tuple(map(_link, rows))

    def personal(self, first: int, last: int) -> Mapping[int, tuple[PersonalValue, ...]]:
        found: dict[int, tuple[PersonalValue, ...]] = {}
        for seq, path, salt, value in self._stored.values(first, last):
            one = PersonalValue(path, bytes(salt), value)
            found[seq] = (*found[seq], one) if seq in found else (one,)
        return found

    def erase_personal(self, seq: int, left: PersonalValue | None = None) -> int:
        if left is not None:
            change = "UPDATE personal_values SET salt = ?, value = ? WHERE seq = ? AND path = ?"
            return self._db.change(change, left.salt, left.value, seq, left.path)
        return self._db.change(
            f"DELETE FROM personal_values WHERE seq = ? AND path NOT IN ({marks(len(BESIDE))})",
            seq,
            *BESIDE,
        )

    def slices(
        self, after: str, limit: int, among: Collection[str] | None = None
    ) -> tuple[EntitySlice, ...]:
        if among is not None and not among:
            return ()
        named = "" if among is None else f" AND digest IN ({marks(len(among))})"
        where = f"WHERE digest > ?{named} ORDER BY digest LIMIT ?"
        return _SLICES.all(self._db, where, after, *(among or ()), limit)


@implementer(ILogRepair)
@frozen
class LogRepair:
    """See :class:`ILogRepair`."""

    _db: Statements
    _memory: HeadMemory | None = None

    def cut_after(self, seq: int) -> int:
        for table in ("personal_values", "state_changes", "audit_origins"):
            self._db.change(f"DELETE FROM {table} WHERE seq > ?", seq)
        dropped = self._db.change("DELETE FROM audit_log WHERE seq > ?", seq)
        # What the dropped ones name cannot be asked of them: they may have been altered.
        digest = self._db.member("canonical", "entities_digest")
        self._db.change(
            "DELETE FROM entity_slices WHERE digest IN (SELECT digest FROM entity_slices"
            f" EXCEPT SELECT {digest} FROM audit_log WHERE event IN ({marks(len(DECIDED))}))",
            *sorted(DECIDED),
        )
        if self._memory is not None:
            self._memory.head = None
        return dropped

    def erase_slice(self, digest: str) -> bool:
        return bool(self._db.change("DELETE FROM entity_slices WHERE digest = ?", digest))
