"""Appends or holds queued rows, inside one transaction of the leader.

The invariant: a row leaves the queue in the transaction that appends it, and the
memory of its spool changes in the same one.  So each row is in the log once,
whoever leads and whenever it is killed.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from svc.audit.ingest.sampled import SampledAllow
from svc.audit.ingest.validate import RowVerdict, ValidRow
from svc.audit.log.find import is_repeated
from svc.authority.ingest.origins import is_in_force
from svc.authority.state.recorder import Recorder, node
from svc.authority.state.tables import SignedRows, StateUnsigned
from svc.errors import SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import AUDIT_FILLED, AUDIT_GAP, AUDIT_HELD, SPOOL_CLOSE, SPOOL_OPEN
from svc.model.audit.outbox import AcceptedRow, Hold, QueuedRow, RowClaim
from svc.model.audit.record import Event
from svc.model.audit.replay import (
    Hole,
    RowStanding,
    SpoolMemory,
    accept,
    announce,
    beside,
    due,
    ranges,
)
from svc.model.canonical import Json
from svc.model.session.recorded import RangedRecords


@frozen
class AppliedRows:
    """What a transaction did; acted upon once it is durable.

    Attributes:
        held: The rows that are held from now on, and were not before.
        requests: Of sessions, as their Proxies recorded them, in order.
        sampled: Allowed requests that are to be decided again.
    """

    appended: int
    held: tuple[tuple[QueuedRow, RowVerdict], ...]
    requests: tuple[RangedRecords, ...] = ()
    sampled: tuple[SampledAllow, ...] = ()


MAX_UNKNOWN = 16
"""Former spools that one announcement may bring up of which nothing has come: each makes a row."""


class QueuedRowGone(SvcError):
    """A row is not in the queue any more: it must not be appended from there."""


@define
class QueueTransaction:
    """One transaction's work on the queue; made again whenever the transaction runs."""

    tx: ITransaction
    recorder: Recorder
    at: float
    _rows: SignedRows | None = field(default=None, init=False)
    _signers: dict[str, bool] = field(factory=dict, init=False)
    _memories: dict[tuple[str, str], SpoolMemory] = field(factory=dict, init=False)
    _changed: set[tuple[str, str]] = field(factory=set, init=False)
    _held: list[tuple[QueuedRow, RowVerdict]] = field(factory=list, init=False)
    _filled: dict[tuple[str, str], list[int]] = field(factory=dict, init=False)
    _unlinked: list[tuple[QueuedRow, ValidRow]] = field(factory=list, init=False)
    _accepted: list[AcceptedRow] = field(factory=list, init=False)
    _events: set[str] = field(factory=set, init=False)
    _ids: set[str] = field(factory=set, init=False)
    _requests: list[RangedRecords] = field(factory=list, init=False)
    _sampled: list[SampledAllow] = field(factory=list, init=False)

    def take_all(self, judged: Sequence[tuple[QueuedRow, RowVerdict]]) -> None:
        """Take rows, in order; a question for each would cost a database more than the answer."""
        ids = {one.judged.event_id for _, one in judged if one.judged is not None}
        self._events |= self.tx.origins.events(ids)
        for row, verdict in judged:
            self._take(row, verdict)

    def _take(self, row: QueuedRow, verdict: RowVerdict) -> None:
        """Append a good row, hold a bad one; one whose key is not in force any more waits."""
        judged = verdict.judged
        if judged is None:
            self._hold(row, verdict)
        elif self._is_in_force(row, judged):
            self._settle(row, judged)

    def _settle(self, row: QueuedRow, judged: ValidRow) -> None:
        """Append a row, unless it was before or contradicts those that were."""
        standing = standing_of(self._memory(judged.origin, judged.place.spool_id), judged)
        if standing is RowStanding.BROKEN:
            why = "it does not follow the rows of its spool"
            self._hold(row, RowVerdict(hold=Hold.FORGED, why=why))
            return
        if standing is RowStanding.REPLAYED or judged.event_id in self._events:
            self._hold(row, RowVerdict(hold=Hold.REPLAYED, why="it was accepted before"))
            return
        if not self._ids.isdisjoint(judged.ids) or (
            judged.ids and is_repeated(self.tx, judged.ids)
        ):
            why = "a decision in it is on record already"
            self._hold(row, RowVerdict(hold=Hold.REPLAYED, why=why))
            return
        self._append(row, judged)

    def release(self, row: QueuedRow, judged: ValidRow) -> int:
        """Append a row, whatever the memory says; the record that it becomes."""
        self._append(row, judged)
        self._link()
        return self._accepted[-1].seq

    def _append(self, row: QueuedRow, judged: ValidRow) -> None:
        place, spool = judged.place, (judged.origin, judged.place.spool_id)
        self._unlinked.append((row, judged))
        self._events.add(judged.event_id)
        self._ids.update(judged.ids)
        self._requests.extend(judged.ranged)
        self._sampled.extend(judged.sampled)
        memory = self._memory(*spool)
        is_fresh = judged.event is SPOOL_OPEN and memory == SpoolMemory()
        if memory.standing(place.n, place.prev, judged.hash) is RowStanding.NEW:
            result = accept(memory, place.n, place.prev, judged.hash, self.at)
            memory = result.memory
            if result.filled or memory.lost:
                self._filled.setdefault(spool, []).append(place.n)
            if result.given_up is not None and not result.given_up.is_recorded:
                self._gap(*spool, result.given_up, "too_many_holes")
        else:
            memory = beside(memory, place.n, place.prev, judged.hash)
            self._filled.setdefault(spool, []).append(place.n)
        closed = place.n if judged.event is SPOOL_CLOSE else memory.closed
        if memory.lost or closed != memory.closed:
            memory = evolve(memory, closed=closed, lost=False)
        self._remember(spool, memory)
        if judged.event is SPOOL_OPEN:
            self._announced(judged, is_fresh=is_fresh)

    def _link(self) -> None:
        """Link the rows that were appended since, together: each statement costs as much as one."""
        due, self._unlinked = self._unlinked, []
        for (row, judged), link in zip(
            due, self.tx.origins.append([row.row for row, _ in due]), strict=True
        ):
            place = judged.place
            self._accepted.append(
                AcceptedRow(
                    row_id=row.id,
                    seq=link.seq,
                    event_id=judged.event_id,
                    origin=judged.origin,
                    spool_id=place.spool_id,
                    n=place.n,
                )
            )

    def end(self) -> AppliedRows:
        """Take what was appended out of the queue, and put on record what was held or came late.

        Raises:
            QueuedRowGone: a row left the queue meanwhile; nothing is done.
            AlreadyExists: the log has a row of such a place or event id; nothing is done.
        """
        self._link()
        if self.tx.outbox.drop([one.row_id for one in self._accepted]) != len(self._accepted):
            raise QueuedRowGone(
                "a row left the audit queue while it was drained", reason="row_vanished"
            )
        self.tx.origins.accepted(self._accepted)
        for spool in sorted(self._changed):
            self.tx.spools.keep(*spool, self._memories[spool])
        for (origin, spool_id), numbers in self._filled.items():
            for first, last in ranges(numbers):
                self._record(AUDIT_FILLED, origin, _range(spool_id, first, last))
        self._tell_held()
        return AppliedRows(
            appended=len(self._accepted),
            held=tuple(self._held),
            requests=tuple(self._requests),
            sampled=tuple(self._sampled),
        )

    def tell_due(self, origin: str, spool_id: str, memory: SpoolMemory) -> None:
        """Put on record which rows of a spool are missing for too long."""
        memory, holes = due(memory, self.at)
        for hole in holes:
            self._gap(origin, spool_id, hole, "missing")
        self.tx.spools.keep(origin, spool_id, memory)

    # -- spools

    def _announced(self, judged: ValidRow, *, is_fresh: bool) -> None:
        """A new spool says which ones before it are still kept.

        Of a spool that was known before its announcement came nothing is concluded about
        others: they may be newer than it.
        """
        former, unknown = judged.former, 0
        for spool_id, last in former.items():
            if spool_id != judged.place.spool_id:
                spool = (judged.origin, spool_id)
                if spool not in self._memories and self.tx.spools.memory(*spool) is None:
                    # Rows of former spools come first, so hardly any is unknown by now.
                    unknown += 1
                    if unknown > MAX_UNKNOWN:
                        continue
                result = announce(self._memory(*spool), last, self.at)
                if result.given_up is not None and not result.given_up.is_recorded:
                    self._gap(*spool, result.given_up, "too_many_holes")
                self._remember(spool, _ended(result.memory))
        if not is_fresh:
            return
        unended = dict(self.tx.spools.unended(judged.origin))
        unended.update(
            {
                spool[1]: memory
                for spool, memory in self._memories.items()
                if spool[0] == judged.origin
            }
        )
        for spool_id, memory in sorted(unended.items()):
            ended = memory.closed is not None or memory.lost
            if not ended and spool_id not in former and spool_id != judged.place.spool_id:
                self._remember((judged.origin, spool_id), evolve(memory, lost=True))
                details: dict[str, Json] = {"spool_id": spool_id, "first_n": memory.high + 1}
                self._record(AUDIT_GAP, judged.origin, details, reason="spool_lost")

    def _memory(self, origin: str, spool_id: str) -> SpoolMemory:
        spool = (origin, spool_id)
        if spool not in self._memories:
            self._memories[spool] = self.tx.spools.memory(*spool) or SpoolMemory()
        return self._memories[spool]

    def _remember(self, spool: tuple[str, str], memory: SpoolMemory) -> None:
        self._memories[spool] = memory
        self._changed.add(spool)

    # -- keys

    def _is_in_force(self, row: QueuedRow, judged: ValidRow) -> bool:
        known = self._signers.get(row.row.key_id)
        if known is None:
            known = self._signers[row.row.key_id] = self._still(row, judged)
        return known

    def _still(self, row: QueuedRow, judged: ValidRow) -> bool:
        try:
            if self._rows is None:
                self._rows = self.recorder.rows(self.tx)
            return is_in_force(self._rows, judged.origin, row.row.key_id)
        except StateUnsigned:
            return False

    # -- records

    def _hold(self, row: QueuedRow, verdict: RowVerdict) -> None:
        assert verdict.hold is not None
        if row.hold is verdict.hold:
            return
        if self.tx.outbox.hold(row.id, verdict.hold, self.at):
            self._held.append((row, verdict))

    def _tell_held(self) -> None:
        """One record for rows that stand together: nobody fills the log with bad rows (R12)."""
        groups: dict[tuple[str, str, str], dict[int, RowClaim]] = {}
        loose: dict[str, int] = {}
        for row, verdict in self._held:
            assert verdict.hold is not None
            claim, why = RowClaim.of(row.row), verdict.hold.value
            if claim.n:
                group = groups.setdefault((claim.origin, claim.spool_id, why), {})
                group.setdefault(claim.n, claim)
            else:
                loose[why] = loose.get(why, 0) + 1
        for (origin, spool_id, why), claims in groups.items():
            for first, last in ranges(list(claims)):
                details = _range(spool_id, first, last)
                details["held_event_id"] = claims[first].event_id or None
                self._record(AUDIT_HELD, origin, details, reason=why)
        for why, count in loose.items():
            self._record(AUDIT_HELD, "", {"count": count}, reason=why)

    def _gap(self, origin: str, spool_id: str, hole: Hole, why: str) -> None:
        self._record(AUDIT_GAP, origin, _range(spool_id, hole.first, hole.last), reason=why)

    def _record(
        self, event: Event, origin: str, details: dict[str, Json], reason: str | None = None
    ) -> None:
        self._link()  # in the order in which it happened
        self.recorder.append(
            self.tx,
            event,
            node(self.recorder.origin),
            node_id=origin or None,
            details=details,
            reason=reason,
        )


def standing_of(memory: SpoolMemory, judged: ValidRow) -> RowStanding:
    """How a valid row relates to the memory of its spool; no row may follow the end of a spool."""
    place = judged.place
    standing = memory.standing(place.n, place.prev, judged.hash)
    if standing is RowStanding.NEW and judged.event is SPOOL_CLOSE and place.n < memory.high:
        return RowStanding.BROKEN
    return standing


def _ended(memory: SpoolMemory) -> SpoolMemory:
    """Of a spool that a later one names: its last row is known, so it need not be named again."""
    return memory if memory.closed is not None else evolve(memory, closed=memory.high)


def _range(spool_id: str, first: int, last: int) -> dict[str, Json]:
    return {"spool_id": spool_id, "first_n": first, "last_n": last, "count": last - first + 1}
