"""The last record that this Authority wrote, as long as it leads.

The invariant: while one Authority leads nobody else appends.  So a write goes on
from exactly the end that the write before left, and a record past that end was
put there by somebody who only can write to the store.

A transaction whose commit is not known yet, or whose answer was lost, may be in
the store or not.  It is ours by the hash of its last record, which covers every
record before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

from attrs import define, field

from svc.errors import AuditBroken
from svc.model.audit.ledger import ChainHead, ChainRow

Rows = Callable[[int, int], Iterable[ChainRow]]
"""At most so many links from a sequence number on, in order."""

NAMED = 512
"""Rows looked at to name the first record that is not ours: more than a group commit holds."""


class ForeignRecord(AuditBroken):
    """Somebody other than the leader put a record into the log; the text names it."""

    reason = "audit_foreign_record"

    @classmethod
    def at(cls, seq: int) -> ForeignRecord:
        """The refusal; *seq* is the first such record."""
        return cls(
            f"audit log: record {seq} was not written by this Authority, which leads: "
            "somebody else put it into the store; nothing is appended, and no head will cover it"
        )


@define
class WriterPosition:
    """See the module.

    Transactions run in the store's thread and are committed for the reactor's, so a lock
    guards what both change.  Nothing is refused before :meth:`take_over`.

    Attributes:
        known: The end of the log after our last committed transaction, or after the takeover.
    """

    known: ChainHead = field(factory=ChainHead, init=False)
    _is_exact: bool = field(default=False, init=False)
    _unsure: set[ChainHead] = field(factory=set, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    @property
    def to_sign(self) -> ChainHead | None:
        """The last record that is ours; None before the takeover."""
        return self.known if self._is_exact else None

    def take_over(self, end: ChainHead) -> None:
        """Lead from *end*, whose records were verified; nobody else may write from now on."""
        with self._lock:
            self.known, self._is_exact = end, True

    def left(self, before: ChainHead, end: ChainHead) -> None:
        """A transaction that is about to commit appended after *before*; in its thread."""
        with self._lock:
            # What was left past it by others of ours was undone: one transaction writes at a time.
            self._unsure = {one for one in self._unsure if one.seq <= before.seq}
            self._unsure.add(end)

    def committed(self, end: ChainHead, records: int = 0) -> int:
        """A transaction with this end of the log is durable; called on the reactor.

        Args:
            records: How many it appended.

        Returns:
            How many want a head since the last call: those of transactions before it whose
            answer was lost, or that nobody waited for, are among them, each counted once.
        """
        before = self.known.seq
        if end.seq > before:
            with self._lock:
                self.known = end
                self._unsure = {one for one in self._unsure if one.seq > end.seq}
        return self.known.seq - before if self._is_exact else records

    def require(self, end: ChainHead, rows: Rows) -> None:
        """Return if everything up to *end* is ours; in the thread of a transaction.

        Raises:
            ForeignRecord: it is not.
        """
        known = self.known
        if not self.is_ours(end):
            raise ForeignRecord.at(self.first_foreign(rows(known.seq + 1, NAMED)))

    def is_ours(self, end: ChainHead) -> bool:
        """Whether the log may end there; records before the known end are checked elsewhere."""
        with self._lock:
            is_past = self._is_exact and end.seq > self.known.seq
            return not is_past or end in self._unsure

    def first_foreign(self, rows: Iterable[ChainRow]) -> int:
        """The first record that is not ours, of *rows* past the known end."""
        with self._lock:
            unsure, last = set(self._unsure), self.known.seq
        for row in rows:
            if ChainHead(row.seq, row.hash) in unsure:
                last = row.seq
        return last + 1
