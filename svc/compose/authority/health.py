"""What nodes report of their health: taken from all of them, and this Authority's own."""

from __future__ import annotations

from attrs import evolve

from svc.authority.ha.leader_connection import LeaderRoute
from svc.authority.registry.health import WRITE_SECS, ReportedHealth
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts
from svc.compose.health import HealthReporter, LastChecks
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.messages.health import (
    MEMBER_HEALTH_METHOD,
    health_reports,
    read_health_reports,
    receipt_message,
)
from svc.model.principal import Role
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2, tunnel_pb2
from svc.runtime.services import PeriodicTask


def reported_health(p: Parts, state_cache: ClusterStateCache) -> ReportedHealth:
    """What takes the reports of all nodes."""
    return ReportedHealth(
        cluster=p.settings.cluster,
        state_cache=state_cache,
        verifier=p.identity.verifier,
        store=p.store,
        now=p.runtime.now,
        is_serving=lambda: p.serving.is_on,
    )


def health_services(
    p: Parts, health: ReportedHealth, route: LeaderRoute, checks: LastChecks
) -> tuple[HealthReporter, PeriodicTask]:
    """What reports for this Authority, and what writes the reports of all nodes."""

    async def deliver(signed: Signed) -> None:
        if p.serving.is_on:
            health.take((signed,), p.identity.principal.id)
            return
        channel = await route.channel()
        await channel.unary(
            MEMBER_HEALTH_METHOD,
            health_reports((signed,)),
            tunnel_pb2.HealthReceipt,
            timeout=WRITE_SECS,
        )

    reporting = HealthReporter(
        cluster=p.settings.cluster,
        identity=p.identity,
        checks=checks,
        deliver=deliver,
        clock=p.runtime.reactor,
        now=p.runtime.now,
    )
    writing = PeriodicTask(
        clock=p.runtime.reactor,
        interval=WRITE_SECS,
        call=health.write,
        what="write health reports",
        at_once=False,
    )
    return reporting, writing


def with_health(membership: RpcService, p: Parts, health: ReportedHealth) -> RpcService:
    """``gate.v1.Membership`` as the private listener serves it: with reports of other members."""

    async def report(
        request: control_pb2.HealthReports, call: IRpcCall
    ) -> tunnel_pb2.HealthReceipt:
        peer = p.identity.verifier.verify(call.peer.chain, {Role.AUTHORITY}).principal
        return receipt_message(health.take(read_health_reports(request), peer.id))

    methods = {**membership.methods, "ReportHealth": unary(control_pb2.HealthReports, report)}
    return evolve(membership, methods=methods)
