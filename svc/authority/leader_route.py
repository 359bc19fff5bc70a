"""The way from an Authority that stands by to the one that leads: one connection, kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field, frozen
from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.leading import Leadership
from svc.errors import LeaseLost, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.messages.forward import LEADER_METHOD, Claim, read_claim
from svc.proto.gate.v1 import membership_pb2 as pb
from svc.service import AsyncService, bounded

_DIAL_SECS = 5.0
_CHECK_SECS = 4.0
"""For one look at the leader, a dial included."""

_log = Logger(namespace="svc_authority")

DialMember = Callable[[str], Awaitable[IRpcChannel]]
"""``await dial(owner)``: a connection to that member's private address, its certificate checked.

Raises:
    SvcError: there is no address, nobody answers, or whoever answers is someone else.
"""


@frozen(eq=False)
class _Way:
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
    _way: _Way | None = field(default=None, init=False)
    _failed: _Failed | None = field(default=None, init=False)
    _dialing: DeferredLock = field(factory=DeferredLock, init=False)
    _why: str = field(default="", init=False)

    async def stop(self) -> None:
        """Leave."""
        await self._leave()

    async def channel(self) -> IRpcChannel:
        """The connection to the leader; dialed where there is none.

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
            await self._leave()
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
            self._tell(e)
            await self._leave()  # it may be gone without a word: calls over it would only wait
            return False
        if claim.leads:
            self._why = ""
        return claim.leads

    async def _asked(self) -> Claim:
        channel = await self.channel()
        answer = await channel.unary(
            LEADER_METHOD, pb.LeaderRequest(), pb.LeaderResponse, timeout=_CHECK_SECS
        )
        return read_claim(answer)

    async def _dialed(self, owner: str) -> IRpcChannel:
        try:
            channel = await bounded(self.clock, _DIAL_SECS, self.dial(owner), "the leader")
        except SvcError as e:
            self._tell(e)
            refusal = Unavailable(f"the leader is not reached: {e.text}", reason=e.reason)
            self._failed = _Failed(owner, self.clock.seconds(), refusal)
            raise refusal from None
        self._way = _Way(owner, channel)
        channel.on_close(lambda _: self._forget(channel))
        return channel

    def _forget(self, channel: IRpcChannel) -> None:
        if self._way is not None and self._way.channel is channel:
            self._way = None

    async def _leave(self) -> None:
        way, self._way = self._way, None
        if way is not None:
            await way.channel.close()

    def _tell(self, refusal: SvcError) -> None:
        """Once for each cause: the check comes again and again."""
        leader, why = self.leadership.leader, refusal.reason
        if self._why != f"{leader} {why}":
            self._why = f"{leader} {why}"
            _log.error("the leader is not reached", leader=leader, reason=why, text=refusal.text)
