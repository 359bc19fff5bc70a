"""Health, answered to anyone: that the public surface is up, and nothing about Authority."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred

from svc.interfaces.rpc import IRpcCall, RpcService, streaming, unary
from svc.proto.gate.v1 import health_pb2 as pb

SERVICES = ("gate.v1.Health", "grpc.health.v1.Health")


@define
class Health:
    """SERVING while the listener takes work, NOT_SERVING while it drains."""

    _draining: bool = False
    _watching: list[Deferred[None]] = field(factory=list)

    def services(self) -> list[RpcService]:
        """Our own health service and the one stock probes ask; their messages are the same."""
        check = {"Check": unary(pb.HealthCheckRequest, self._check)}
        watch = {"Watch": streaming(self._watch)}
        return [RpcService(SERVICES[0], check), RpcService(SERVICES[1], check | watch)]

    def drain(self) -> None:
        """Say NOT_SERVING from now on."""
        self._draining = True
        watching, self._watching = self._watching, []
        for each in watching:
            each.callback(None)

    def _answer(self) -> pb.HealthCheckResponse:
        status = (
            pb.HealthCheckResponse.NOT_SERVING
            if self._draining
            else (pb.HealthCheckResponse.SERVING)
        )
        return pb.HealthCheckResponse(status=status)

    async def _check(
        self, request: pb.HealthCheckRequest, call: IRpcCall
    ) -> pb.HealthCheckResponse:
        return self._answer()

    async def _watch(self, call: IRpcCall) -> None:
        await call.receive()
        while True:
            changed: Deferred[None] = Deferred(self._watching.remove)
            self._watching.append(changed)
            await call.send(self._answer().SerializeToString())
            await changed
