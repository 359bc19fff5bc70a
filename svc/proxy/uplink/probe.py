"""Asks every Authority of the pool who leads, independent of any session.

Each is asked over a connection that is kept, the one in use over that one
itself.  What is heard goes to the pool; the link turns where it leads.  So a
leader that vanished without a word costs no dial that nobody answers, and one
that stepped down is left although it still talks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.forward import LEADER_METHOD, LeaderClaim, read_claim
from svc.proto.gate.v1 import membership_pb2 as pb
from svc.proxy.uplink.link import AuthorityLink
from svc.runtime.dial_failure import dial_failure
from svc.runtime.services import BackgroundTasks, PeriodicTask, bounded

PROBE_SECS = 5.0
"""From a member's answer to the next question to it (G-OPEN-51)."""

ANSWER_TIMEOUT_SECS = 4.0
"""For one answer, a dial included."""

_log = Logger(namespace="svc_proxy")


@define(slots=False, eq=False)
class PoolProbes(Service):
    """See the module.

    Attributes:
        dial: Opens a channel to a member, its certificate checked.
        link: The connection in use.
    """

    clock: IReactorTime
    dial: Callable[[Any], Awaitable[IRpcChannel]]
    link: AuthorityLink
    _kept: dict[int, IRpcChannel] = field(factory=dict, init=False)
    _reported: dict[int, str] = field(factory=dict, init=False)
    _left: BackgroundTasks = field(factory=BackgroundTasks, init=False)
    _rounds: list[PeriodicTask] = field(factory=list, init=False)

    def startService(self) -> None:
        """Start; a pool of one member needs no probes."""
        Service.startService(self)
        self._left.startService()
        if self.link.pool.is_alone:
            return
        # Each by itself: one that is not reached holds up none of the others.
        for at in range(len(self.link.pool.members)):
            asking = PeriodicTask(
                clock=self.clock,
                interval=PROBE_SECS,
                call=partial(self._probe, at),
                what="probe of an Authority",
            )
            self._rounds.append(asking)
            asking.startService()

    def stopService(self) -> Deferred[Any]:
        """Ask no more; fires when no connection of ours is left."""
        Service.stopService(self)
        rounds, self._rounds = self._rounds, []
        stopping = [each.stopService() for each in rounds]
        for at in list(self._kept):
            self._leave(at)
        stopping.append(self._left.stopService())
        return DeferredList(stopping)

    async def _probe(self, at: int) -> None:
        pool = self.link.pool
        try:
            claim = await bounded(self.clock, ANSWER_TIMEOUT_SECS, self._asked(at), "Authority")
        except CancelledError:
            raise
        except Exception as e:
            # Whatever it was: the other members are to be heard all the same.
            self._leave(at)
            self._report(at, e)
            pool.unanswered(at)
        else:
            self._report(at, None)
            pool.claimed(at, claim.epoch)
        self.link.look_elsewhere()

    async def _asked(self, at: int) -> LeaderClaim:
        in_use = self.link.channel_to(at)
        if in_use is not None:
            self._leave(at)
            return await _ask(in_use)
        kept = self._kept.get(at)
        if kept is not None:
            try:
                return await _ask(kept)
            except SvcError:
                self._leave(at)  # a certificate shown on it may have ended
        self._kept[at] = channel = await self.dial(self.link.pool.members[at])
        return await _ask(channel)

    def _leave(self, at: int) -> None:
        channel = self._kept.pop(at, None)
        if channel is not None:
            self._left.spawn("closing a probe's connection", channel.close())

    def _report(self, at: int, failed: Exception | None) -> None:
        """Once for each change, by address: the probes come again and again."""
        reason = ""
        if failed is not None:
            reason = failed.reason if isinstance(failed, SvcError) else "internal"
        if self._reported.get(at, "") == reason:
            return
        self._reported[at] = reason
        address = str(self.link.pool.members[at])
        if failed is None:
            _log.info("an Authority of the pool answers again", address=address)
        else:
            _log.warn(
                "an Authority of the pool cannot be reached",
                key="endpoints.authority",
                address=address,
                reason=reason,
                text=dial_failure(failed),
            )


async def _ask(channel: IRpcChannel) -> LeaderClaim:
    answer = await channel.unary(
        LEADER_METHOD, pb.LeaderRequest(), pb.LeaderResponse, timeout=ANSWER_TIMEOUT_SECS
    )
    return read_claim(answer)
