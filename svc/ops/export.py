"""Lines of an export, made of the records that a head covers, on one core or on several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import field, frozen

from svc.audit.log.alike import KnownRecords
from svc.audit.log.covered import CoveredChain, CoveredPart, CoveredRow, ReadEntries, covered_part
from svc.ops.turns import done_by_turns

TURN = 256
"""Records of which a process has the lines in memory: each may be a batch of 256 requests."""

MANY_LINES = 16 * TURN
"""So many records are worth the start of processes."""


@frozen
class CoveredLines:
    """What *lines_of* makes of each record.

    Attributes:
        read: Opens the store for each call; it is called in other processes, too.
    """

    read: ReadEntries
    lines_of: Callable[[CoveredRow], Iterable[str]]
    _known: KnownRecords = field(factory=KnownRecords, init=False)

    def past(self, chain: CoveredChain, jobs: int, turn: int = TURN) -> Iterator[str]:
        """The lines past what the chain reached, made by *jobs* processes; several may be joined.

        What is wrong with a record is raised after the lines before it, as one process would.

        Raises:
            ChainFault: naming the first record that is not as it was.
        """
        turns = range(chain.seq + 1, chain.end + 1, turn)
        if jobs > 1 and len(turns) > 1:
            with done_by_turns(
                turns, lambda first: self._part(first, chain.end, turn), jobs
            ) as done:
                for _, part in done:
                    if part is None or not chain.join(part):
                        break  # whoever could not make it cannot say why: we find out
                    yield "\n".join(part.lines)
        for entry in chain.entries(self.read, requests=True):
            yield from self.lines_of(entry)

    def _part(self, first: int, end: int, turn: int) -> CoveredPart:
        count = min(turn, end + 1 - first)
        return covered_part(self.read, first, count, self.lines_of, self._known, requests=True)
