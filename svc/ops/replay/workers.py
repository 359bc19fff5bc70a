"""Reads a stretch of the log by turns, in processes that each have one beside them that decides.

A reader has the store and parses no candidate; the process that it feeds has the candidate and no
store.  Turns go round, so that all cores are busy; what was found is joined in their order, and is
what one pair would have found.  A pair is ahead by what a pipe holds, so memory stays bounded.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

from attrs import define, field, frozen

from svc.errors import Fault, SvcError
from svc.model.audit.record import GENESIS
from svc.ops.replay.coverage import ReplayCoverage
from svc.ops.replay.process import ReplayProcess
from svc.ops.replay.reading import RecordedRequestReader
from svc.ops.replay.span import ReplaySpan
from svc.ops.store import StorePlace
from svc.ops.turns import uncollected
from svc.policy.replay.lines import TURN_END
from svc.policy.replay.outcome import ReplayTotals

TURN = 256
"""Records that are read over one snapshot: each may be a batch of 256 requests."""


@frozen
class TurnRead:
    """What a reader found in one turn.

    Attributes:
        prev: What its first row names as the hash before it; None where it has no row.
        last_hash: The hash of its last row.
    """

    prev: bytes | None
    last_hash: bytes
    coverage: ReplayCoverage


@frozen
class ReplayStretch:
    """The records from *first* to *last*, in turns of *length*."""

    place: StorePlace
    span: ReplaySpan
    first: int
    last: int
    length: int = TURN

    @property
    def turns(self) -> range:
        """The first record of each turn."""
        return range(self.first, self.last + 1, self.length)

    def end_of(self, first: int) -> int:
        """The last record of a turn."""
        return min(first + self.length - 1, self.last)


@define
class ReplayWorker:
    """A reader and the process that it feeds, as whoever joins what they find has them."""

    decides: ReplayProcess
    reports: Connection

    def found(self, totals: ReplayTotals) -> bool:
        """Add what the process that decides found in its next turn; whether that was all of it."""
        while True:
            told = self.decides.told()
            if "ends" not in told:  # its reader ended, so it did
                return False
            totals.add(told)
            if told["ends"]:
                return True

    def read(self) -> TurnRead | None:
        """What the reader found in the turn; None where it could not read it."""
        with suppress(EOFError, OSError):
            found: TurnRead | None = self.reports.recv()
            return found
        return None


@define
class ReplayJoin:
    """Joins what the workers find, turn after turn."""

    stretch: ReplayStretch
    totals: ReplayTotals = field(factory=ReplayTotals)
    coverage: ReplayCoverage = field(factory=ReplayCoverage)
    last_hash: bytes = GENESIS
    _begun: bool = field(default=False, init=False)

    def join(self, workers: Sequence[ReplayWorker]) -> None:
        """Take in all turns.

        Raises:
            PolicyRefused: the candidate is refused, took too long, or ended a process.
            AuditBroken: the records are not a chain.
            StoreUnavailable: the store cannot be read.
            SvcError: ``replay_interrupted``: a process that reads ended.
        """
        for number, first in enumerate(self.stretch.turns):
            worker = workers[number % len(workers)]
            is_whole = worker.found(self.totals)
            read = worker.read()
            if not is_whole or read is None or not self._follows(read):
                raise self._fault(first)
            self.coverage.add(read.coverage)
            if read.prev is not None:
                self.last_hash, self._begun = read.last_hash, True
        for worker in workers:
            self.totals.end(worker.decides.told())

    def _follows(self, read: TurnRead) -> bool:
        return not self._begun or read.prev in (None, self.last_hash)

    def _fault(self, first: int) -> SvcError:
        """What is wrong with a turn: whoever could not read it cannot say, so it is read again.

        Raises:
            AuditBroken, StoreUnavailable: that is it.
        """
        reader = RecordedRequestReader(self.stretch.place, self.stretch.span)
        if self._begun:
            reader.first_prev = reader.last_hash = self.last_hash
        reader.give(first, self.stretch.end_of(first), lambda _: None)
        return SvcError(
            "policy replay: a process that reads the log was ended; run it again",
            reason="replay_interrupted",
            fault=Fault.UNAVAILABLE,
        )


@contextmanager
def replay_workers(
    stretch: ReplayStretch, job: bytes, jobs: int
) -> Iterator[Sequence[ReplayWorker]]:
    """*jobs* workers, or one for each turn if these are fewer; they end with the context.

    Entered where no other thread runs and no connection to the store is open: they are forked.

    Args:
        job: The first line for each process that decides.
    """
    context, workers = get_context("fork"), list[ReplayWorker]()
    jobs = max(1, min(jobs, len(stretch.turns)))
    with ExitStack() as ending:
        for number in range(jobs):
            decides = ending.enter_context(ReplayProcess())
            here, there = context.Pipe(duplex=False)
            ending.callback(here.close)
            workers.append(ReplayWorker(decides, here))
            feeder = ReplayFeeder(stretch, job, stretch.turns[number::jobs])
            process = context.Process(target=feeder.work, args=(tuple(workers), there), daemon=True)
            process.start()
            ending.callback(_end, process)
            there.close()
            decides.leave()
        yield workers


def _end(process: ForkProcess) -> None:
    process.kill()
    process.join()


@frozen
class ReplayFeeder:
    """The reader of one worker, in its own process."""

    stretch: ReplayStretch
    job: bytes
    turns: range

    def work(self, workers: Sequence[ReplayWorker], out: Connection) -> None:
        """Read and give each turn, and report it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever joins is interrupted, and ends us
        decides = workers[-1].decides
        for worker in workers:
            worker.decides.only_write()
            worker.reports.close()
        reader = RecordedRequestReader(self.stretch.place, self.stretch.span)
        gc.freeze()  # so that the search after each turn is among what the turn left
        with suppress(BrokenPipeError), uncollected():
            decides.send(self.job)
            for first in self.turns:
                found = None
                with suppress(Exception):
                    found = self._turn(first, reader, decides)
                out.send(found)
                if found is None:
                    return
                gc.collect()

    def _turn(self, first: int, reader: RecordedRequestReader, decides: ReplayProcess) -> TurnRead:
        reader.first_prev = None
        reader.give(first, self.stretch.end_of(first), decides.send)
        decides.send(TURN_END.encode())
        return TurnRead(reader.first_prev, reader.last_hash, reader.covered())
