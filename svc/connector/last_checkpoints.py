"""Brings the last checkpoint of each gated session to Authority, by whatever Proxy takes it.

Without one a session stays unconfirmed, which is held against its Proxy (rule R25).  So where that
Proxy is gone, another one brings it, or the same one when it is back; and where Authority cannot
take it, each is asked again.
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

    async def checkpoint(self, signed: Signed) -> CheckpointAnswer:
        """Take a checkpoint to Authority.  Raises SvcError: no answer came."""


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
    _kept: dict[str, tuple[Signed, float]] = field(factory=dict, init=False)
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
            signed = self.sign(encode_checkpoint(last))
            if await self._tried(last.session_uid, signed, first) is not None:
                self._keep(last.session_uid, signed)
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

    def _keep(self, session_uid: str, signed: Signed) -> None:
        if len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[session_uid] = signed, self.clock.seconds() + KEPT_SECS
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
        for uid, (signed, until) in list(self._kept.items()):
            fault = None
            if until >= self.clock.seconds():
                fault = await self._tried(uid, signed)
            if fault is None:
                self._kept.pop(uid, None)
            elif fault in _AWAY:
                return

    async def _tried(
        self, uid: str, signed: Signed, first: CheckpointLink | None = None
    ) -> Fault | None:
        """Bring one; None where somebody took it, else why not.

        That Authority is away counts only where each says so: one that reached it knows better.
        """
        fault = Fault.UNAVAILABLE
        for link in self._in_turn(first):
            try:
                asking = link.checkpoint(signed)
                await bounded(self.clock, ANSWER_SECS, asking, "a checkpoint's answer")
            except CancelledError:
                raise
            except SvcError as error:
                _log.info("a last checkpoint was not taken", session=uid, reason=error.reason)
                if error.fault not in _AWAY:
                    fault = error.fault
            else:
                return None
        return fault

    def _in_turn(self, first: CheckpointLink | None) -> Iterator[CheckpointLink]:
        """Each Proxy once, also one that comes while another is asked."""
        asked: set[CheckpointLink] = set()
        if first is not None:
            asked.add(first)
            yield first
        while link := next((one for one in self._links if one not in asked), None):
            asked.add(link)
            yield link
