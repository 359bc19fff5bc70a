"""The connection to the Authority: greeted, kept, and dialed again when it is lost.

Whoever needs Authority asks for the channel and is refused at once while
there is none: an open is never kept waiting for a connection.  Before a
certificate shown on the connection ends, another one is greeted and followed
first, and then takes its place: there is no moment without a channel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import LeaseLost, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel, IRpcStream
from svc.messages.control import (
    HELLO_METHOD,
    MAX_SESSIONS,
    AuthorityGreeting,
    hello_message,
    read_lanes,
)
from svc.messages.snapshot import SNAPSHOT_METHOD, SnapshotFrame, decode_frame
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proxy.uplink.pool import AuthorityPool
from svc.rpc.max_age import Freshness, Shown, close_when_idle
from svc.runtime.backoff import Backoff
from svc.runtime.services import BackgroundTasks, bounded, cancel

_log = Logger(namespace="svc_proxy")

UNCONFIGURED = "authority_unconfigured"
_HELLO_SECS = 10.0
_FIRST_FRAME_SECS = 2.0
"""How long a fresh connection waits for its first snapshot before it counts as there."""

_FIRST_WAIT = 0.4
_LONGEST_WAIT = 5.0
_LONGEST_ROUND = 1.0
"""Between two rounds where there are several: one of them takes over within seconds."""

_STEADY_SECS = 10.0
"""A connection that held this long wipes the failures before it."""

_SILENCE_SECS = 20.0
"""Heartbeats come every few seconds; a follow that is silent this long is dialed again."""


@frozen(eq=False)
class _Followed:
    """One greeted connection, to which member, what it shows, and its stream of snapshots."""

    at: int
    channel: IRpcChannel
    shown: Shown
    stream: IRpcStream


@define(slots=False, eq=False)
class AuthorityLink(Service):
    """Keeps the control connection.

    Attributes:
        dial: Opens a channel to the pool's current Authority, TLS done and its principal
            checked; None where the configuration names no Authority: then there is never a
            channel.
        take: Takes each snapshot frame; what it raises ends the connection.
        have: Digest of the bundle already held.
        claims: Uids of the sessions this Proxy carries, said at each greeting.
        jitter: Makes the wait out of the backoff's seconds.
        fresh: Says when the connection is to be made again.
        dial_secs: For the connection, TLS included.
        pool: The Authorities there are; turned to the next one when a dial or a connection fails.
        head: The greatest signed head of the audit log that is kept here, said at each greeting.
        lanes: What the Authority that was greeted last said of itself.
        member: Which of the pool that was: its ports are of no other.
        revoked: Called whenever Authority says that this Proxy was revoked.
        peer_address: Where other Proxies reach this one, said at each greeting; empty: nowhere.
    """

    clock: IReactorTime
    dial: Callable[[], Awaitable[IRpcChannel]] | None
    take: Callable[[SnapshotFrame], Awaitable[None]]
    have: Callable[[], bytes]
    claims: Callable[[], Iterable[str]]
    jitter: Callable[[float], float]
    version: str
    instance_id: str
    head: Callable[[], bytes]
    revoked: Callable[[], object]
    fresh: Freshness = field()
    dial_secs: float = 15.0
    peer_address: Callable[[], str] = str
    pool: AuthorityPool[Any] = field(factory=lambda: AuthorityPool((None,)))
    lanes: AuthorityGreeting | None = None
    member: Any = None
    _followed: _Followed | None = None
    _running_loop: Deferred[None] | None = None
    _on_connected: list[Callable[[], object]] = field(factory=list)
    _waiting: list[Deferred[IRpcChannel]] = field(factory=list)
    _since: float | None = None
    _is_beating: bool = False
    _attempt: Deferred[None] | None = None
    _is_hurried: bool = False
    _ended_at: int = 0
    _move_due: Deferred[None] | None = None
    _dialing: DeferredLock = field(factory=DeferredLock)
    _taking: DeferredLock = field(factory=DeferredLock)
    _left: BackgroundTasks = field(factory=BackgroundTasks)

    @fresh.default
    def _ageless(self) -> Freshness:
        return Freshness(self.clock)

    def startService(self) -> None:
        """Begin to dial; does not wait for the first connection."""
        Service.startService(self)
        self._left.startService()
        if self.dial is None:
            _log.warn("no Authority is configured, so no session can open; set endpoints.authority")
            return
        self._running_loop = Deferred.fromCoroutine(self._run())
        self._running_loop.addErrback(self._log_end)

    def stopService(self) -> Deferred[None]:
        """Close the connection and dial no more; fires when nothing of it is left."""
        Service.stopService(self)
        running, self._running_loop = self._running_loop, None
        parts = [cancel(running), self._left.stopService()]
        everything: Deferred[None] = DeferredList(parts).addCallback(lambda _: None)
        return everything

    def _log_end(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            _log.failure("the connection to Authority failed", failure)

    def on_connected(self, callback: Callable[[], object]) -> None:
        """Call *callback* after each greeting that the Authority answered."""
        self._on_connected.append(callback)

    @property
    def is_connected(self) -> bool:
        """Whether a channel is open now."""
        return self._followed is not None

    def channel(self) -> IRpcChannel:
        """The channel, now.

        Raises:
            Unavailable: ``authority_unreachable`` or ``authority_unconfigured``.
        """
        if self.dial is None:
            raise Unavailable(
                "no Authority is configured on this Proxy; tell its operator", reason=UNCONFIGURED
            )
        if self._followed is None:
            raise Unavailable(
                "Authority cannot be reached from this Proxy; try again",
                reason="authority_unreachable",
            )
        return self._followed.channel

    def channel_to(self, at: int) -> IRpcChannel | None:
        """The channel, where it leads to that member of the pool."""
        followed = self._followed
        return followed.channel if followed is not None and followed.at == at else None

    def look_elsewhere(self) -> None:
        """Turn to the member that leads, where that is another one.

        A connection that stands is left once the new one does; a dial under way is given up.
        """
        at = self.pool.preferred
        if at is None:
            return
        if self._followed is not None:
            if self._move_due is not None and not self._move_due.called:
                self._move_due.callback(None)
            return
        self.pool.turn_to(at)
        if self._attempt is not None:
            self._is_hurried = True
            self._attempt.cancel()

    def next_channel(self) -> Deferred[IRpcChannel]:
        """Wait for a channel: for work that must survive an outage of the Authority."""
        waiting: Deferred[IRpcChannel] = Deferred(self._forget)
        if self._followed is not None:
            waiting.callback(self._followed.channel)
        else:
            self._waiting.append(waiting)
        return waiting

    def _forget(self, waiting: Deferred[IRpcChannel]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    async def _run(self) -> None:
        waits = Backoff(_FIRST_WAIT, _LONGEST_WAIT, self.jitter)
        while True:
            self._since, self._is_beating = None, False
            self._attempt = Deferred.fromCoroutine(self._connection())
            try:
                await self._attempt
            except CancelledError as e:
                if not self.running:
                    raise
                if not self._is_hurried:
                    self._log_over(e, self._ended_at)  # somebody cancelled what we wait for
            except SvcError as e:
                if not self.running:
                    return  # a dial that is cancelled may end as one that failed
                self._log_over(e, self._ended_at)
            except Exception as e:
                # Whatever broke it: without this loop the Proxy would never come back.
                self._log_over(e, self._ended_at)
            self._attempt = None
            if self._is_hurried:
                self._is_hurried = False
                continue
            if self._was_steady():
                waits.reset()
                self.pool.held()
            # Another member may answer at once: only a whole round of failures is waited for.
            if not self.pool.failed(self._ended_at):
                continue
            longest = _LONGEST_WAIT if self.pool.is_alone else _LONGEST_ROUND
            await deferLater(self.clock, waits.next(at_most=longest))

    def _log_over(self, why: Exception, at: int) -> None:
        address = str(self.pool.members[at])
        if not isinstance(why, SvcError):
            _log.failure("authority connection failed", reason="internal", address=address)
            return
        _log.warn(
            "the connection to Authority ended", reason=why.reason, text=why.text, address=address
        )
        if why.reason == "revoked_node":
            self.revoked()
        if why.reason == LeaseLost.reason and self.pool.is_alone:
            _log.error(
                "the only configured Authority is not the leader; configure an address for "
                "each Authority",
                key="endpoints.authority",
                address=address,
                reason=why.reason,
            )

    def _was_steady(self) -> bool:
        return self._since is not None and self.clock.seconds() - self._since >= _STEADY_SECS

    async def _connection(self) -> None:
        self._ended_at = self.pool.turn
        await self._reached()
        follows = (self.fresh.follow(self._shown, self._move), self._follow_leader())
        moving = [Deferred.fromCoroutine(each).addErrback(self._log_end) for each in follows]
        try:
            self._since = self.clock.seconds()
            _log.info("authority connected", authority=_authority_id(self.lanes))
            self._announce(self.channel())
            while True:
                await self._frame()
        finally:
            # First: by this they know that they are cancelled for good.
            followed, self._followed = self._followed, None
            for each in moving:
                each.cancel()
            if followed is not None:
                self._ended_at = followed.at
                await followed.channel.close()

    async def _reached(self, older: Shown | None = None) -> None:
        """Greet and follow a connection, and have it; nothing of it is left if that fails."""
        assert self.dial is not None  # else nothing is started
        ours, at = self.fresh.ours, self.pool.turn
        channel = await bounded(self.clock, self.dial_secs, self.dial(), "Authority")
        try:
            shown = self.fresh.shown(ours, channel.peer, older)
            lanes = await self._greet(channel)
            # What comes meanwhile on the older connection waits, and is then out of date.
            await self._taking.acquire()
            try:
                stream = await self._snapshots(channel)
                before, self._followed = (
                    self._followed,
                    _Followed(at=at, channel=channel, shown=shown, stream=stream),
                )
                self.lanes, self.member = lanes, self.pool.members[at]
                self.pool.answered()
            finally:
                self._taking.release()
        except BaseException:
            await channel.close()
            raise
        if before is not None:
            before.stream.cancel("moved")
            closing = before.channel.close()
            if before.at == at:
                # Of another instance nothing is good any more: registrations are made again.
                closing = close_when_idle(before.channel, self.clock)
            self._left.spawn("closing a connection to Authority", closing)

    def _shown(self) -> Shown | None:
        return None if self._followed is None else self._followed.shown

    async def _move(self) -> None:
        """Follow another connection; calls that run on the older one may finish there."""
        await self._dialing.acquire()
        try:
            await self._reached(self._shown())
        finally:
            self._dialing.release()
        _log.info("reconnected to Authority", authority=_authority_id(self.lanes))

    async def _follow_leader(self) -> None:
        """Move whenever another member is heard to lead; for as long as a connection stands."""
        while True:
            self._move_due = Deferred()
            await self._move_due
            await self._dialing.acquire()
            try:
                await self._move_to_leader()
            except Exception as e:
                if self._is_over(e):
                    raise
                # Without this loop no further leader would be moved to; the probes set its pace.
                self._log_over(e, self.pool.turn)
            finally:
                self._dialing.release()

    def _is_over(self, failed: Exception) -> bool:
        """Whether a move was cancelled because its connection ended, and by nobody else."""
        return isinstance(failed, CancelledError) and self._followed is None

    async def _move_to_leader(self) -> None:
        at, before = self.pool.preferred, self.pool.turn
        if at is None:
            return
        self.pool.turn_to(at)
        try:
            await self._reached()
        except Exception as e:
            if self._is_over(e):
                raise
            self._log_over(e, at)
            self.pool.turn_back(before)
        else:
            self._since = self.clock.seconds()
            _log.info("authority moved", authority=_authority_id(self.lanes))
            self._announce(self.channel())

    async def _snapshots(self, channel: IRpcChannel) -> IRpcStream:
        """The stream of snapshots, its first frame taken."""
        stream = channel.stream(SNAPSHOT_METHOD)
        await stream.send(pb.SnapshotRequest(have_digest=self.have()).SerializeToString())
        stream.end()
        await self._first_frame(stream)
        return stream

    async def _greet(self, channel: IRpcChannel) -> AuthorityGreeting:
        claimed = islice(self.claims(), MAX_SESSIONS)
        request = hello_message(
            self.version, self.instance_id, claimed, self.head(), self.peer_address()
        )
        answer = await channel.unary(HELLO_METHOD, request, pb.HelloResponse, timeout=_HELLO_SECS)
        return read_lanes(answer)

    async def _first_frame(self, stream: IRpcStream) -> None:
        """The first snapshot; an Authority without a policy has none and is reached as well."""
        try:
            data = await bounded(self.clock, _FIRST_FRAME_SECS, stream.receive(), "snapshot")
        except SvcError as e:
            if e.reason != "deadline":
                raise
            _log.warn("Authority has sent no snapshot yet", reason="no_snapshot")
            return
        await self._take(data)

    async def _frame(self) -> None:
        """Take the next frame of the connection that is followed now."""
        followed = self._followed
        assert followed is not None
        coming = followed.stream.receive()
        try:
            if self._is_beating:
                data = await bounded(self.clock, _SILENCE_SECS, coming, "heartbeat")
            else:
                data = await coming
        except SvcError:
            if followed is not self._followed:
                return
            raise
        await self._taking.acquire()
        try:
            if followed is self._followed:
                await self._take(data)
        finally:
            self._taking.release()

    async def _take(self, data: bytes | None) -> None:
        if data is None:
            raise Unavailable("Authority ended the snapshot", reason="snapshot_ended")
        await self.take(decode_frame(data))
        self._is_beating = True

    def _announce(self, channel: IRpcChannel) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(channel)
        for callback in self._on_connected:
            callback()


def _authority_id(lanes: AuthorityGreeting | None) -> str:
    return "" if lanes is None else lanes.authority_id
