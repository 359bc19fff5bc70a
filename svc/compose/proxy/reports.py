"""What a Proxy reports afterwards: ends of sessions, and what a tunnel left as it ended."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from svc.compose.proxy.spool import SpoolParts
from svc.compose.telemetry import tunnel_meter, unrecorded_meter
from svc.interfaces.rpc import IRpcChannel
from svc.messages.control import Departure
from svc.model.session.tunnels import SessionsLeft, TunnelEnded, TunnelEvent
from svc.proxy.uplink.reports import Reports
from svc.runtime.services import BackgroundTasks
from svc.telemetry.metrics import Metrics


def make_reports(
    *,
    channel: Callable[[], IRpcChannel],
    tasks: BackgroundTasks,
    clock: IReactorTime,
    metrics: Metrics,
    spooling: SpoolParts,
    check: Callable[[], object],
) -> Reports:
    """The queue of what the Authority is told.

    Args:
        check: Raises SvcError while nothing can be recorded here.
    """
    return Reports(
        channel=channel,
        tasks=tasks,
        dropped=metrics.counter("svc_abandoned_session_notices_dropped_total").inc,
        answered=lambda outcome: metrics.counter(
            "svc_abandoned_sessions_total", outcome=outcome
        ).inc(),
        clock=clock,
        journal=spooling.journal,
        room=spooling.spool.files.room,
        writable=check,
        unrecorded=unrecorded_meter(metrics),
    )


def tunnel_events(
    *,
    metrics: Metrics,
    reports: Reports,
    changed: Callable[[], object],
    ours: Callable[[tuple[str, ...]], tuple[str, ...]],
) -> Callable[[TunnelEvent], None]:
    """Counts what becomes of tunnels, and reports the sessions that one left.

    Args:
        changed: Called after each event.
        ours: Leaves out the sessions that entered other Proxies, which report them themselves.
    """
    meter = tunnel_meter(metrics)

    def on_event(event: TunnelEvent) -> None:
        meter(event)
        ends = (TunnelEnded, SessionsLeft)
        if isinstance(event, ends) and (uids := ours(event.session_uids)):
            reports.departed(Departure(event.node_id, event.reason.value, uids))
        changed()

    return on_event
