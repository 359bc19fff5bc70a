"""Reports to the Authority afterwards: ends of sessions and departure notices.

Both wait while Authority is away, and what Authority cannot answer yet is told
again.  The queue of notices is bounded and drops the newest (document 1); what
a dropped notice would have said goes as single ends instead, so that no
session stays open in Authority's books.  What waits longer than a moment is
written down too, and told by the next process if this one is killed.  For the
same reason the queue of ends
never turns one away: a session has its place in it before it is asked for, and
nobody has more than a share of the places (rule R12).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from attrs import define, evolve, field
from google.protobuf.message import Message
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.audit.spool.quota import SpoolQuota
from svc.audit.spool.refusals import full
from svc.errors import Fault, SpoolFull, SvcError, TooMany, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.messages.control import (
    DEPARTED_METHOD,
    END_METHOD,
    CountedEnd,
    Departure,
    departure_message,
    ended_message,
)
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proxy.uplink.journal import END_BYTES, EndsJournal, OwedEnd
from svc.ratelimit.quota import FairQuota
from svc.runtime.services import BackgroundTasks

_log = Logger(namespace="svc_proxy")
_Answer = TypeVar("_Answer", pb.EndSessionsResponse, pb.DepartureAnswer)

MAX_NOTICES = 1024
MAX_ENDS = 100_000
_BATCH = 1000
_TIMEOUT = 10.0
GATHER_SECS = 0.1
"""How long ends gather after the last report, so that many of them go in one."""

_AGAIN_SECS = 5.0
"""How long a report waits after Authority could not take it, though it is there."""

_HOPELESS = frozenset({Fault.INVALID, Fault.UNIMPLEMENTED})
"""Authority will never take it: keeping it would hold up all that follow."""


@define(eq=False)
class Reports:
    """Queues and delivers, in order, one delivery at a time.

    Attributes:
        channel: Gives the channel to Authority or raises while there is none.
        dropped: Called for each notice the full queue dropped.
        answered: Told Authority's outcome word for each session of a notice.
        clock: Times the next try.
        journal: Where what waits is written down.
        room: Of the disk, that ends and the rows of the spool share.
        writable: Raises SvcError while nothing can be recorded here.
        unrecorded: Called with the reason where no session can begin, because the record of its
            end would have no room (rules R9 and R12).
    """

    channel: Callable[[], IRpcChannel]
    tasks: BackgroundTasks
    dropped: Callable[[], object]
    answered: Callable[[str], object]
    clock: IReactorTime
    journal: EndsJournal
    room: SpoolQuota
    writable: Callable[[], object]
    unrecorded: Callable[[str], object]
    _notices: deque[Departure] = field(factory=deque)
    _ends: deque[CountedEnd] = field(factory=deque)
    _places: FairQuota = field(factory=lambda: FairQuota(MAX_ENDS))
    _owed: dict[str, str] = field(factory=dict)
    _shared: set[str] = field(factory=set)
    _ending: dict[str, CountedEnd] = field(factory=dict)
    _left: dict[str, CountedEnd] = field(factory=dict)
    _moved: dict[str, None] = field(factory=dict)
    _unreported: dict[str, None] = field(factory=dict)
    _delivering: bool = False
    _again: IDelayedCall | None = None
    _gathering: IDelayedCall | None = None
    _sent_at: float = float("-inf")

    @property
    def waiting(self) -> int:
        """How many reports Authority has not answered."""
        return len(self._notices) + len(self._ends) + len(self._unreported)

    @property
    def uids(self) -> tuple[str, ...]:
        """The sessions they are about."""
        left = (uid for notice in self._notices for uid in notice.session_uids)
        return (*left, *(one.session_uid for one in self._ends))

    def recover(self, owed: Iterable[OwedEnd]) -> None:
        """Send first what a former process of this Proxy had not reported yet."""
        for one in owed:
            uid = one.ended.session_uid
            if one.person_id and self._places.take(one.person_id):
                self._owed[uid] = one.person_id
                self.room.found(END_BYTES)
            self._ending[uid] = one.ended
            self._ends.append(one.ended)

    def check(self) -> None:
        """Return if something can be recorded here; before anything is asked.

        Raises:
            SvcError: the disk does not take it, or there is no room for what others cause.
        """
        self._check_disk()
        if not self.room.has_for_others:
            raise self._full()

    def _check_disk(self) -> None:
        try:
            self.writable()
            if self.journal.failed is not None:
                raise self.journal.failed
        except (SpoolFull, Unavailable) as e:
            self.unrecorded(e.reason)
            raise

    def _full(self) -> SpoolFull:
        refusal = full()
        self.unrecorded(refusal.reason)
        return refusal

    def expect(self, uid: str, person_id: str) -> None:
        """Keep a place for the end of a session that is about to be asked for, here and on disk.

        Raises:
            TooMany: the person has its share of the places, or few are left: Authority
                has not taken the ends of what was open before.
            SpoolFull: so it is with room on the disk.
            Unavailable: the disk refuses what is to be recorded.
        """
        self._check_disk()
        if uid in self._owed:
            return
        if not self._places.take(person_id):
            raise TooMany(
                "too many session ends are waiting to be reported to Authority; try again",
                retry_after=_AGAIN_SECS,
            )
        if not self.room.take(END_BYTES, person_id):
            self._places.give_back(person_id)
            raise self._full()
        self._owed[uid] = person_id
        self._shared.add(uid)

    def not_owed(self, uid: str) -> None:
        """Nothing was granted: its place is free, unless a doubtful end of it waits."""
        if uid not in self._ending:
            self._free(uid)

    def moved(self, uid: str) -> None:
        """An open session has moved to a direct lane: Authority records it if we are lost."""
        self._moved[uid] = self._unreported[uid] = None
        self.deliver()

    def connected(self) -> None:
        """A channel is open, perhaps to an Authority that does not know which sessions moved."""
        self._unreported.update(self._moved)
        self.deliver()

    def _forget_lane(self, uid: str) -> None:
        self._moved.pop(uid, None)
        self._unreported.pop(uid, None)

    def left_behind(self, ended: CountedEnd) -> None:
        """The departure notice that names this session comes in the same turn."""
        self._forget_lane(ended.session_uid)
        self._left[ended.session_uid] = ended

    def departed(self, departure: Departure) -> None:
        """Queue one notice; the newest is dropped when the queue is full."""
        ends = [self._as_counted(uid, departure.reason) for uid in departure.session_uids]
        departure = evolve(departure, ended=tuple(ends))
        if len(self._notices) < MAX_NOTICES:
            self._notices.append(departure)
            for one in ends:
                self._write_down(one)
        else:
            _log.warn("a departure notice was dropped", node=departure.tunnel_node_id)
            self.dropped()
            for one in ends:
                self._add(one)
        self.deliver()

    def _as_counted(self, uid: str, reason: str) -> CountedEnd:
        counted = self._left.pop(uid, None) or self._ending.get(uid)
        return counted or CountedEnd(uid, f"tunnel_{reason}")

    def ended(self, ended: CountedEnd) -> None:
        """Queue one end; it is sent at once if no report was sent a moment ago."""
        self._forget_lane(ended.session_uid)
        self._add(ended)
        if not self._delivering and self._gathering is None:
            self._gather()

    def _gather(self) -> None:
        """Send the ends that wait once others have had time to join them."""
        left = self._sent_at + GATHER_SECS - self.clock.seconds()
        if left > 0:
            self._gathering = self.clock.callLater(left, self.deliver)
        else:
            self.deliver()

    def deliver(self) -> None:
        """Send the waiting reports, unless that is in progress; also called when the Authority is
        back.
        """
        gathering, self._gathering = self._gathering, None
        if gathering is not None and gathering.active():
            gathering.cancel()
        if not self._delivering and self.waiting:
            self._delivering = True
            self.tasks.spawn("deliver reports", self._deliver())

    def _add(self, ended: CountedEnd) -> None:
        if len(self._ends) >= MAX_ENDS:
            _log.error("the report of a session's end was dropped", session=ended.session_uid)
            return
        self._ending[ended.session_uid] = ended
        self._ends.append(ended)
        self._write_down(ended)

    def _write_down(self, ended: CountedEnd) -> None:
        self.journal.add(OwedEnd(ended, self._owed.get(ended.session_uid, "")))

    def _free(self, uid: str) -> None:
        person_id = self._owed.pop(uid, None)
        if person_id is not None:
            self._places.give_back(person_id)
            held = {person_id: END_BYTES} if uid in self._shared else {}
            self.room.give_back(END_BYTES, held)
            self._shared.discard(uid)

    def _taken(self, ended: Iterable[str]) -> None:
        """Authority has answered for good."""
        for uid in ended:
            self._ending.pop(uid, None)
            self._free(uid)
            self.journal.answered(uid)

    async def _deliver(self) -> None:
        try:
            channel = self.channel()
            while self.waiting:
                was_notice = bool(self._notices)
                if not await self._deliver_some(channel):
                    self._try_again()
                    return
                is_more = was_notice or self._notices or self._unreported
                if not is_more and len(self._ends) < _BATCH:
                    break  # what has ended meanwhile waits for others
        except SvcError as e:
            _log.info("reports are waiting for Authority", waiting=self.waiting, reason=e.reason)
            if e.reason != "authority_unreachable":
                self._try_again()
            return
        finally:
            self._delivering = False
        if self._ends:
            self._gather()

    def _try_again(self) -> None:
        """Later; there is no other occasion while Authority stays connected."""
        if self._again is None or not self._again.active():
            self._again = self.clock.callLater(_AGAIN_SECS, self.deliver)

    async def _deliver_some(self, channel: IRpcChannel) -> bool:
        """Deliver the notice, or the batch of ends, that is next; False where all is deferred."""
        self._sent_at = self.clock.seconds()
        if self._notices:
            return await self._notice(channel, self._notices[0])
        batch = list(islice(self._ends, _BATCH))
        moved = list(islice(self._unreported, _BATCH))
        answer = await self._unary(
            channel, END_METHOD, ended_message(batch, moved), pb.EndSessionsResponse
        )
        for uid in moved:
            self._unreported.pop(uid, None)
        for _ in batch:
            self._ends.popleft()
        late = _deferred(answer)
        self._ends.extend(one for one in batch if one.session_uid in late)
        self._taken(one.session_uid for one in batch if one.session_uid not in late)
        return len(late) < len(batch) or bool(moved)

    async def _notice(self, channel: IRpcChannel, notice: Departure) -> bool:
        answer = await self._unary(
            channel, DEPARTED_METHOD, departure_message(notice), pb.DepartureAnswer
        )
        self._notices.popleft()
        for one in () if answer is None else answer.outcomes:
            self.answered(one.outcome)
        late = _deferred(answer)
        left = tuple(uid for uid in notice.session_uids if uid in late)
        self._taken(uid for uid in notice.session_uids if uid not in late)
        if left:
            ended = tuple(one for one in notice.ended if one.session_uid in late)
            self._notices.append(evolve(notice, session_uids=left, ended=ended))
        return len(left) < len(notice.session_uids) or not left

    async def _unary(
        self, channel: IRpcChannel, method: str, request: Message, answer: type[_Answer]
    ) -> _Answer | None:
        """What Authority answers; None where it will never take the report."""
        try:
            return await channel.unary(method, request, answer, timeout=_TIMEOUT)
        except SvcError as e:
            if e.fault not in _HOPELESS:
                raise
            _log.error("Authority refuses a report", reason=e.reason, text=e.text)
            return None


def _deferred(answer: pb.EndSessionsResponse | pb.DepartureAnswer | None) -> frozenset[str]:
    outcomes = () if answer is None else answer.outcomes
    return frozenset(one.session_uid for one in outcomes if one.outcome == "deferred")
