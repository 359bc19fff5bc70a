"""Brings health reports to Authority: the Proxy's own, and those of its Connectors."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.health import CONTROL_HEALTH_METHOD, MAX_REPORTS, health_reports, read_receipt
from svc.model.signing import Signed
from svc.proto.gate.v1 import tunnel_pb2
from svc.runtime.services import BackgroundTasks

GATHER_SECS = 2.0
"""How long the first report waits for others, which then travel with it."""

_TIMEOUT = 10.0
_log = Logger(namespace="svc_proxy")


@define(eq=False)
class HealthRelay:
    """See the module.

    Nothing is kept for an Authority that is away: the next reports come within a minute.

    Attributes:
        channel: Gives the channel to Authority or raises while there is none.
    """

    channel: Callable[[], IRpcChannel]
    tasks: BackgroundTasks
    clock: IReactorTime
    _waiting: dict[str, Signed] = field(factory=dict, init=False)
    _due: IDelayedCall | None = field(default=None, init=False)

    def bring(self, node_id: str, report: Signed) -> None:
        """Take a report along; of one node the newest.

        Args:
            node_id: Of the node that handed it over, from its certificate.

        Raises:
            Unavailable: Authority is away.
        """
        self.channel()
        self._waiting[node_id] = report
        if self._due is None:
            self._due = self.clock.callLater(GATHER_SECS, self._go)

    def _go(self) -> None:
        self._due = None
        self.tasks.spawn("health reports", self._bring())

    async def _bring(self) -> None:
        while self._waiting:
            some = [self._waiting.pop(each) for each in list(self._waiting)[:MAX_REPORTS]]
            try:
                answer = await self.channel().unary(
                    CONTROL_HEALTH_METHOD,
                    health_reports(some),
                    tunnel_pb2.HealthReceipt,
                    timeout=_TIMEOUT,
                )
                refused = read_receipt(answer).refused
            except CancelledError:
                raise
            except SvcError as failed:
                _log.debug("health reports were not taken", count=len(some), reason=failed.reason)
            else:
                if refused:
                    reasons = sorted({one.reason for one in refused})
                    _log.warn(
                        "Authority refused health reports", count=len(refused), reasons=reasons
                    )
