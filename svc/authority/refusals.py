"""Records refusals in bounded number, so that nobody can fill the log with them (rule R12).

Each source (a Proxy, a Connector, the join listener) has its share of records.
What is refused past it, and what a budget refused, is counted only; once a
minute, and when the role stops, each count becomes one record.  A summary
names who was refused and by which budget, and nothing of what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.state.recorder import ANONYMOUS, RecordedOnce, Recorder
from svc.errors import SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import Actor, rfc3339
from svc.model.canonical import Json
from svc.ratelimit.counter import RefusalCounter, RefusedCount
from svc.ratelimit.limits import Buckets, Rate
from svc.runtime.services import AsyncService

_log = Logger(namespace="svc_authority")

WINDOW_SECS = 60.0
JOINERS = ANONYMOUS
"""The source that stands for everybody without a certificate."""

_RECORDS = Rate(per_minute=60, burst=60)


@define
class _OwedSummary:
    """Counts that one transaction writes down."""

    counts: tuple[RefusedCount, ...]
    record: RecordedOnce = field(factory=RecordedOnce)


@define
class RefusalRecords:
    """Writes a refusal's record while its source's share lasts.

    Attributes:
        refusal_counter: What got no record; the budgets count into it too.
    """

    store: IStore
    recorder: Recorder
    clock: IReactorTime
    now: Callable[[], float]
    refusal_counter: RefusalCounter = field()
    _buckets: Buckets = field(factory=lambda: Buckets(_RECORDS))
    _owed: _OwedSummary | None = field(default=None, init=False)

    @refusal_counter.default
    def _own_counter(self) -> RefusalCounter:
        return RefusalCounter(self.now)

    async def write(
        self, source: Actor, desc: str, record: Callable[[ITransaction], object]
    ) -> bool:
        """Record one refusal or count it; return whether it got its own record.

        Args:
            source: The node that is answerable for it, or ``JOINERS``.
            record: Appends the record; run inside a transaction.

        Raises:
            StoreUnavailable: the store did not take it.
        """
        if self._buckets.take(source.id, self.clock.seconds()):
            self.refusal_counter.add(source, "joins" if source == JOINERS else "records")
            return False
        await self.store.run(desc, record)
        return True

    async def summarise(self) -> None:
        """Record what was counted since the last time; called once a minute.

        What the store did not say that it took stays as it was counted: it may be in the log,
        and would be in a second summary if it were counted together with what followed.

        Raises:
            StoreUnavailable: the store did not take it; it is owed.
        """
        if self._owed is not None:
            await self._write(self._owed)
        counts = self.refusal_counter.take()
        if counts:
            self._owed = _OwedSummary(counts)
            await self._write(self._owed)

    async def _write(self, owed: _OwedSummary) -> None:
        def append(tx: ITransaction) -> ChainRow:
            return self._summaries(tx, owed.counts)

        await self.store.run("summarise refusals", lambda tx: owed.record.append(tx, append))
        self._owed = None
        _log_counts(owed.counts)

    def _summaries(self, tx: ITransaction, counts: Iterable[RefusedCount]) -> ChainRow:
        """Append a record for each; the last one."""
        return [self._summary(tx, one) for one in counts][-1]

    def _summary(self, tx: ITransaction, one: RefusedCount) -> ChainRow:
        details: dict[str, Json] = {
            "count": one.count,
            "since": rfc3339(one.first),
            "until": rfc3339(one.last),
        }
        # Of a Proxy it may be what it brought, of the others what they asked themselves.
        node_id = one.caller.id if one.caller.kind == "node" else None
        return self.recorder.append(
            tx,
            REFUSALS_SUMMARY,
            one.caller,
            node_id=node_id,
            reason=one.budget,
            details=details,
        )


def _log_counts(counts: Iterable[RefusedCount]) -> None:
    for one in counts:
        _log.warn(
            "refusals without a record each",
            caller=one.caller.id,
            budget=one.budget,
            count=one.count,
        )


@define(slots=False, eq=False)
class FinalSummary(AsyncService):
    """Writes at the stop what was counted since the last minute; stopped before the store is."""

    refusals: RefusalRecords

    async def stop(self) -> None:
        """Write."""
        try:
            await self.refusals.summarise()
        except SvcError as e:
            _log.warn("the last refusals are in no summary", reason=e.reason)
