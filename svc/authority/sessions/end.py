"""Ends of sessions: reported by a Proxy, left by a dead tunnel, or claimed by no Proxy.

Every open row comes to an end: by its Proxy's report, by a departure notice,
or because its Proxy did not claim it in time after either side was away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.authority.state.recorder import Recorder, node
from svc.errors import LeaseLost, StoreUnavailable
from svc.interfaces.store import IStore, ITransaction
from svc.messages.control import CountedEnd, Departure
from svc.model.audit.events import SESSION_ABANDONED, SESSION_END
from svc.model.audit.record import Event
from svc.model.canonical import Json
from svc.model.session.ending import NOT_CLAIMED, PROXY_GONE, PROXY_REVOKED
from svc.model.session.session import (
    DIRECT,
    IN_TUNNEL,
    UNKNOWN_LANE,
    ReportedEnd,
    Session,
    SessionEnd,
    SessionState,
)
from svc.runtime.services import BackgroundTasks

_log = Logger(namespace="svc_authority")

_BATCH = 1000
"""Sessions ended in one transaction: a store is not held for as long as it takes to end all."""

_OUTCOMES = {
    ReportedEnd.WAS_OPEN: "closed",
    ReportedEnd.ALREADY_ENDED: "recorded",
    ReportedEnd.UNKNOWN: "unknown",
}

_NOT_ITS = _OUTCOMES[ReportedEnd.UNKNOWN]

Outcomes = tuple[tuple[str, str], ...]
"""(session uid, outcome word) in the order asked."""


@define
class SessionEnds:
    """Ends session rows, each with its record in the same transaction.

    Attributes:
        reclaim_secs: How long a Proxy that is away may come back and claim its
            sessions before they are abandoned.
    """

    store: IStore
    recorder: Recorder
    clock: IReactorTime
    now: Callable[[], float]
    tasks: BackgroundTasks
    reclaim_secs: float
    _waiting: dict[str, IDelayedCall] = field(factory=dict)
    _here: set[str] = field(factory=set)
    _heard: set[str] = field(factory=set)
    _direct: set[str] = field(factory=set)
    _revoked: set[str] = field(factory=set)
    asked: dict[str, str] = field(factory=dict, init=False)
    """The open sessions that an operator ends, with the reason; told to Proxies."""

    async def reported(self, proxy_id: str, ended: Iterable[CountedEnd]) -> Outcomes:
        """Record ends that a Proxy reports; sessions of other Proxies are ``unknown`` to it."""

        def end(tx: ITransaction, some: tuple[CountedEnd, ...]) -> Outcomes:
            return tuple((one.session_uid, self._end(tx, proxy_id, one)) for one in some)

        reports = tuple(ended)
        outcomes: Outcomes = ()
        for start in range(0, len(reports), _BATCH):
            some = reports[start : start + _BATCH]
            told = await self.store.run("end sessions", partial(end, some=some))
            outcomes += told
            # A Proxy may name any session; only its own are not told to it any more.
            self._forget(uid for uid, outcome in told if outcome != _NOT_ITS)
            self._say_over(proxy_id, {one.session_uid for one in some}.__contains__)
        return outcomes

    def _say_over(self, proxy_id: str, is_over: Callable[[str], bool]) -> None:
        """What a Proxy says of its sessions that stand on approvals, whatever their rows say."""
        ledger = self.recorder.ledger
        theirs = (one for one in ledger.view.sessions.values() if one.proxy_id == proxy_id)
        over = [one.uid for one in theirs if is_over(one.uid)]
        if over:
            self._forget(over)
            ledger.sessions_over(proxy_id, is_over)

    async def moved(self, proxy_id: str, uids: Iterable[str]) -> None:
        """A Proxy reports which of its open sessions have moved to a direct lane."""
        known_uids = tuple(uids)

        def are_open(tx: ITransaction) -> list[str]:
            found = [tx.sessions.get(uid) for uid in known_uids]
            return [one.uid for one in found if one is not None and _is_open_at(one, proxy_id)]

        if known_uids:
            self._direct.update(await self.store.read("moved sessions", are_open))

    async def departed(self, proxy_id: str, departure: Departure) -> Outcomes:
        """Record the ends of the sessions on a tunnel that died."""
        reason = f"tunnel_{departure.reason}"
        counted = {one.session_uid: one for one in departure.ended}
        return await self.reported(
            proxy_id,
            [counted.get(uid) or CountedEnd(uid, reason) for uid in departure.session_uids],
        )

    async def claimed(self, proxy_id: str, uids: Iterable[str], *, is_known: bool = False) -> int:
        """A Proxy claims the sessions it still carries; its other sessions are abandoned.

        Args:
            proxy_id: The Proxy's.
            uids: What it claims.
            is_known: It is the process that was heard before.  The sessions of any other
                are lost with that, which is what their persons were told.
        """
        self._stop_waiting(proxy_id)
        reason = NOT_CLAIMED if is_known else PROXY_GONE
        kept = frozenset(uids)
        try:
            count = await self._abandon(proxy_id, kept, reason)
        except BaseException:
            # It may never come back: nothing else would wait for it.
            if proxy_id not in self._here and proxy_id not in self._waiting:
                self.away(proxy_id)
            raise
        self._say_over(proxy_id, lambda uid: uid not in kept)
        # What it had open before we first heard of it may have moved without our knowing.
        self._heard.add(proxy_id)
        return count

    def away(self, proxy_id: str) -> None:
        """A Proxy's control connection ended: it has ``reclaim_secs`` to come back."""
        self._here.discard(proxy_id)
        self._stop_waiting(proxy_id)
        self._waiting[proxy_id] = self.clock.callLater(self.reclaim_secs, self._give_up, proxy_id)

    def revoked(self, proxy_id: str) -> None:
        """The Proxy was revoked: it may report nothing more, so its sessions have ended."""
        self._stop_waiting(proxy_id)
        self._revoked.add(proxy_id)
        self.tasks.spawn("abandon sessions", self._give_up_or_wait(proxy_id))

    def back(self, proxy_id: str) -> None:
        """The Proxy follows us again; whatever it carries it has claimed at its greeting."""
        self._here.add(proxy_id)
        self._stop_waiting(proxy_id)

    async def await_claims(self) -> None:
        """At start: give every Proxy with open sessions its time to claim them."""
        sessions = await self.store.read("open sessions", lambda tx: tx.sessions.open())
        self.asked.update({one.uid: one.end_reason for one in sessions if one.end_reason})
        # A Proxy may have come back while the store was read: nothing would stop its wait again.
        for proxy_id in {one.proxy_id for one in sessions} - self._here:
            self.away(proxy_id)

    def stop(self) -> None:
        """Forget the waiting; the next start waits again."""
        for proxy_id in tuple(self._waiting):
            self._stop_waiting(proxy_id)

    def _stop_waiting(self, proxy_id: str) -> None:
        waiting = self._waiting.pop(proxy_id, None)
        if waiting is not None:
            waiting.cancel()

    def _give_up(self, proxy_id: str) -> None:
        del self._waiting[proxy_id]
        self.tasks.spawn("abandon sessions", self._give_up_or_wait(proxy_id))

    async def _give_up_or_wait(self, proxy_id: str) -> None:
        reason = PROXY_REVOKED if proxy_id in self._revoked else PROXY_GONE
        try:
            await self._abandon(proxy_id, frozenset(), reason)
            self._revoked.discard(proxy_id)
        except (StoreUnavailable, LeaseLost) as e:
            _log.warn("sessions not abandoned yet", proxy=proxy_id, reason=e.reason)
            if proxy_id not in self._waiting:
                self.away(proxy_id)

    async def _abandon(self, proxy_id: str, kept: frozenset[str], reason: str) -> int:
        def lost(tx: ITransaction) -> list[Session]:
            return [one for one in tx.sessions.open_of_proxy(proxy_id) if one.uid not in kept]

        def abandon(tx: ITransaction, some: list[Session]) -> int:
            return sum(self._abandon_one(tx, one, reason) for one in some)

        sessions = await self.store.read("lost sessions", lost)
        count = 0
        for start in range(0, len(sessions), _BATCH):
            some = sessions[start : start + _BATCH]
            count += await self.store.run("abandon sessions", partial(abandon, some=some))
            self._forget(one.uid for one in some)
        if count:
            _log.warn("sessions abandoned", proxy=proxy_id, count=count, reason=reason)
        return count

    def _abandon_one(self, tx: ITransaction, session: Session, reason: str) -> bool:
        end = SessionEnd(self.now(), reason, state=SessionState.ABANDONED)
        if tx.sessions.end(session.uid, end) is not ReportedEnd.WAS_OPEN:
            return False
        self._record(tx, SESSION_ABANDONED, session, reason, {"lane": self._lane_of(session)})
        return True

    def _forget(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._direct.discard(uid)
            self.asked.pop(uid, None)

    def _lane_of(self, session: Session) -> str:
        """The lane of a session whose Proxy tells nothing more."""
        if session.uid in self._direct:
            return DIRECT
        return IN_TUNNEL if session.proxy_id in self._heard else UNKNOWN_LANE

    def _end(self, tx: ITransaction, proxy_id: str, ended: CountedEnd) -> str:
        session = tx.sessions.get(ended.session_uid)
        if session is None or session.proxy_id != proxy_id:
            return _NOT_ITS
        end = SessionEnd(
            at=self.now(), reason=ended.reason, bytes_up=ended.bytes_up, bytes_down=ended.bytes_down
        )
        ending = tx.sessions.end(session.uid, end)
        if ending is ReportedEnd.WAS_OPEN:
            self._record_end(tx, session, end, ended.lane)
        return _OUTCOMES[ending]

    def _record_end(self, tx: ITransaction, session: Session, end: SessionEnd, lane: str) -> None:
        details: dict[str, Json] = {
            "bytes_up": end.bytes_up,
            "bytes_down": end.bytes_down,
            "duration_ms": max(0, round((end.at - session.started_at) * 1000)),
            "lane": lane,
        }
        self._record(tx, SESSION_END, session, end.reason, details)

    def _record(
        self,
        tx: ITransaction,
        event: Event,
        session: Session,
        reason: str,
        details: Mapping[str, Json],
    ) -> None:
        self.recorder.append(
            tx,
            event,
            node(session.proxy_id),
            session_uid=session.uid,
            resource_id=session.resource_id,
            resource_kind=session.kind,
            decision_id=session.decision_id,
            reason=reason,
            details={
                **details,
                "proxy_id": session.proxy_id,
                "connector_id": session.connector_id,
            },
        )


def _is_open_at(session: Session, proxy_id: str) -> bool:
    return session.proxy_id == proxy_id and session.state is SessionState.OPEN
