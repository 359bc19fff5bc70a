"""Direct lanes of a Proxy: whether there are any, and where their halves meet."""

from __future__ import annotations

from svc.compose.telemetry import lane_meter
from svc.config import RoleSettings
from svc.lanes.rendezvous import RendezvousTable
from svc.proxy.sessions.direct import DirectLanes
from svc.runtime.context import Runtime
from svc.telemetry.metrics import Metrics


def direct_lanes(runtime: Runtime, settings: RoleSettings, metrics: Metrics) -> DirectLanes:
    """What moves sessions to lanes of their own; nothing does where they are off."""
    most = lanes_of(settings)
    if not most:
        return DirectLanes(None)
    return DirectLanes(
        RendezvousTable(
            reactor=runtime.reactor,
            entropy=runtime.entropy,
            on_outcome=lane_meter(metrics),
            most=most,
        )
    )


def lanes_of(settings: RoleSettings) -> int:
    """How many direct lanes a Proxy may have; 0 where they are off, as where a front ends TLS."""
    if settings.proxy.public_plaintext or not settings.proxy.direct_lane:
        return 0
    return settings.limits.max_connections // 4
