"""Reads and verifies the rows of a log, on one core or on several.

Several processes take the records of the log by turns, each over snapshots
of its own: the rows up to the end that was seen first change no more.  What they
have checked is joined in order by whoever reads it, and as each waits until
its last turn was taken, memory stays bounded.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection

from attrs import frozen

from svc.audit.log.verify import LEAF_BYTES, ChainFault, PersonalOf, VerifiedRange, verified_ranges
from svc.interfaces.facets import IAuditLog
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import FIRST_SEQ
from svc.ops.store import StorePlace, why_unreadable

BATCH = 512
"""Records that one process has in memory at a time."""

TURN = 8192
"""Records that one process checks over one snapshot."""

PATIENCE_SECS = 60.0
"""For one turn of another process; it takes less than one."""

STOP_SECS = 5.0
"""For the end of a process that was asked to end."""

MANY = 4 * TURN
"""So many records are worth the start of processes."""


def cores() -> int:
    """How many processes may check a log at once."""
    return len(os.sched_getaffinity(0)) if "fork" in get_all_start_methods() else 1


@contextmanager
def checked_in_parallel(
    store: StorePlace,
    size: int,
    jobs: int,
    turn: int = TURN,
    patience: float = PATIENCE_SECS,
) -> Iterator[Iterator[VerifiedRange]]:
    """The first *size* records, checked by *jobs* processes that end with the context.

    Entered where no other thread runs and no connection to the store is open: they are forked.
    """
    context = get_context("fork")
    ends: list[Connection] = []
    workers = []
    try:
        for number in range(jobs):
            here, there = context.Pipe(duplex=False)
            ends.append(here)
            turns = range(FIRST_SEQ + number * turn, size + 1, jobs * turn)
            ours = LogParts(store, size, turn)
            worker = context.Process(
                target=ours.work, args=(turns, there, tuple(ends)), daemon=True
            )
            worker.start()
            workers.append(worker)
            there.close()
        yield LogParts(store, size, turn).joined(ends, patience)
    finally:
        for end in ends:
            end.close()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(STOP_SECS)
            worker.kill()
            worker.join()


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles: rows have none, and looking at each takes a tenth of verifying it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _taken(end: Connection, patience: float) -> list[VerifiedRange] | None:
    """The next turn of the process at the other end; None where it gives none in time."""
    with suppress(EOFError, OSError):
        if end.poll(patience):
            found: list[VerifiedRange] | None = end.recv()
            return found
        end.close()  # A turn that comes later would be taken for the one after it.
    return None


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

    def joined(self, ends: Sequence[Connection], patience: float) -> Iterator[VerifiedRange]:
        """What the processes at the other end of *ends* have checked, in order."""
        for turn, first in enumerate(range(FIRST_SEQ, self.size + 1, self.length)):
            found = _taken(ends[turn % len(ends)], patience)
            # Whoever could not check it, was killed or hangs, cannot say why: we find out.
            yield from self.checked(first) if found is None else found

    def work(self, turns: range, out: Connection, inherited: Sequence[Connection]) -> None:
        """Verify the rows that start at each of *turns*; runs in a separate process."""
        for end in inherited:
            end.close()
        with suppress(BrokenPipeError), uncollected():
            for first in turns:
                found = None
                with suppress(Exception):
                    found = self.checked(first)
                out.send(found)

    def checked(self, first: int) -> list[VerifiedRange]:
        """The records of the turn that begins with *first*, over one snapshot."""
        last = min(first + self.length - 1, self.size)

        def look(tx: ITransaction) -> list[VerifiedRange]:
            rows = batches(tx.audit, first, last + 1 - first)
            found = list(verified_ranges(rows, personal_of(tx.audit), first))
            there = sum(len(part.leaves) for part in found) // LEAF_BYTES
            if first + there <= last and not any(part.fault for part in found):
                fault = (first + there, "gap", "the store has no record at this position")
                found.append(VerifiedRange(prev=None, hashes=b"", leaves=b"", fault=fault))
            return found

        return self.store.look("audit verify", look)


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
