"""A standby's one connection to the leader.

Calls share it, and what they did at a leader that is merely slow is known to nobody but it.  So
the connection is never cut under them: one that has been silent for long, or whose leader leads
no more, takes no further call and ends with the last of its own, each of which has its deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field, frozen
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.ha.lease import Leadership
from svc.errors import Fault, LeaseLost, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.messages.forward import LEADER_METHOD, LeaderClaim, read_claim
from svc.proto.gate.v1 import membership_pb2 as pb
from svc.runtime.services import AsyncService, bounded

_DIAL_SECS = 5.0
_CHECK_SECS = 4.0
"""For one look at the leader, a dial included."""

SILENT_SECS = 12.0
"""A connection on which nothing came for so long, though it was asked, is left for another one.

Longer than one look and the wait for the next: a leader that is slow once keeps it.
"""

_log = Logger(namespace="svc_authority")

DialMember = Callable[[str], Awaitable[IRpcChannel]]
"""``await dial(owner)``: a connection to that member's private address, its certificate checked.

Raises:
    SvcError: there is no address, nobody answers, or whoever answers is someone else.
"""


@frozen(eq=False)
class _LeaderChannel:
    owner: str
    channel: IRpcChannel


@frozen(eq=False)
class _Failed:
    """A dial that came to nothing: whoever waited for it does not wait for another one."""

    owner: str
    at: float
    refusal: Unavailable

    def is_for(self, owner: str, began: float) -> bool:
        return self.owner == owner and self.at > began


@define(slots=False, eq=False)
class LeaderRoute(AsyncService):
    """See the module."""

    leadership: Leadership
    dial: DialMember
    clock: IReactorTime
    _way: _LeaderChannel | None = field(default=None, init=False)
    _failed: _Failed | None = field(default=None, init=False)
    _left: list[IRpcChannel] = field(factory=list, init=False)
    _dialing: DeferredLock = field(factory=DeferredLock, init=False)
    _why: str = field(default="", init=False)

    async def stop(self) -> None:
        """End every connection, and what is still under way on it."""
        self._leave()
        for channel in tuple(self._left):
            await channel.close()

    async def channel(self) -> IRpcChannel:
        """The connection to the leader, which is dialed if there is none.

        Raises:
            LeaseLost: nobody but us holds the lease.
            Unavailable: the leader is not reached.
        """
        began = self.clock.seconds()
        await self._dialing.acquire()
        try:
            owner = self.leadership.leader
            if owner in ("", self.leadership.owner):
                raise LeaseLost("")
            if self._way is not None and self._way.owner == owner:
                return self._way.channel
            if self._failed is not None and self._failed.is_for(owner, began):
                raise self._failed.refusal
            self._leave()
            return await self._dialed(owner)
        finally:
            self._dialing.release()

    async def is_there(self) -> bool:
        """Whether the leader is known and, unless we are it, answers as such just now."""
        if self.leadership.lease is not None:
            return True
        try:
            claim = await bounded(self.clock, _CHECK_SECS, self._asked(), "the leader")
        except LeaseLost:
            return False
        except SvcError as e:
            self._log_refusal(e)
            if e.fault is not Fault.DEADLINE or self._is_silent():
                # Whoever refuses may take us on another connection, with a newer certificate.
                self._leave()
            return False
        if claim.leads:
            self._why = ""
        return claim.leads

    async def _asked(self) -> LeaderClaim:
        channel = await self.channel()
        answer = await channel.unary(
            LEADER_METHOD, pb.LeaderRequest(), pb.LeaderResponse, timeout=_CHECK_SECS
        )
        return read_claim(answer)

    async def _dialed(self, owner: str) -> IRpcChannel:
        try:
            channel = await bounded(self.clock, _DIAL_SECS, self.dial(owner), "the leader")
        except SvcError as e:
            self._log_refusal(e)
            refusal = Unavailable(f"the leader cannot be reached: {e.text}", reason=e.reason)
            self._failed = _Failed(owner, self.clock.seconds(), refusal)
            raise refusal from None
        self._way = _LeaderChannel(owner, channel)
        channel.on_close(lambda _: self._forget(channel))
        return channel

    def _forget(self, channel: IRpcChannel) -> None:
        if self._way is not None and self._way.channel is channel:
            self._way = None
        if channel in self._left:
            self._left.remove(channel)

    def _is_silent(self) -> bool:
        way = self._way
        return way is not None and self.clock.seconds() - way.channel.heard_at >= SILENT_SECS

    def _leave(self) -> None:
        """Begin no call on the connection any more; those under way come to their own end."""
        way, self._way = self._way, None
        if way is not None:
            self._left.append(way.channel)
            way.channel.drain()

    def _log_refusal(self, refusal: SvcError) -> None:
        """Once for each cause: the check comes again and again."""
        leader, why = self.leadership.leader, refusal.reason
        if self._why != f"{leader} {why}":
            self._why = f"{leader} {why}"
            _log.error("the leader cannot be reached", leader=leader, reason=why, text=refusal.text)
