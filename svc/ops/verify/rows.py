"""Reads and verifies the rows of a log, on one core or on several.

Several processes take the records of the log by turns, each over snapshots
of its own: the rows up to the end that was seen first change no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from attrs import field, frozen

from svc.audit.log.alike import KnownRecords
from svc.audit.log.verify import LEAF_BYTES, ChainFault, PersonalOf, VerifiedRange, verified_ranges
from svc.interfaces.facets import IAuditLog
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import FIRST_SEQ
from svc.ops.store import StorePlace, why_unreadable
from svc.ops.turns import TURN_TIMEOUT_SECS, done_by_turns
from svc.ops.verify.at_once import verified_at_once

BATCH = 128
"""Records that one process has in memory at a time: more do not stay in a processor's cache."""

TURN = 8192
"""Records that one process checks over one snapshot."""

MANY = 4 * TURN
"""So many records are worth the start of processes."""


@contextmanager
def checked_in_parallel(
    store: StorePlace,
    size: int,
    jobs: int,
    turn: int = TURN,
    timeout: float = TURN_TIMEOUT_SECS,
) -> Iterator[Iterator[VerifiedRange]]:
    """The first *size* records, checked by *jobs* processes that end with the context.

    Entered where no other thread runs and no connection to the store is open: they are forked.
    """
    parts = LogParts(store, size, turn)
    turns = range(FIRST_SEQ, size + 1, turn)
    with done_by_turns(turns, parts.checked, jobs, timeout) as done:
        yield parts.joined(done)


@frozen
class LogParts:
    """The log in parts of equal length, the last one excepted.

    Attributes:
        size: How many records there are.
        length: How many of them one turn checks.
    """

    store: StorePlace
    size: int
    length: int
    _known: KnownRecords = field(factory=KnownRecords, init=False)

    def joined(
        self, done: Iterable[tuple[int, list[VerifiedRange] | None]]
    ) -> Iterator[VerifiedRange]:
        """What other processes have checked, in order."""
        for first, found in done:
            # Whoever could not check it, was killed or hangs, cannot say why: we find out.
            yield from self.checked(first) if found is None else found

    def checked(self, first: int) -> list[VerifiedRange]:
        """The records of the turn that begins with *first*, over one snapshot."""
        last = min(first + self.length - 1, self.size)

        def look(tx: ITransaction) -> list[VerifiedRange]:
            found = list(checked_rows(tx, first, last + 1 - first, self._known))
            there = sum(len(part.leaves) for part in found) // LEAF_BYTES
            if first + there <= last and not any(part.fault for part in found):
                fault = (first + there, "gap", "the store has no record at this position")
                found.append(VerifiedRange(prev=None, hashes=b"", leaves=b"", fault=fault))
            return found

        return self.store.look("audit verify", look)


def checked_rows(
    tx: ITransaction,
    first: int = FIRST_SEQ,
    limit: int | None = None,
    known: KnownRecords | None = None,
) -> Iterator[VerifiedRange]:
    """At most *limit* rows from *first* on, checked; they end with the first fault.

    Args:
        known: How records were written that were good.
    """
    known = KnownRecords() if known is None else known
    end = None if limit is None else first + limit
    while end is None or first < end:
        count = BATCH if end is None else min(BATCH, end - first)
        found = _good_at_once(tx, first, count, known)
        parts = [found] if found is not None else _one_by_one(tx, first, count, known)
        begin = first
        for part in parts:
            yield part
            if part.fault is not None:
                return
            first += len(part.leaves) // LEAF_BYTES
        if first == begin:
            return


def _good_at_once(
    tx: ITransaction, first: int, count: int, known: KnownRecords
) -> VerifiedRange | None:
    """At most *count* rows; None unless there are some, and all can be read and are good."""
    with suppress(Exception):  # read one by one, it will be named
        rows = tx.stored.rows(first, count)
        if rows:
            values = tx.stored.values(first, first + len(rows) - 1)
            return verified_at_once(first, rows, values, known)
    return None


def _one_by_one(
    tx: ITransaction, first: int, count: int, known: KnownRecords
) -> Iterator[VerifiedRange]:
    """The same rows; whatever is wrong with one is named."""
    return verified_ranges(batches(tx.audit, first, count), personal_of(tx.audit), first, known)


def batches(
    log: IAuditLog, first: int = FIRST_SEQ, limit: int | None = None
) -> Iterator[Sequence[ChainRow]]:
    """At most *limit* rows from *first* on, in order.

    Raises:
        AuditBroken: one cannot be read; it is named by its number.
    """
    end = None if limit is None else first + limit
    while end is None or first < end:
        count = BATCH if end is None else min(BATCH, end - first)
        try:
            rows = log.rows(first, count)
        except Exception as failed:
            yield from _singly(log, first)
            raise _unreadable(first, failed) from failed
        if not rows:
            return
        yield rows
        first = rows[-1].seq + 1


def _singly(log: IAuditLog, first: int) -> Iterator[Sequence[ChainRow]]:
    """The rows up to the one that cannot be read."""
    for seq in range(first, first + BATCH):
        try:
            rows = log.rows(seq, 1)
        except Exception as failed:
            raise _unreadable(seq, failed) from failed
        if not rows:
            return
        yield rows


def personal_of(log: IAuditLog) -> PersonalOf:
    """The personal values of a range; where it cannot be read, of each record by itself."""

    def personal(first: int, last: int) -> Mapping[int, Sequence[PersonalValue]]:
        try:
            return log.personal(first, last)
        except Exception as failed:
            if first == last:
                raise _unreadable(first, failed) from failed
        found: dict[int, Sequence[PersonalValue]] = {}
        for seq in range(first, last + 1):
            found.update(personal(seq, seq))
        return found

    return personal


def _unreadable(seq: int, failed: Exception) -> ChainFault:
    """Whatever a damaged store answers is a fault of the log."""
    return ChainFault(seq, "unreadable", why_unreadable(failed))
