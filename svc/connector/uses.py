"""Tells Authority what a session that is over did with its rights.

It goes over our own TLS inside a Proxy's lane, as the identity of requests does (rule R34): no
Proxy can say it for us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.errors import Fault, SvcError
from svc.messages.use import SessionUse
from svc.model.signing import Signed
from svc.runtime.services import BackgroundTasks, bounded

_log = Logger(namespace="svc_connector")

AGAIN_SECS = 30.0
KEPT_SECS = 900.0
MAX_KEPT = 4096
LAST_SECS = 3.0
"""What a Connector that stops waits for those that are under way."""

_AWAY = frozenset({Fault.UNAVAILABLE, Fault.DEADLINE, Fault.EXHAUSTED})


@define(eq=False)
class SessionUses:
    """Of one Connector.

    Attributes:
        report: Brings one to Authority; raises SvcError.
    """

    report: Callable[[SessionUse], Awaitable[object]]
    clock: IReactorTime
    tasks: BackgroundTasks
    _kept: int = field(default=0, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)

    def tell(self, session_uid: str, grant: Signed, used: Counter[str]) -> None:
        """Report what a session did, now or as soon as Authority is there."""
        if self._kept >= MAX_KEPT:
            _log.error("what a session did is not recorded: too many wait", session=session_uid)
            return
        self._kept += 1
        use = SessionUse(grant, dict(used))
        self.tasks.spawn("report the use of a session", self._told(session_uid, use))

    async def left(self) -> None:
        """Wait a little until none is under way."""
        if self._kept:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            try:
                await bounded(self.clock, LAST_SECS, idle, "the reports of sessions")
            except SvcError:
                _log.error("what some sessions did is not recorded", count=self._kept)

    async def _told(self, session_uid: str, use: SessionUse) -> None:
        until = self.clock.seconds() + KEPT_SECS
        try:
            while True:
                try:
                    await self.report(use)
                    return
                except SvcError as refusal:
                    is_lost = refusal.fault not in _AWAY or self.clock.seconds() > until
                    reason = refusal.reason
                if is_lost:
                    _log.error(
                        "what a session did is not recorded", session=session_uid, reason=reason
                    )
                    return
                await deferLater(self.clock, AGAIN_SECS)
        finally:
            self._kept -= 1
            if not self._kept:
                waiting, self._idle[:] = list(self._idle), []
                for idle in waiting:
                    if not idle.called:
                        idle.callback(None)
