"""What every role gets from its caller: time, randomness, the reactor, the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from svc.interfaces.crash import CrashPoint, no_crash
from svc.interfaces.tracing import NO_TRACES, Traces
from svc.model.ids import Entropy


@frozen
class Runtime:
    """Time, randomness and the reactor: passed in, never imported (D3).

    Attributes:
        crash_point: Called by name at fault points; does nothing outside fault tests.
        traces: What a role traces with; only a role's process sets it.
    """

    reactor: Any
    now: Callable[[], float]
    entropy: Entropy
    environ: Mapping[str, str]
    crash_point: CrashPoint = no_crash
    traces: Traces = NO_TRACES

    def jitter(self, seconds: float) -> float:
        """A wait between half and all of *seconds*."""
        share = int.from_bytes(self.entropy(2), "big") / 65535
        return seconds * (0.5 + share / 2)
