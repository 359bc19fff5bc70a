"""Reports what a node's self-check found last, once a minute (ADR 78)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc import __version__
from svc.errors import SvcError
from svc.messages.health import encode_health
from svc.model.cluster.health import EVERY_SECS, health_report
from svc.model.doctor import DoctorReport
from svc.model.signing import Purpose, Signed
from svc.pki.identity import TransportIdentity
from svc.runtime.services import AsyncService, PeriodicTask

_FIRST_SECS = 3.0
"""Until the first report, and until the next look whether the first self-check is done.  After a
report that nobody took the wait is twice as long, up to the usual one: an Authority that is away
brings no storm on its Proxies."""

_log = Logger(namespace="svc")


@define
class LastChecks:
    """The last periodic self-check of this process.

    Attributes:
        are_made: Whether the process makes any.
    """

    are_made: bool = False
    report: DoctorReport | None = field(default=None, init=False)

    def tell(self, report: DoctorReport) -> None:
        """There is a newer one."""
        self.report = report

    def turn(self, are_made: bool) -> None:
        """Checks are made from now on, or not any more."""
        self.are_made = are_made
        if not are_made:
            self.report = None


@define(slots=False, eq=False)
class HealthReporter(AsyncService):
    """Reports for one node.

    Attributes:
        deliver: Brings a report to Authority, or on its way; raises SvcError where it cannot.
    """

    cluster: str
    identity: TransportIdentity
    checks: LastChecks
    deliver: Callable[[Signed], Awaitable[object]]
    clock: IReactorTime
    now: Callable[[], float]
    _turns: PeriodicTask = field(init=False)
    _wait: float = field(default=_FIRST_SECS, init=False)

    @_turns.default
    def _periodic(self) -> PeriodicTask:
        return PeriodicTask(
            clock=self.clock,
            interval=EVERY_SECS,
            call=self._turn,
            what="health report",
            jitter=lambda _: self._wait,
            at_once=False,
        )

    async def start(self) -> None:
        """The first report goes once there is somebody to take it."""
        self._turns.startService()

    async def stop(self) -> None:
        """Report no more."""
        await self._turns.stopService()

    async def _turn(self) -> None:
        if self.checks.are_made and self.checks.report is None:
            return  # the first self-check is under way
        report = health_report(
            cluster=self.cluster,
            node_id=self.identity.principal.id,
            at=self.now(),
            version=__version__,
            checks=self.checks.report,
        )
        try:
            await self.deliver(self.identity.sign(Purpose.HEALTH_REPORT, encode_health(report)))
        except SvcError as failed:
            self._wait = min(EVERY_SECS, 2 * self._wait)
            _log.debug("the health report was not delivered", reason=failed.reason)
        else:
            self._wait = EVERY_SECS
