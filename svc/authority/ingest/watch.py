"""Watches the audit queue on every instance: what waits, what is held, what disappeared.

A row that was seen and is gone was drained or thrown away by an operator, and
then the store says so; anything else took it, and it is counted.  Looked at
and counted over one snapshot, so a pass that fails counts nothing and the next
one counts it once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.audit.outbox import QueueCounts

WATCH_SECS = 5.0
MOST_WATCHED = 1 << 17

_log = Logger(namespace="svc_authority")


@frozen
class QueueMeters:
    """Where the numbers go."""

    depth: Callable[[float], object]
    held: Callable[[float], object]
    oldest_age: Callable[[float], object]
    missing: Callable[[float], object]


@frozen
class _QueueScan:
    counts: QueueCounts
    ids: array[int]
    missing: int


@define
class QueueWatch:
    """This instance's watch over the queue.

    Attributes:
        store: Of the leader or of a follower.
        now: Seconds since the epoch.
        most: So many rows, the oldest, are watched at a time: eight bytes each.
        counts: As of the last pass.
    """

    store: IReadOnlyStore
    now: Callable[[], float]
    meters: QueueMeters
    most: int = MOST_WATCHED
    counts: QueueCounts = field(factory=QueueCounts, init=False)
    _seen: array[int] = field(factory=lambda: array("q"), init=False)

    async def watch(self) -> None:
        """One pass.

        Raises:
            StoreUnavailable: the store could not be looked at; nothing was counted.
        """
        seen = self._seen
        found = await self.store.read("watch the audit queue", lambda tx: self._look(tx, seen))
        self._seen, self.counts = found.ids, found.counts
        if found.missing:
            _log.error("rows left the audit queue and are not in the log", count=found.missing)
            self.meters.missing(found.missing)
        self.tell()

    def tell(self) -> None:
        """Set the gauges, the age as of now."""
        counts = self.counts
        self.meters.depth(counts.rows)
        self.meters.held(counts.held)
        oldest = counts.oldest
        self.meters.oldest_age(0.0 if oldest is None else max(0.0, self.now() - oldest))

    def _look(self, tx: ITransaction, seen: array[int]) -> _QueueScan:
        counts = tx.outbox.counts()
        ids = array("q", tx.outbox.ids(self.most) if counts.rows else ())
        here = set(ids)
        # Past the last one that fitted there may be more: they are not gone, only not watched.
        end = ids[-1] if len(ids) == self.most else None
        gone = [one for one in seen if one not in here and (end is None or one <= end)]
        return _QueueScan(counts, ids, len(gone) - len(tx.origins.reached(gone)) if gone else 0)
