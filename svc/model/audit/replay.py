"""Which rows of a spool were accepted: a high-water mark and its holes (rule R11).

The memory of a spool is exact and of fixed size, because an origin numbers its
rows without leaving one out.  It also knows the hashes at the edges of each
hole, so a row that comes late must fit the rows on both its sides.  Pure; the
leader keeps the memory in the store, in the transaction of what it accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import evolve, field, frozen

from svc.model.audit.ledger import GENESIS
from svc.model.audit.spool import FIRST_N

MAX_HOLES = 64
"""Holes remembered for one spool.  Past them the oldest is given up, told as a gap: a row
of it that comes later cannot be told from a replayed one, so it is held as one."""

GAP_SECS = 600.0
"""A hole that stays so long is told."""


class RowStanding(Enum):
    """What a row is to the memory of its spool."""

    NEW = "new"
    REPLAYED = "replayed"
    BROKEN = "broken"
    """It names another row before it, or follows the end of its spool: the origin's one key
    would have signed two histories."""


@frozen
class Hole:
    """Rows that are missing.

    Attributes:
        first: Number of the first one.
        last: Of the last one.
        before: :func:`svc.model.audit.spool.row_hash` of the row before it; None: not known.
        after: The hash that the row behind it names; None: that row is not known either.
        since: When it was first seen, in seconds since the epoch.
        is_recorded: Whether it is on record as a gap.
    """

    first: int
    last: int
    before: bytes | None = field(repr=False)
    after: bytes | None = field(repr=False)
    since: float
    is_recorded: bool = False

    @property
    def count(self) -> int:
        """How many rows are missing."""
        return self.last - self.first + 1


@frozen
class SpoolMemory:
    """What is known of one spool.

    Attributes:
        high: Each row up to this one was accepted, or is in a hole.
        top: Hash of the row *high*; None: not known.
        closed: Number of the row that ended it; None: it goes on.
        lost: Whether its end is on record as a gap without one.
        given_up: The first row of a hole that is remembered no more; None: there is none.
    """

    high: int = FIRST_N - 1
    top: bytes | None = field(default=GENESIS, repr=False)
    holes: tuple[Hole, ...] = ()
    closed: int | None = None
    lost: bool = False
    given_up: int | None = None

    @property
    def whole(self) -> int:
        """Each row up to this one was accepted."""
        whole = self.holes[0].first - 1 if self.holes else self.high
        return whole if self.given_up is None else min(whole, self.given_up - 1)

    def through(self, n: int) -> int:
        """The last of the accepted rows that follow row *n* without a hole; *n* where none does."""
        for hole in self.holes:
            if hole.last > n:
                return max(n, hole.first - 1)
        return max(n, self.high)

    def standing(self, n: int, prev: bytes, row_hash: bytes) -> RowStanding:
        """What the row *n* is, that names *prev* and has *row_hash* itself."""
        if n <= self.high:
            hole = self._hole_of(n)
            if hole is None:
                return RowStanding.REPLAYED
            before = hole.before if n == hole.first else None
            after = hole.after if n == hole.last else None
        else:
            if self.closed is not None and n > self.closed:
                return RowStanding.BROKEN
            before, after = (self.top if n == self.high + 1 else None), None
        fits = before in (None, prev) and after in (None, row_hash)
        return RowStanding.NEW if fits else RowStanding.BROKEN

    def _hole_of(self, n: int) -> Hole | None:
        return next((hole for hole in self.holes if hole.first <= n <= hole.last), None)


@frozen
class ReplayedRow:
    """What accepting a row made of the memory.

    Attributes:
        filled: The row is of a hole that was told as a gap.
        given_up: A hole that is remembered no more.
    """

    memory: SpoolMemory
    filled: bool = False
    given_up: Hole | None = None


def accept(
    memory: SpoolMemory,
    n: int,
    prev: bytes,
    row_hash: bytes,
    at: float,
    most: int | None = MAX_HOLES,
) -> ReplayedRow:
    """The memory once the row *n* was accepted; its standing is ``NEW``.

    Args:
        at: Seconds since the epoch; when a hole that this row shows was seen.
        most: So many holes are remembered; None: all.
    """
    if n == memory.high + 1 and not memory.holes:
        # Nearly every row; evolve would cost several times as much.
        end = (memory.closed, memory.lost, memory.given_up)
        return ReplayedRow(SpoolMemory(n, row_hash, (), *end))
    if n > memory.high:
        holes = memory.holes
        if n > memory.high + 1:
            holes = (
                *holes,
                Hole(first=memory.high + 1, last=n - 1, before=memory.top, after=prev, since=at),
            )
        known = beside(evolve(memory, holes=holes), n, prev, row_hash)
        return _bounded(evolve(known, high=n, top=row_hash), False, most)
    place = next(at for at, hole in enumerate(memory.holes) if hole.first <= n <= hole.last)
    hole = memory.holes[place]
    left = evolve(hole, last=n - 1, after=prev)
    right = evolve(hole, first=n + 1, before=row_hash)
    parts = [part for part in (left, right) if part.count > 0]
    holes = (*memory.holes[:place], *parts, *memory.holes[place + 1 :])
    return _bounded(beside(evolve(memory, holes=holes), n, prev, row_hash), hole.is_recorded, most)


def beside(memory: SpoolMemory, n: int, prev: bytes, row_hash: bytes) -> SpoolMemory:
    """The memory after learning which rows may come before and after row *n*.

    Of a row that was accepted past the memory, too: what was given up may lie beside a hole.
    """
    holes = memory.holes
    if any(n in (hole.first - 1, hole.last + 1) for hole in holes):
        holes = tuple(
            evolve(
                hole,
                before=row_hash if hole.first == n + 1 else hole.before,
                after=prev if hole.last == n - 1 else hole.after,
            )
            for hole in holes
        )
    return evolve(memory, holes=holes, top=row_hash if n == memory.high else memory.top)


def announce(memory: SpoolMemory, last: int, at: float) -> ReplayedRow:
    """The memory after the origin announced that it still has the spool, up to row *last*.

    What of it has not come is awaited from now on, as a hole.
    """
    if last <= memory.high:
        return ReplayedRow(memory)
    hole = Hole(first=memory.high + 1, last=last, before=memory.top, after=None, since=at)
    return _bounded(
        evolve(memory, high=last, top=None, holes=(*memory.holes, hole)), False, MAX_HOLES
    )


def due(memory: SpoolMemory, at: float) -> tuple[SpoolMemory, tuple[Hole, ...]]:
    """The gaps to report at *at*, and the memory in which they are marked as reported."""
    found = tuple(
        hole for hole in memory.holes if not hole.is_recorded and at - hole.since >= GAP_SECS
    )
    if not found:
        return memory, ()
    return evolve(
        memory,
        holes=tuple(
            evolve(hole, is_recorded=True) if hole in found else hole for hole in memory.holes
        ),
    ), found


def ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """*numbers* as ranges, in order."""
    found: list[tuple[int, int]] = []
    for n in sorted(set(numbers)):
        if found and found[-1][1] == n - 1:
            found[-1] = (found[-1][0], n)
        else:
            found.append((n, n))
    return found


def _bounded(memory: SpoolMemory, filled: bool, most: int | None) -> ReplayedRow:
    if most is None or len(memory.holes) <= most:
        return ReplayedRow(memory, filled)
    oldest = min(memory.holes, key=lambda hole: (hole.since, hole.first))
    kept = tuple(hole for hole in memory.holes if hole is not oldest)
    first = oldest.first if memory.given_up is None else min(oldest.first, memory.given_up)
    return ReplayedRow(evolve(memory, holes=kept, given_up=first), filled, oldest)
