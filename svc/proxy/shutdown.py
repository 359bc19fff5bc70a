"""Shuts a Proxy down: announces it, lets sessions finish, ends tunnels in order, reports.

Its port is closed already; whoever is connected is still answered, so that
whoever watches its health hears that it takes no more.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.audit.spool.spool import Spool
from svc.errors import SvcError
from svc.proxy.health import Health
from svc.proxy.peers.service import PeerService
from svc.proxy.sessions.list import Listings
from svc.proxy.sessions.open import SessionOpens
from svc.proxy.uplink.deliver import SpoolDelivery
from svc.proxy.uplink.reports import Reports
from svc.proxy.uplink.summaries import RefusalSummaries
from svc.runtime.services import AsyncService, bounded
from svc.tunnel.routes import RouteTable

_log = Logger(namespace="svc_proxy")

_REPORT_SECS = 2.0
WRITE_SECS = 5.0
"""How long a stop waits for the disk."""

_LOOK_AGAIN_SECS = 0.05


@frozen
class Work:
    """The parts of a Proxy that a shutdown ends."""

    health: Health
    routes: RouteTable
    sessions: SessionOpens
    peers: PeerService
    listings: Listings
    reports: Reports
    refused: RefusalSummaries
    spool: Spool
    delivery: SpoolDelivery

    @property
    def open_sessions(self) -> int:
        """How many are open here, those that entered other Proxies included."""
        return self.sessions.open_sessions + self.peers.open_sessions


@define(slots=False, eq=False)
class ProxyShutdown(AsyncService):
    """Stops before the listener does: it is added to the role after it.

    Attributes:
        seconds: How long open sessions may go on.
    """

    clock: IReactorTime
    seconds: float
    _work: Work | None = field(default=None, init=False)

    def begun(self, work: Work) -> None:
        """The Proxy has an identity now; *work* is what a shutdown has to end."""
        self._work = work

    async def stop(self) -> None:
        """End the work in order."""
        work = self._work
        if work is None:
            return
        work.health.drain()
        work.sessions.drain()
        work.peers.drain()
        work.listings.drain()
        work.routes.drain()
        await self._within(self.seconds, lambda: bool(work.open_sessions))
        if work.open_sessions:
            _log.warn("the shutdown ends open sessions", sessions=work.open_sessions)
        work.sessions.end_all()
        work.peers.end_all()
        work.routes.close()
        work.sessions.direct.close()
        await self._within(_REPORT_SECS, lambda: bool(work.reports.waiting))
        await self._write_down(work)
        await self._within(_REPORT_SECS, lambda: work.delivery.is_busy)

    async def _write_down(self, work: Work) -> None:
        """What Authority has not taken is told by the next process that serves from here."""
        try:
            await bounded(self.clock, WRITE_SECS, self._written(work), "the disk")
        except SvcError as e:
            _log.warn(
                "the audit spool could not be closed properly",
                reason=e.reason,
                text=e.text,
                records=work.spool.not_durable,
                ends=work.reports.journal.not_durable,
            )
        if work.refused.waiting:
            _log.warn("refusals before the shutdown could not be summarized in the audit log")

    async def _written(self, work: Work) -> None:
        await work.reports.journal.flush()
        await work.refused.tell()
        await work.spool.close()

    async def _within(self, seconds: float, goes_on: Callable[[], bool]) -> None:
        end = self.clock.seconds() + seconds
        while goes_on() and self.clock.seconds() < end:
            await deferLater(self.clock, _LOOK_AGAIN_SECS)
