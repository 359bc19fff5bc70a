"""Health for anyone: whether the public listener is up, and nothing about the Authority."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, streaming, unary
from svc.proto.gate.v1 import health_pb2 as pb

MAX_WATCHERS = 256
"""Watching is anonymous, and holds a call open."""

SERVICES = ("gate.v1.Health", "grpc.health.v1.Health")
CHECKS = frozenset(f"/{name}/Check" for name in SERVICES)
"""What anyone may ask as often as they like; watching, which holds a call, is not of it."""


@define
class Health:
    """SERVING while the listener accepts work, NOT_SERVING during the shutdown."""

    _draining: bool = False
    _watching: list[Deferred[None]] = field(factory=list)

    def services(self) -> list[RpcService]:
        """Our own health service and the standard gRPC one; their messages are the same."""
        check = {"Check": unary(pb.HealthCheckRequest, self._check)}
        watch = {"Watch": streaming(self._watch)}
        return [RpcService(SERVICES[0], check), RpcService(SERVICES[1], check | watch)]

    def drain(self) -> None:
        """Say NOT_SERVING from now on."""
        self._draining = True
        watching, self._watching = self._watching, []
        for each in watching:
            if not each.called:
                each.callback(None)

    def _answer(self) -> pb.HealthCheckResponse:
        words = pb.HealthCheckResponse
        return words(status=words.NOT_SERVING if self._draining else words.SERVING)

    async def _check(
        self, request: pb.HealthCheckRequest, call: IRpcCall
    ) -> pb.HealthCheckResponse:
        return self._answer()

    async def _watch(self, call: IRpcCall) -> None:
        await call.receive()
        if not self._draining:
            if len(self._watching) >= MAX_WATCHERS:
                raise SvcError(
                    "too many health watches on this listener; use Check instead of Watch",
                    reason="too_many_watchers",
                    fault=Fault.EXHAUSTED,
                )
            changed: Deferred[None] = Deferred(self._forget)
            self._watching.append(changed)
            await call.send(self._answer().SerializeToString())
            await changed
        # The last word: a listener that drains does not come back.
        await call.send(self._answer().SerializeToString())

    def _forget(self, changed: Deferred[None]) -> None:
        if changed in self._watching:
            self._watching.remove(changed)
