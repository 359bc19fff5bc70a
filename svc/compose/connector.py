"""The Connector: its targets, its tunnels, and the way its renewals take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.application.service import Service
from twisted.internet.interfaces import IStreamClientEndpoint

from svc import __version__
from svc.compose.discovery import DiscoveryParts, Sources, open_sources
from svc.compose.drop_ins import Kinds, KindSide, load_kinds
from svc.compose.health import HealthReporter
from svc.compose.listeners.limits import log_problems, wire_limits
from svc.compose.node import (
    NodeRole,
    check_identity,
    freshness,
    identity_store,
    keepalive,
    renewal_listener,
    renewal_loop,
    tls_endpoint,
    tunnel_times,
)
from svc.compose.process_parts import ProcessParts
from svc.compose.recordings import recording_parts
from svc.compose.targets import reach_in_force, read_targets
from svc.config import Address, RoleSettings
from svc.connector.admission import Admission
from svc.connector.cycle import Tunnels, proxy_by
from svc.connector.discovery.targets import ServedTargets
from svc.connector.health import HealthLinks
from svc.connector.identity import AuthorityIdentities
from svc.connector.inventories import ProxyInventories
from svc.connector.last_checkpoints import LastCheckpoints
from svc.connector.opening import ConnectorSessions
from svc.connector.proxies import Proxies, ProxyAddress
from svc.connector.reach import Reach
from svc.connector.service import ConnectorService
from svc.connector.tunnel_parts import ConnectorIdentity
from svc.errors import ConfigError, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.join.lane import opened_lane
from svc.messages.relay import Lane
from svc.model.ids import random_id
from svc.model.principal import Role
from svc.model.signing import Purpose
from svc.pki.end_to_end import ConnectorEnd
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import lane_to
from svc.rpc.endpoint import StreamClientEndpoint
from svc.runtime.backoff import Backoff, share
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncMultiService, BackgroundTasks, Readiness
from svc.runtime.state_directory import StateDirectory
from svc.telemetry.metrics import Metrics

SERVING = "serving"
_PROXIES = frozenset({Role.PROXY})
_LANE_SECS = 15.0


@define(slots=False, eq=False)
class ConnectorRole(AsyncMultiService):
    """The service tree of one Connector."""

    ready: Readiness

    def __attrs_pre_init__(self) -> None:
        AsyncMultiService.__init__(self)


@define
class ConnectorParts:
    """What a Connector is wired from."""

    runtime: Runtime
    settings: RoleSettings
    metrics: Metrics
    kinds: Kinds
    targets: ServedTargets
    sources: Sources
    reach: Callable[[], Reach]
    identities: IdentityStore
    state: StateDirectory
    ready: Readiness
    shared: ProcessParts
    tasks: BackgroundTasks = field(factory=BackgroundTasks)


def make_connector(
    runtime: Runtime,
    settings: RoleSettings,
    metrics: Metrics,
    state: StateDirectory,
    stopped_by: Callable[[SvcError], object],
    shared: ProcessParts,
) -> ConnectorRole:
    """Wire a Connector; refuses at once what it must not start with."""
    if not settings.endpoints.proxy:
        raise ConfigError("endpoints.proxy", "required for a Connector: the Proxies it dials")
    kinds = load_kinds(settings.plugins.kinds, KindSide.DIALER)
    sources = open_sources(runtime, settings)
    identities = identity_store(runtime, state)
    check_identity(runtime, settings, identities)
    ready = Readiness(SERVING, sticky=True)
    parts = ConnectorParts(
        runtime=runtime,
        settings=settings,
        metrics=metrics,
        kinds=kinds,
        targets=ServedTargets(read_targets(settings, kinds)),
        sources=sources,
        reach=reach_in_force(shared.reloads),
        identities=identities,
        state=state,
        ready=ready,
        shared=shared,
    )
    role = ConnectorRole(ready)
    node = NodeRole(
        runtime=runtime,
        settings=settings,
        identity_store=identities,
        role=Role.CONNECTOR,
        assemble=ConnectorAssembly(parts).services,
        stopped_by=stopped_by,
    )
    for service in (parts.tasks, node):
        role.addService(service)
    return role


@define
class ConnectorAssembly:
    """Wires what needs an identity."""

    parts: ConnectorParts

    def services(self, identity: TransportIdentity) -> list[Service]:
        """Everything, in the order of its start."""
        p = self.parts
        times, clock = tunnel_times(p.settings), p.runtime.reactor
        end = ConnectorEnd(identity)
        inventories = ProxyInventories()
        reach = self._renewal_reach(identity)
        renewal_lane = renewal_listener(p.runtime, p.settings, identity, reach)
        identities = AuthorityIdentities(
            dial=renewal_lane,
            clock=clock,
            spawn=p.tasks.spawn,
        )
        recordings = recording_parts(
            runtime=p.runtime,
            metrics=p.metrics,
            reloads=p.shared.reloads,
            state=p.state.path,
            tasks=p.tasks,
            identities=identities,
        )
        onward_key = Ed25519PrivateKey.generate()  # of this process: kept and sent nowhere
        sessions = ConnectorSessions(
            admission=Admission(
                node_id=identity.principal.id,
                verifier=identity.verifier,
                targets=p.targets,
                kinds=p.kinds.by_name,
                now=p.runtime.now,
                inventories=inventories,
            ),
            kinds=p.kinds.by_name,
            reactor=clock,
            reach=p.reach,
            session_tls=end.session,
            now=p.runtime.now,
            on_event=lambda event: None,
            times=times,
            spans=p.runtime.traces.spans,
            lane_to=lane_to(p.runtime.reactor),
            sign=identity.sign,
            last=LastCheckpoints(
                lambda data: identity.sign(Purpose.SESSION_CHECKPOINT, data), clock, p.tasks
            ),
            identify=identities.of,
            uses=identities.uses(p.tasks),
            recorder=recordings.recorder,
            onward_key=onward_key,
        )
        instance = random_id(p.runtime.entropy)
        me = ConnectorIdentity(
            cluster=p.settings.cluster,
            node_id=identity.principal.id,
            instance_id=instance,
            version=__version__,
            resources=p.targets.configured(),
            found=p.targets.found,
            onward_key=onward_key.public_key().public_bytes_raw(),
        )
        fresh = freshness(p.runtime, identity, Role.PROXY)
        ways = [ProxyAddress(str(a), self._dial(identity, a)) for a in p.settings.endpoints.proxy]
        duplicates = p.metrics.counter("svc_connector_duplicate_proxy_connections_total")
        proxies, health = Proxies(ways, duplicates.inc), HealthLinks()
        tunnels = [
            Tunnels(
                connector=me,
                proxies=proxies,
                proxy_of=proxy_by(identity.verifier),
                sign=lambda data: identity.sign(Purpose.REGISTRATION, data),
                sessions=sessions,
                tasks=p.tasks,
                clock=clock,
                times=times,
                fresh=fresh,
                inventories=inventories,
                health=health,
                ticks=keepalive(p.runtime, p.settings).ticks,
            )
            for _ in range(p.settings.connector.proxy_connection_count)
        ]
        service = ConnectorService(
            tunnels=tunnels,
            sessions=sessions,
            clock=clock,
            backoff=self._backoff,
            on_event=self._count_events(),
            serving=lambda: p.ready.met(SERVING),
            times=times,
        )
        renewal = renewal_loop(
            p.runtime,
            p.settings,
            p.metrics,
            p.identities,
            identity,
            reach,
        )
        reporting = HealthReporter(
            cluster=p.settings.cluster,
            identity=identity,
            checks=p.shared.checks,
            deliver=health.deliver,
            clock=clock,
            now=p.runtime.now,
        )
        discovery = DiscoveryParts(
            runtime=p.runtime,
            settings=p.settings,
            kinds=p.kinds,
            sources=p.sources,
            targets=p.targets,
            dial=renewal_lane,
            published=service.hurry,
        )
        return [renewal, identities, recordings.uploads, *discovery.services(), service, reporting]

    def _dial(
        self, identity: TransportIdentity, address: Address
    ) -> Callable[[], Awaitable[IRpcChannel]]:
        p = self.parts
        on_problem = log_problems(p.runtime.reactor, "endpoints.proxy", str(address))
        pings = keepalive(p.runtime, p.settings)

        async def to_proxy() -> IRpcChannel:
            endpoint = tls_endpoint(p.runtime.reactor, identity, address, _PROXIES)
            return await dial(
                endpoint,
                p.runtime.reactor,
                authority="proxy",
                keepalive=pings,
                handshake_secs=p.settings.limits.handshake_secs,
                limits=wire_limits(p.settings),
                on_problem=on_problem,
            )

        return to_proxy

    def _backoff(self) -> Backoff:
        tunnel, entropy = self.parts.settings.tunnel, self.parts.runtime.entropy
        return Backoff(
            first=tunnel.backoff_first_secs,
            longest=tunnel.backoff_max_secs,
            jitter=lambda seconds: seconds * share(entropy),
        )

    def _count_events(self) -> Callable[[str, str], None]:
        metrics = self.parts.metrics
        reconnects = metrics.counter("svc_connector_reconnects_total")
        refused = metrics.counter("svc_connector_registrations_refused_total")
        count_connections = self._connections()
        count_connections(0)

        def on_event(word: str, reason: str) -> None:
            if word == "reconnect":
                reconnects.inc()
            elif word == "refused":
                refused.inc()
            else:
                count_connections(1 if word == "registered" else -1)

        return on_event

    def _connections(self) -> Callable[[int], None]:
        """Moves the gauges of Proxy connections by how many came or went."""
        metrics = self.parts.metrics
        desired = self.parts.settings.connector.proxy_connection_count
        connected = metrics.gauge("svc_connector_proxy_connections_connected")
        degraded = metrics.gauge("svc_connector_proxy_connections_degraded")
        metrics.gauge("svc_connector_proxy_connections_desired").set(desired)
        count = 0

        def moved(by: int) -> None:
            nonlocal count
            count += by
            connected.set(count)
            degraded.set(max(0, desired - count))

        return moved

    def _renewal_reach(self, identity: TransportIdentity) -> Callable[[], Awaitable[Any]]:
        """The renewal lane of a Proxy: bytes to Authority's renewal listener, TLS inside."""
        p, clock = self.parts, self.parts.runtime.reactor
        turn = iter(range(1 << 62))

        async def reach() -> IStreamClientEndpoint:
            proxies = p.settings.endpoints.proxy
            address = proxies[next(turn) % len(proxies)]
            endpoint = tls_endpoint(clock, identity, address, _PROXIES)

            async def opened() -> Any:
                channel = await dial(
                    endpoint,
                    clock,
                    authority="proxy",
                    handshake_secs=p.settings.limits.handshake_secs,
                    limits=wire_limits(p.settings),
                    on_problem=log_problems(clock, "endpoints.proxy", str(address)),
                )
                try:
                    stream = await opened_lane(channel, Lane.RENEWAL, clock, _LANE_SECS)
                except BaseException:
                    # Refused, too late or cancelled: nobody else knows of this connection.
                    p.tasks.spawn("close a lane", channel.close())
                    raise
                stream.closed.addBoth(lambda _: p.tasks.spawn("close a lane", channel.close()))
                return stream

            return StreamClientEndpoint(opened)

        return reach
