"""The Proxy: the public listener, the gate, the routes, the way to Authority."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field
from twisted.application.service import Service

from svc.compose.budgets import AT_PROXY, proxy_rates
from svc.compose.degraded import CONTROL, SPOOL, DegradedConditions
from svc.compose.drop_ins import Kinds, KindSide, load_kinds
from svc.compose.listeners.rpc import RpcListener, rpc_listener, rpc_server
from svc.compose.node import (
    NodeRole,
    check_identity,
    identity_store,
    renewal_loop,
    tunnel_times,
)
from svc.compose.process_parts import ProcessParts
from svc.compose.proxy.anonymous import anonymous_calls
from svc.compose.proxy.gates import proxy_gate
from svc.compose.proxy.lanes import direct_lanes
from svc.compose.proxy.peers import PeerWiring, peer_listener
from svc.compose.proxy.reports import make_reports, tunnel_events
from svc.compose.proxy.spool import SpoolService, make_spooling, request_sealer
from svc.compose.proxy.uplink import ProxyUplink
from svc.compose.telemetry import (
    lane_meters,
    relay_streams,
    session_meters,
)
from svc.config import RoleSettings
from svc.errors import ConfigError, SvcError
from svc.interfaces.rpc import RpcService
from svc.model.principal import Role
from svc.model.session.tunnels import Miss
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.tls import ClientCertificates, server_context
from svc.proxy.administration import AdminAdmission
from svc.proxy.health import Health
from svc.proxy.public import PublicServices
from svc.proxy.relay import RelayLanes
from svc.proxy.sessions.list import Listings
from svc.proxy.sessions.open import SessionOpens
from svc.proxy.sessions.recording import recording
from svc.proxy.shutdown import ProxyShutdown, Work
from svc.proxy.tunnels.service import TunnelService
from svc.proxy.uplink.summaries import EVERY_SECS, RefusalSummaries
from svc.runtime.context import Runtime
from svc.runtime.services import (
    AsyncMultiService,
    AsyncService,
    BackgroundTasks,
    PeriodicTask,
    Readiness,
)
from svc.runtime.state_directory import StateDirectory
from svc.telemetry.metrics import Metrics
from svc.tunnel.routes import RouteTable

IDENTITY = "identity"
LISTENER = "public listener"


@define(slots=False, eq=False)
class ProxyRole(AsyncMultiService):
    """The service tree of one Proxy."""

    ready: Readiness
    listeners: dict[str, RpcListener]
    lacking: DegradedConditions

    def __attrs_pre_init__(self) -> None:
        AsyncMultiService.__init__(self)


@define
class ProxyParts:
    """What a Proxy is wired from."""

    runtime: Runtime
    settings: RoleSettings
    metrics: Metrics
    state: StateDirectory
    kinds: Kinds
    identities: IdentityStore
    public: RpcListener
    ready: Readiness
    shared: ProcessParts
    services: tuple[RpcService, ...] = ()
    peer: RpcListener | None = None
    tasks: BackgroundTasks = field(factory=BackgroundTasks)
    lacking: DegradedConditions = field(factory=DegradedConditions)


def make_proxy(
    runtime: Runtime,
    settings: RoleSettings,
    metrics: Metrics,
    state: StateDirectory,
    stopped_by: Callable[[SvcError], object],
    shared: ProcessParts,
    services: Iterable[RpcService] = (),
) -> ProxyRole:
    """Wire a Proxy; refuses at once what it must not start with.

    Args:
        services: Served beside its own on the public listener, under its limits and admission.
    """
    address = settings.endpoints.public_listen
    if address is None:
        raise ConfigError("endpoints.public_listen", "required for a Proxy")
    kinds = load_kinds(settings.plugins.kinds, KindSide.GATE)
    identities = identity_store(runtime, state)
    check_identity(runtime, settings, identities)
    public = rpc_listener(runtime, settings, "endpoints.public_listen", address)
    ready = Readiness(IDENTITY, CONTROL, LISTENER, SPOOL, sticky=True)
    parts = ProxyParts(
        runtime=runtime,
        settings=settings,
        metrics=metrics,
        state=state,
        kinds=kinds,
        identities=identities,
        public=public,
        ready=ready,
        shared=shared,
        services=tuple(services),
        peer=peer_listener(runtime, settings),
    )
    listeners = {"public": public} if parts.peer is None else {"public": public, "peer": parts.peer}
    role = ProxyRole(ready, listeners, parts.lacking)
    stopping = ProxyShutdown(runtime.reactor, settings.limits.drain_secs)
    assembled = ProxyAssembly(parts, stopping)
    node = NodeRole(
        runtime=runtime,
        settings=settings,
        identity_store=identities,
        role=Role.PROXY,
        assemble=assembled.services,
        stopped_by=stopped_by,
    )
    # Stopped in reverse: the work ends while the listener still answers.
    for service in (parts.tasks, node, *listeners.values(), BoundMarker(ready), stopping):
        role.addService(service)
    return role


@define(slots=False, eq=False)
class BoundMarker(AsyncService):
    """Comes after the public listener: it is bound."""

    ready: Readiness

    async def start(self) -> None:
        """Say so."""
        self.ready.met(LISTENER)


@define
class ProxyAssembly:
    """Wires what needs an identity."""

    parts: ProxyParts
    stopping: ProxyShutdown

    def services(self, identity: TransportIdentity) -> list[Service]:
        """Everything, in the order of its start."""
        p, clock, now = self.parts, self.parts.runtime.reactor, self.parts.runtime.now
        reloads = p.shared.reloads
        uplink = ProxyUplink(
            runtime=p.runtime,
            settings=p.settings,
            state=p.state,
            metrics=p.metrics,
            identity=identity,
        )
        holder, heads = uplink.kept()
        peering = PeerWiring(
            runtime=p.runtime,
            settings=p.settings,
            metrics=p.metrics,
            tasks=p.tasks,
            identity=identity,
            holder=holder,
            listener=p.peer,
        )
        reachable = peering.reachable(lambda: listings.changed())
        peer_links = peering.links()

        def revoked() -> None:
            sessions.proxy_revoked()
            peers.proxy_revoked()

        link, probes = uplink.link(
            holder,
            heads,
            claims=lambda: sessions.uids,
            revoked=revoked,
            peer_address=lambda: peering.address,
            reachable=reachable.take,
        )
        spooling = make_spooling(
            runtime=p.runtime,
            settings=p.settings,
            state=p.state,
            identities=p.identities,
            origin=identity.principal.id,
            channel=link.channel,
            tasks=p.tasks,
            sealer=request_sealer(p.runtime, p.kinds),
            has_room=lambda: p.ready.met(SPOOL),
        )
        reports = make_reports(
            channel=link.channel,
            tasks=p.tasks,
            clock=clock,
            metrics=p.metrics,
            spooling=spooling,
            check=spooling.check_of(heads, holder),
        )
        routes = RouteTable(
            tunnel_events(
                metrics=p.metrics,
                reports=reports,
                changed=lambda: listings.changed(),
                ours=lambda uids: peers.others(uids),
            ),
            on_reassigned=lambda one: _each(one, sessions.reassigned, peers.reassigned),
        )
        rates = proxy_rates(p.runtime, reloads.settings.limits, p.metrics)
        deciding = proxy_gate(
            runtime=p.runtime,
            kinds=p.kinds,
            metrics=p.metrics,
            proxy_id=identity.principal.id,
            engine=holder.engine,
        )
        sessions = SessionOpens(
            gate=deciding.gate,
            channel=link.channel,
            routes=routes,
            reports=reports,
            verifier=identity.verifier,
            check_person=holder.check_person,
            meters=session_meters(p.metrics),
            clock=clock,
            now=now,
            max_per_person=lambda: reloads.settings.limits.max_sessions_per_person,
            rates=rates.persons,
            spans=p.runtime.traces.spans,
            direct=direct_lanes(p.runtime, p.settings, p.metrics),
            record=recording(
                spooling.spool, identity.principal.id, now=now, entropy=p.runtime.entropy
            ),
            keep_denied=deciding.denied.keep_of,
            others=peering.others(peer_links),
        )
        peers = peering.service(routes, sessions.prolonged, p.kinds, rates)
        reloads.on(*AT_PROXY, apply=lambda changed: rates.change(changed.limits))
        reloads.read("limits.max_sessions_per_person")
        listings = Listings(
            engine=holder.engine,
            kinds=p.kinds.by_name,
            is_served=lambda one: one in reachable or not _is_miss(routes.find(one)),
            person=sessions.person,
            clock=clock,
            now=now,
            heads=lambda: heads.lines,
            receive_head=heads.receive_head,
            lacking=lambda: p.lacking.words,
        )
        for changed in (listings.changed, sessions.recheck, peers.recheck):
            holder.on_change(changed)
        reported, reporting = uplink.health(link, p.shared.checks, p.tasks)
        tunnels = TunnelService(
            routes=routes,
            link=link,
            verifier=identity.verifier,
            streams=relay_streams(p.metrics),
            clock=clock,
            entropy=p.runtime.entropy,
            times=tunnel_times(p.settings),
            rates=rates.connectors,
            check_not_revoked=holder.check_not_revoked,
            proxy_revoked=revoked,
            unassigned=lambda one: _each(one, sessions.unassigned, peers.unassigned),
            checkpoint=sessions.prolonged.checkpoint,
            bring_health=reported.bring,
        )
        health, anonymous = Health(), anonymous_calls(p.runtime, p.shared.reloads, p.metrics)
        lanes = RelayLanes(
            lanes=lambda: link.lanes,
            endpoint=lambda port: uplink.authority_port(link, port),
            verifier=identity.verifier,
            meters=lane_meters(p.metrics),
            clock=clock,
            anonymous=anonymous,
            check_not_revoked=holder.check_not_revoked,
            admit_administrator=AdminAdmission(
                cluster=p.settings.cluster,
                engine=holder.engine,
                verifier=identity.verifier,
                check_person=holder.check_person,
                rates=rates.persons,
                now=now,
            ).admit,
        )
        public = PublicServices(
            health=health,
            lanes=lanes,
            tunnels=tunnels,
            sessions=sessions,
            listings=listings,
            channel=link.channel,
            anonymous=anonymous,
            denied=deciding.denied,
            plaintext=p.settings.proxy.public_plaintext,
        )
        self._serve(identity, public)
        peering.serve(peers)
        for callback in (
            reports.connected,
            spooling.delivery.connected,
            lambda: p.ready.met(CONTROL),
        ):
            link.on_connected(callback)
        p.ready.met(IDENTITY)
        checks = (reports.check, spooling.spool.check_requests)
        p.lacking.watch(link, holder, checks, p.metrics)
        reach = uplink.renewal_reach(link)
        renewal = renewal_loop(p.runtime, p.settings, p.metrics, p.identities, identity, reach)
        refused = RefusalSummaries(
            refusal_counter=rates.refusal_counter,
            sink=spooling.spool,
            origin=identity.principal.id,
            now=now,
            entropy=p.runtime.entropy,
        )
        self.stopping.begun(
            Work(
                health=health,
                routes=routes,
                sessions=sessions,
                peers=peers,
                listings=listings,
                reports=reports,
                refused=refused,
                spool=spooling.spool,
                delivery=spooling.delivery,
            )
        )
        summaries = PeriodicTask(
            clock=clock,
            interval=EVERY_SECS,
            call=refused.tell,
            what="refusals summary",
            at_once=False,
        )
        lacking = p.lacking.on_change(clock, listings.changed)
        keeping = SpoolService(spooling, clock, reports.recover)
        mending = spooling.mending(heads, clock)
        periodic = (summaries, lacking, mending, reporting)
        return [deciding, keeping, renewal, peer_links, link, probes, *periodic]

    def _serve(self, identity: TransportIdentity, public: PublicServices) -> None:
        p = self.parts
        plaintext = p.settings.proxy.public_plaintext
        server = rpc_server(
            p.runtime,
            p.settings,
            [*public.services(), *p.services],
            public.admit,
            plaintext=plaintext,
            listener="endpoints.public_listen",
        )
        also_tls12 = p.settings.proxy.tls_min_version == "1.2"
        tls = (
            None
            if plaintext
            else server_context(identity, ClientCertificates.OPTIONAL, also_tls12=also_tls12)
        )
        p.public.late.serve(server, tls, public.sessions.direct.rendezvous_table)


def _each(node_id: str, *told: Callable[[str], object]) -> None:
    for tell in told:
        tell(node_id)


def _is_miss(found: object) -> bool:
    return isinstance(found, Miss)
