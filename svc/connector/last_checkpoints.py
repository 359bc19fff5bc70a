"""Brings the last checkpoint of each gated session to Authority, by whatever Proxy takes it.

Without one a session stays unconfirmed, which is held against its Proxy (rule R25).  So where that
Proxy is gone, another one brings it, or the same one when it is back; and where Authority cannot
take it, each is asked again.

A Proxy that says that Authority took it may lie.  That of the session harms only itself by it, and
is believed.  Another one would harm the Proxy of the session, so its word is not enough: each
Proxy that registers us is asked, until that of the session has taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.errors import Fault, SvcError
from svc.messages.gated import CheckpointAnswer, encode_checkpoint
from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.session.grant import Grant
from svc.model.session.ranges import first_head
from svc.model.signing import Signed
from svc.runtime.services import BackgroundTasks, bounded

_log = Logger(namespace="svc_connector")

KEPT_SECS = 900.0
"""Authority waits ten minutes after the grant's end, which may be two away."""

MAX_KEPT = 4096
ANSWER_SECS = 20.0
AGAIN_SECS = 30.0
"""Between two tries to bring what nobody took.  Authority may be there again and no tunnel new."""


_AWAY = frozenset({Fault.UNAVAILABLE, Fault.DEADLINE})
"""Authority is not reached: it takes no other one either."""


class CheckpointLink(Protocol):
    """A connection to a Proxy."""

    @property
    def proxy_id(self) -> str:
        """The node at its other end, from its certificate."""

    async def checkpoint(self, signed: Signed) -> CheckpointAnswer:
        """Take a checkpoint to Authority.  Raises SvcError: no answer came."""


@define(eq=False)
class _OwedCheckpoint:
    """A checkpoint that the Proxy of its session has not taken.

    Attributes:
        own: That Proxy.
        until: After this time nobody waits for it.
        taken_by: Other Proxies that say that Authority took it.
    """

    session_uid: str
    signed: Signed
    own: str
    until: float
    taken_by: set[str] = field(factory=set)
    is_done: bool = False


@define(eq=False)
class LastCheckpoints:
    """Of one Connector.

    Attributes:
        sign: With our node's key.
    """

    sign: Callable[[bytes], Signed]
    clock: IReactorTime
    tasks: BackgroundTasks
    _links: dict[CheckpointLink, None] = field(factory=dict, init=False)
    _kept: dict[str, _OwedCheckpoint] = field(factory=dict, init=False)
    _bringing: int = field(default=0, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)
    _again: IDelayedCall | None = field(default=None, init=False)
    _is_round: bool = field(default=False, init=False)
    _is_due: bool = field(default=False, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def came(self, link: CheckpointLink) -> None:
        """A Proxy has registered us; it is told what no other one took."""
        self._links[link] = None
        if self._kept:
            self._bring_kept_now()

    def left(self, link: CheckpointLink) -> None:
        """Its registration is over.  Idempotent."""
        self._links.pop(link, None)

    async def bring(self, last: SessionCheckpoint, first: CheckpointLink) -> None:
        """Bring the last checkpoint of a session, or keep it for a Proxy that comes.

        Args:
            last: The checkpoint.
            first: The connection that the session was opened over.
        """
        self._bringing += 1
        try:
            kept = _OwedCheckpoint(
                session_uid=last.session_uid,
                signed=self.sign(encode_checkpoint(last)),
                own=first.proxy_id,
                until=self.clock.seconds() + KEPT_SECS,
            )
            await self._try(kept, first)
            if not kept.is_done:
                self._keep(kept)
        except SvcError as error:
            _log.warn(
                "a last checkpoint was not signed", session=last.session_uid, reason=error.reason
            )
        finally:
            self._bringing -= 1
            if not self._bringing:
                waiting, self._idle[:] = list(self._idle), []
                for one in waiting:
                    one.callback(None)

    async def never_opened(
        self, grant: Grant | None, word: str, first: CheckpointLink, *, is_whole: bool
    ) -> None:
        """Say for good that nothing of a session was passed on, if it is a gated one.

        Args:
            grant: Of the session, which will not open any more; None where it is not known.
            word: Why it did not.
            first: The connection that it was to be opened over.
            is_whole: Nothing of it can have been decided.
        """
        if grant is None or not grant.is_gated:
            return
        one = SessionCheckpoint(
            cluster=grant.cluster,
            session_uid=grant.session_uid,
            connector_id=grant.connector_id,
            n=1,
            decisions=0,
            head=first_head(grant.session_uid),
            is_last=True,
            is_whole=is_whole,
            reason=word,
        )
        await self.bring(one, first)

    async def told(self) -> None:
        """Wait until none is on its way."""
        if self._bringing:
            idle: Deferred[None] = Deferred(self._idle.remove)
            self._idle.append(idle)
            await idle

    def stop(self) -> None:
        """Bring nothing by itself any more."""
        self._is_stopped = True
        if self._again is not None and self._again.active():
            self._again.cancel()

    def _keep(self, one: _OwedCheckpoint) -> None:
        if len(self._kept) >= MAX_KEPT:
            taken = (uid for uid, kept in self._kept.items() if kept.taken_by)
            del self._kept[next(taken, next(iter(self._kept)))]
        self._kept[one.session_uid] = one
        self._bring_kept_later()

    def _bring_kept_later(self) -> None:
        if self._kept and not self._is_stopped and not (self._again and self._again.active()):
            self._again = self.clock.callLater(AGAIN_SECS, self._bring_kept_now)

    def _bring_kept_now(self) -> None:
        self._is_due = True
        if not self._is_round:
            self.tasks.spawn("last checkpoints", self._bring_kept())

    async def _bring_kept(self) -> None:
        self._is_round = True
        try:
            while self._is_due:
                self._is_due = False
                await self._round()
        finally:
            self._is_round = False
            self._bring_kept_later()

    async def _round(self) -> None:
        """Bring each that is kept, as long as Authority is there."""
        for uid, one in list(self._kept.items()):
            is_away = False
            if one.until >= self.clock.seconds():
                is_away = await self._try(one)
            else:
                one.is_done = True
            if one.is_done:
                self._kept.pop(uid, None)
            elif is_away:
                return

    async def _try(self, one: _OwedCheckpoint, first: CheckpointLink | None = None) -> bool:
        """Bring one by each Proxy that has not taken it; whether Authority is away.

        That Authority is away counts only where each says so: one that reached it knows better.
        """
        is_away = True
        for link in self._in_turn(first):
            if link.proxy_id in one.taken_by:
                is_away = False
                continue
            try:
                asking = link.checkpoint(one.signed)
                await bounded(self.clock, ANSWER_SECS, asking, "a checkpoint's answer")
            except CancelledError:
                raise
            except SvcError as error:
                _log.info(
                    "a last checkpoint was not taken",
                    session=one.session_uid,
                    reason=error.reason,
                )
                is_away = is_away and error.fault in _AWAY
            else:
                is_away = False
                if link.proxy_id == one.own:
                    one.is_done = True
                    break
                one.taken_by.add(link.proxy_id)
        return is_away

    def _in_turn(self, first: CheckpointLink | None) -> Iterator[CheckpointLink]:
        """Each Proxy once, also one that comes while another is asked."""
        asked: set[CheckpointLink] = set()
        if first is not None:
            asked.add(first)
            yield first
        while link := next((one for one in self._links if one not in asked), None):
            asked.add(link)
            yield link
