"""What an Authority's Proxies ask: sessions, registrations, explanations."""

from __future__ import annotations

from svc.authority.control import ControlService
from svc.authority.registry.register import RegistrationIntake
from svc.authority.sessions.explain import Explainer
from svc.authority.sessions.issue import Issuance
from svc.authority.sessions.onward import OnwardCertificates
from svc.authority.state.write_probe import StoreWrites
from svc.compose.authority.checkpoints import CheckpointWiring
from svc.compose.authority.health import reported_health
from svc.compose.authority.ingest import AuditQueue
from svc.compose.authority.listeners import lanes_of
from svc.compose.authority.parts import (
    Parts,
    engine_of,
)
from svc.compose.authority.shared import SharedServices
from svc.compose.listeners.rpc import RpcListener
from svc.compose.telemetry import decisions_meter
from svc.model.signing import Purpose
from svc.pki.ssh_certificates import WORD


def control_service(
    p: Parts,
    rooms: SharedServices,
    listeners: dict[str, RpcListener],
    queue: AuditQueue,
    heads: CheckpointWiring,
    writes: StoreWrites,
) -> ControlService:
    """Wire it."""
    clock, now, entropy = p.runtime.reactor, p.runtime.now, p.runtime.entropy
    cluster, verifier, kinds = p.settings.cluster, p.identity.verifier, p.kinds.by_name
    engine = engine_of(rooms.policy)

    def may_grant() -> None:
        writes.require_room()
        heads.writer.require_signing()

    peers = rooms.peers
    issuance = Issuance(
        cluster=cluster,
        state_cache=rooms.state_cache,
        engine=engine,
        peers=peers,
        kinds=kinds,
        store=p.store,
        recorder=p.recorder,
        verifier=verifier,
        sign_grant=p.keys.signer(Purpose.GRANT),
        clock=clock,
        now=now,
        entropy=entropy,
        on_decision=decisions_meter(p.metrics),
        rates=rooms.rates,
        refusals=rooms.refusals,
        note=p.runtime.traces.note,
        trace_id=p.runtime.traces.trace_id,
        may_grant=may_grant,
        ended=rooms.ends.reported,
        gated=rooms.gated,
        offers=rooms.access.offers,
        recording_key=lambda: rooms.recordings.keys.keys.current.public,
        onward=OnwardCertificates(key=lambda: p.keys.purposes.get(WORD), now=now),
    )
    intake = RegistrationIntake(
        cluster=cluster,
        state_cache=rooms.state_cache,
        registrations=rooms.peers.registrations,
        store=p.store,
        recorder=p.recorder,
        verifier=verifier,
        clock=clock,
        now=now,
        entropy=entropy,
        lease_secs=int(p.settings.tunnel.lease_secs),
        ends=rooms.tunnel_ends,
        rates=rooms.rates,
        refusals=rooms.refusals,
    )
    explainer = Explainer(
        cluster=cluster,
        state_cache=rooms.state_cache,
        engine=engine,
        kinds=kinds,
        store=p.store,
        verifier=verifier,
        now=now,
        reasons=rooms.reasons,
    )

    async def seen(node_id: str, version: str) -> None:
        await p.store.run("node seen", lambda tx: tx.nodes.seen(node_id, now(), version))

    return ControlService(
        state_cache=rooms.state_cache,
        verifier=verifier,
        issuance=issuance,
        intake=intake,
        ends=rooms.ends,
        snapshots=rooms.publisher,
        explainer=explainer,
        access=rooms.access.calls,
        approvals=rooms.access.uses,
        gated=rooms.gated,
        peers=peers,
        lanes=lambda: lanes_of(p, listeners),
        clock=clock,
        seen=seen,
        rates=rooms.rates,
        spooled=queue.intake,
        heads=heads.heads_to_send,
        health=reported_health(p, rooms.state_cache),
    )
