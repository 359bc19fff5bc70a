"""``Control/Spooled``: accepts rows of a Proxy's spool into the audit queue.

A row is taken as it came; the leader judges it later.  Here it is only seen that
the caller brings its own rows, that nobody takes more than its share of the
queue or brings rows faster than an honest Proxy writes them, and that a row
which is there already is not queued again: a Proxy sends until it is told that a
signed head covers what it sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define

from svc.authority.limits import AskRates
from svc.errors import Denied, Fault, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.messages.spooled import SpoolState
from svc.model.audit.batch import entries_claimed
from svc.model.audit.outbox import Offered, QueueCounts
from svc.model.audit.replay import RowStanding, SpoolMemory, accept
from svc.model.audit.spool import SpoolRow, place_of, read_place, row_digest, row_hash
from svc.model.canonical import decode
from svc.model.cluster.node import Node
from svc.ratelimit.quota import EACH, KEPT

MAX_ROWS = 1 << 17
"""Of the whole queue; Proxies have three quarters of it, and one origin an eighth (rule R12)."""

MAX_BYTES = 512 << 20
_LEAST_ENTRIES = 16
"""A batch costs no less than so many requests: its row costs as much as they do."""


class QueueFull(SvcError):
    """The audit queue, or the caller's share of it, is full; the rows stay where they are."""

    fault = Fault.EXHAUSTED
    reason = "audit_queue_full"


@define
class QueueIntake:
    """Accepts rows from Proxies.

    Attributes:
        store: Tells heads of what is committed.
        covered: How many records the newest signed head covers.
        arrived: Told when rows are in the queue.
        rates: How fast one Proxy may bring rows.
    """

    store: IStore
    now: Callable[[], float]
    covered: Callable[[], int]
    arrived: Callable[[], object]
    rates: AskRates
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES

    async def take(self, proxy: Node, spool_id: str, rows: Sequence[SpoolRow]) -> SpoolState:
        """Queue *rows* of that spool of *proxy*, all of them or none; how far the spool is then.

        Raises:
            Malformed: a row says nothing of its place.
            Denied: ``other_origin``: a row is another node's, or of another spool.
            QueueFull: it would have more than its share; nothing was queued.
            TooMany: it brings them too fast; nothing was queued.
            StoreUnavailable, LeaseLost: nothing is promised.
        """
        offered = [self._placed(proxy, spool_id, row) for row in rows]
        covered = self.covered()

        def run(tx: ITransaction) -> tuple[SpoolState, list[Offered]]:
            memory = tx.spools.memory(proxy.id, spool_id) or SpoolMemory()
            fresh = self._fresh(tx, offered) if offered else []
            memory, fresh = self._without_discarded(tx, proxy, spool_id, memory, fresh)
            if fresh:
                self._check_room(tx, proxy, fresh)
                tx.outbox.add(fresh, self.now())
            return _state(tx, proxy.id, spool_id, memory, covered), fresh

        if not offered:
            asked = await self.store.read("how far a spool is", run)
            return asked[0]
        with self.rates.queueing(proxy.id, *_cost(offered)) as told:
            state, queued = await self.store.run("queue rows of a spool", run)
            told(*_cost(queued))
        if queued:
            self.arrived()
        return state

    @staticmethod
    def _placed(proxy: Node, spool_id: str, row: SpoolRow) -> Offered:
        form = decode(row.canonical)
        origin, place = place_of(form)
        if (origin, place.spool_id) != (proxy.id, spool_id):
            raise Denied(
                "spooled: a row names a different origin or spool from the one it was sent with",
                reason="other_origin",
            )
        entries = entries_claimed(form)
        return Offered(row=row, origin=origin, spool_id=spool_id, n=place.n, entries=entries)

    @staticmethod
    def _fresh(tx: ITransaction, offered: Sequence[Offered]) -> list[Offered]:
        """Those that are not there yet, each once."""
        there = set(tx.spools.there(offered))
        fresh: list[Offered] = []
        for one in offered:
            digest = row_digest(one.row)
            if digest not in there:
                there.add(digest)
                fresh.append(one)
        return fresh

    def _without_discarded(
        self,
        tx: ITransaction,
        proxy: Node,
        spool_id: str,
        memory: SpoolMemory,
        fresh: Sequence[Offered],
    ) -> tuple[SpoolMemory, list[Offered]]:
        """Without rows that an operator threw away: that is the end of them.

        The origin itself brings them, so their places are settled, and what follows them goes on.
        """
        digests = {row_digest(one.row): one for one in fresh}
        gone = tx.origins.discarded(proxy.id, spool_id, digests) if digests else frozenset[bytes]()
        if not gone:
            return memory, list(fresh)
        left: list[Offered] = []
        for digest, one in digests.items():
            if digest not in gone:
                left.append(one)
                continue
            place, own = read_place(one.row.canonical)[1], row_hash(one.row.canonical)
            if memory.standing(place.n, place.prev, own) is RowStanding.NEW:
                memory = accept(memory, place.n, place.prev, own, self.now()).memory
        tx.spools.keep(proxy.id, spool_id, memory)
        return memory, left

    def _check_room(self, tx: ITransaction, proxy: Node, fresh: Sequence[Offered]) -> None:
        more = QueueCounts(len(fresh), bytes=sum(_size(one.row) for one in fresh))
        for counts, part in (
            (tx.outbox.counts(proxy.id), 1 / EACH),
            (tx.outbox.counts(), 1 - 1 / KEPT),
        ):
            rows, size = counts.rows + more.rows, counts.bytes + more.bytes
            if rows > self.max_rows * part or size > self.max_bytes * part:
                raise QueueFull(
                    "the audit queue has no room for these rows; they stay in the spool. Held rows "
                    "take room too: see `svc authority audit outbox list`"
                )


def _size(row: SpoolRow) -> int:
    """As the queue counts it, a little more than less."""
    return len(row.canonical) + sum(len(one.value) for one in row.personal)


def _cost(offered: Sequence[Offered]) -> tuple[int, int]:
    """Rows of their own, and the requests in the others, as these say; judged is it later."""
    entries = [one.entries for one in offered if one.entries]
    return len(offered) - len(entries), sum(max(one, _LEAST_ENTRIES) for one in entries)


def _state(
    tx: ITransaction, origin: str, spool_id: str, memory: SpoolMemory, covered: int
) -> SpoolState:
    """How far the spool is durable here without a hole, and how far a signed head covers it."""
    received, before = memory.whole, -1
    while received > before:
        before = received
        received = tx.spools.queued_through(origin, spool_id, received)
        if memory.given_up is None:
            received = memory.through(received)
    uncovered = tx.spools.uncovered(origin, spool_id, covered)
    whole = memory.whole if uncovered is None else min(memory.whole, uncovered - 1)
    return SpoolState(received, whole)
