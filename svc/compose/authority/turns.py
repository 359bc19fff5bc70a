"""Waits for the lease before an Authority leads, and checks the store and the leader meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc import __version__
from svc.audit.checkpoint.exchange import HeadExchange
from svc.authority.ha.lease import Leadership
from svc.authority.ingest.own import OwnSpool
from svc.authority.state.write_probe import StoreWrites
from svc.compose.authority.lifecycle import LEADER, LISTENERS, POLICY, STORE
from svc.compose.authority.parts import Parts
from svc.compose.listeners.rpc import RpcListener
from svc.errors import AuditBroken, LeaseLost, SvcError
from svc.interfaces.store import IReadOnlyStore
from svc.model.audit.events import AUTHORITY_DOUBT, AUTHORITY_STANDBY
from svc.model.audit.record import Event
from svc.model.canonical import Json
from svc.model.cluster.lease import LeaderLease
from svc.runtime.services import AsyncService, PeriodicTask, Readiness, bounded

CHECK_SECS = 5.0
"""Between two checks of an Authority's readiness (G-OPEN-39)."""

_ANSWER_SECS = 2.0
_LAST_WAITS = (0.0, 0.5, 1.0, 2.0)
_log = Logger(namespace="svc_authority")


@define(slots=False, eq=False)
class LeaderGate(AsyncService):
    """What comes after it starts once this Authority leads.

    Until then its ports forward what can be forwarded and answer every other call with who
    leads, so that Proxies turn there; it keeps the leader's heads, and is as ready as one that
    follows can be.

    Attributes:
        exchange: Heads that the leader signs; None where no other Authority can be.
        listeners: Open while we stand by.
        stopped_by: Told when another Authority has taken our lease: the process ends, for
            whoever runs it to start again, because what it began was begun as leader.
        follow: The reload pass while we stand by, every *follow_secs*.
        own: Puts on record what this Authority says while it stands by.
    """

    leadership: Leadership
    exchange: HeadExchange | None
    ready: Readiness
    listeners: Mapping[str, RpcListener]
    stopped_by: Callable[[SvcError], object]
    follow: Callable[[], Awaitable[object]]
    follow_secs: float
    own: OwnSpool
    _is_recorded: bool = field(default=False, init=False)
    _doubted: str = field(default="", init=False)
    _rest: PeriodicTask = field(init=False)

    @_rest.default
    def _to_be_written(self) -> PeriodicTask:
        return PeriodicTask(
            clock=self.leadership.clock,
            interval=CHECK_SECS,
            call=self.own.flush,
            what="records of a former standby",
            at_once=False,
        )

    async def start(self) -> None:
        """Wait for our turn."""
        self.leadership.on_superseded(lambda leader: self.stopped_by(LeaseLost(leader)))
        if self.leadership.lease is None:
            _log.info("standing by", leader=self.leadership.leader)
            try:
                await self._stand_by()
            except CancelledError:
                await self._write_last()
                raise
        if self.own.waiting:
            self._rest.startService()

    async def stop(self) -> None:
        """Write what we said as a standby, where the store has not taken it since."""
        if self._rest.running:
            await self._rest.stopService()
            await self._write_last()

    async def _write_last(self) -> None:
        """The process ends: what is not written in a few tries is lost."""
        for wait in _LAST_WAITS:
            if not self.own.waiting:
                return
            await deferLater(self.leadership.clock, wait)
            await self.own.flush()
        if self.own.waiting:
            _log.error("records of this standby are lost with its process", rows=self.own.waiting)

    async def _stand_by(self) -> None:
        # A follower decides nothing: all it serves is the way to the leader.
        self._follow(self.ready.met)
        for listener in self.listeners.values():
            listener.late.open()
        passes = self._passes()
        for one in passes:
            one.startService()
        try:
            await self.leadership.led()
        finally:
            for one in passes:
                await one.stopService()
            self._follow(self.ready.lost)
            await self.own.close()

    async def _record(self, event: Event, reason: str | None = None, **details: Json) -> bool:
        leader = {"leader_id": self.leadership.leader} if self.leadership.leader else {}
        return await self.own.record(event, {**leader, **details}, reason)

    def _follow(self, report: Callable[[str], None]) -> None:
        for condition in (POLICY, LISTENERS):
            report(condition)

    def _passes(self) -> tuple[PeriodicTask, ...]:
        clock = self.leadership.clock
        return (
            PeriodicTask(
                clock=clock, interval=CHECK_SECS, call=self._take, what="heads of the leader"
            ),
            PeriodicTask(
                clock=clock,
                interval=self.follow_secs,
                call=self.follow,
                what="reload pass of a standby",
            ),
        )

    async def _take(self) -> None:
        if not await self.own.flush():
            self._is_recorded = False
        if not self._is_recorded:
            self._is_recorded = await self._record(AUTHORITY_STANDBY, version=__version__)
        if self.exchange is None:
            return
        try:
            await self.exchange.take()
        except AuditBroken as broken:
            # Said once, and logged at each look.
            if self._doubted != broken.text and await self._record(AUTHORITY_DOUBT, broken.reason):
                self._doubted = broken.text
            raise


@define(slots=False, eq=False)
class StoreReadiness(AsyncService):
    """Whether the store answers and is written to, and the leader is reached: readiness follows.

    Attributes:
        is_leader_there: Whether there is a leader, and we are it or reach it; never raises.
        write: Tries whether the store takes a write, and says so; never raises.
    """

    store: IReadOnlyStore
    leadership: Leadership
    ready: Readiness
    clock: IReactorTime
    is_leader_there: Callable[[], Awaitable[bool]]
    write: Callable[[], Awaitable[object]]

    def __attrs_post_init__(self) -> None:
        self._checks = PeriodicTask(
            clock=self.clock,
            interval=CHECK_SECS,
            call=self._check,
            what="readiness of the store",
            at_once=False,
        )

    async def start(self) -> None:
        """Check, and go on checking."""
        self.leadership.on_change(self._led_or_not)
        await self._check()
        self._checks.startService()

    async def stop(self) -> None:
        """Check no more."""
        await self._checks.stopService()

    async def _check(self) -> None:
        reading = self.store.read("readiness", lambda tx: tx.schema.fact("cluster"))
        try:
            await bounded(self.clock, _ANSWER_SECS, reading, "the store")
        except SvcError as e:
            if not _is_missing(self.ready, STORE):
                _log.error("the store does not answer", reason=e.reason, text=e.text)
            self.ready.lost(STORE)
        else:
            self.ready.met(STORE)
            await self.write()
        self._set_leader_ready(await self.is_leader_there())

    def _led_or_not(self, lease: LeaderLease | None) -> None:
        """Said at once of ourselves; another one is looked for by the next check."""
        self._set_leader_ready(lease is not None)

    def _set_leader_ready(self, there: bool) -> None:
        (self.ready.met if there else self.ready.lost)(LEADER)


def _is_missing(ready: Readiness, name: str) -> bool:
    return name in ready.missing


def store_writes(p: Parts, ready: Readiness) -> StoreWrites:
    """What tries whether the store takes writes."""
    me, now = p.identity.principal.id, p.runtime.now

    async def write() -> None:
        """Write only the heartbeat of this Authority to its registry."""
        if p.serving.is_on:
            await p.store.run("alive", lambda tx: tx.nodes.seen(me, now(), __version__))

    return StoreWrites(write, p.runtime.reactor, ready)
