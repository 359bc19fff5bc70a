"""The configured limits of a connection, the same for accepted and dialed connections."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from svc.config import RoleSettings
from svc.rpc.disconnect_log import DisconnectLog
from svc.wire.limits import WireLimits


def wire_limits(settings: RoleSettings) -> WireLimits:
    """What one connection of this role may hold and its peer may do."""
    limits = settings.limits
    return WireLimits(
        max_streams=limits.max_streams,
        max_header_list=limits.max_header_list_bytes,
        nuisances=limits.max_nuisances,
        resets=limits.max_resets,
        least_ping_secs=limits.least_ping_secs,
        stalled_secs=limits.stalled_secs,
        idle_secs=limits.idle_secs,
    )


def log_problems(clock: IReactorTime, dialed: str, address: str) -> Callable[[str, str], object]:
    """Logs how a connection that we dialed ended, where its server broke a limit.

    Args:
        dialed: The key that names whom we dial.
    """
    return DisconnectLog(clock, dialed).of(address)
