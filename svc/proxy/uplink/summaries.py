"""Records once a minute, and at shutdown, what this Proxy's budgets refused (rule R12).

A summary is a record of this Proxy's own, in its spool: from then on a crash
does not lose it, however long Authority is away.  What the spool does not take
is counted on.  A summary names who was refused and by which budget, and
nothing of what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.audit import IAuditSink
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.record import Actor, AuditRecord, rfc3339
from svc.model.canonical import Json
from svc.model.ids import Entropy, event_id
from svc.ratelimit.counter import OTHERS, RefusalCounter, RefusedCount

_log = Logger(namespace="svc_proxy")

EVERY_SECS = 60.0
_CALLERS = {"person": "person_id", "agent": "person_id", "node": "connector_id"}


@define
class RefusalSummaries:
    """Writes what was counted, a record for each caller and budget.

    Attributes:
        origin: This Proxy's node id.
        now: Seconds since the epoch.
    """

    refusal_counter: RefusalCounter
    sink: IAuditSink
    origin: str
    now: Callable[[], float]
    entropy: Entropy

    @property
    def waiting(self) -> bool:
        """Whether anything is still to be written."""
        return len(self.refusal_counter) > 0

    async def tell(self) -> None:
        """Write the summaries; keep the ones that could not be written. Never raises SvcError."""
        writing = [Deferred.fromCoroutine(self._write(one)) for one in self.refusal_counter.take()]
        await gatherResults(writing, consumeErrors=True)

    async def _write(self, one: RefusedCount) -> None:
        try:
            await self.sink.write(self._record(one))
        except SvcError as e:
            _log.warn("the summary of refusals will be written later", reason=e.reason)
            self.refusal_counter.put_back([one])

    def _record(self, one: RefusedCount) -> AuditRecord:
        details: dict[str, Json] = {
            "count": one.count,
            "since": rfc3339(one.first),
            "until": rfc3339(one.last),
            "proxy_id": self.origin,
        }
        if one.caller != OTHERS:
            details[_CALLERS[one.caller.kind]] = one.caller.id
        at = self.now()
        return AuditRecord(
            event_id=event_id(at, self.entropy),
            time=at,
            event=REFUSALS_SUMMARY,
            actor=Actor("node", self.origin),
            origin=self.origin,
            node_id=self.origin,
            reason=one.budget,
            details=details,
        )
