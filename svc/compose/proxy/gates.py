"""What decides at a Proxy, and the process that does its gates' dangerous work."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.compose.drop_ins import Kinds
from svc.compose.telemetry import gate_meter
from svc.model.audit.decision_ids import RANDOM_BYTES, DecisionIds
from svc.model.ids import DrawnAhead
from svc.policy.engine import CompiledPolicy
from svc.proxy.denied import DeniedTexts
from svc.proxy.sessions.gate import Gate
from svc.runtime.apart import WorkApart
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncService
from svc.telemetry.metrics import Metrics


@define(slots=False, eq=False)
class ProxyGate(AsyncService):
    """The gate, and the end of its process.

    Attributes:
        gate: To be given to whoever asks it.
        denied: What it denied and people can ask for.
    """

    gate: Gate
    denied: DeniedTexts
    apart: WorkApart

    async def stop(self) -> None:
        """Nothing is read apart any more."""
        await self.apart.stop()


def proxy_gate(
    *,
    runtime: Runtime,
    kinds: Kinds,
    metrics: Metrics,
    proxy_id: str,
    engine: Callable[[], CompiledPolicy],
) -> ProxyGate:
    """Make it; its process begins with the first text that needs one."""
    apart = WorkApart(reactor=runtime.reactor, clock=runtime.reactor)
    gate = Gate(
        engine=engine,
        kinds=kinds.by_name,
        now=runtime.now,
        entropy=runtime.entropy,
        on_decision=gate_meter(metrics),
        apart=apart.run,
        request_ids=DecisionIds(proxy_id, runtime.now, DrawnAhead(runtime.entropy, RANDOM_BYTES)),
    )
    return ProxyGate(gate, DeniedTexts(runtime.reactor), apart)
