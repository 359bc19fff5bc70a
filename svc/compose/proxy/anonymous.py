"""What callers without a certificate are charged for."""

from __future__ import annotations

from svc.compose.reload.keys import ReloadableKeys
from svc.compose.telemetry import anonymous_meter
from svc.proxy.anonymous import AnonymousCalls
from svc.ratelimit.source import AddressBudget
from svc.runtime.context import Runtime
from svc.telemetry.metrics import Metrics


def anonymous_calls(runtime: Runtime, reloads: ReloadableKeys, metrics: Metrics) -> AnonymousCalls:
    """Their budget, which follows the configuration."""
    limits = reloads.settings.limits
    budget = AddressBudget(limits.anonymous_per_minute, limits.anonymous_burst)
    reloads.on(
        "limits.anonymous_per_minute",
        "limits.anonymous_burst",
        apply=lambda changed: budget.change(
            changed.limits.anonymous_per_minute, changed.limits.anonymous_burst
        ),
    )
    return AnonymousCalls(runtime.reactor, anonymous_meter(metrics), budget)
