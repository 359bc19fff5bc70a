"""Both sides of a Proxy that relays sessions: the other Proxies it dials, and its own listener."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define

from svc.compose.budgets import ProxyRates
from svc.compose.drop_ins import Kinds
from svc.compose.listeners.limits import log_problems, wire_limits
from svc.compose.listeners.rpc import RpcListener, rpc_listener, rpc_server
from svc.compose.node import freshness, keepalive, tls_endpoint, tunnel_times
from svc.compose.telemetry import peer_meter, session_meters
from svc.config import Address, RoleSettings
from svc.config.forms import parse_address
from svc.errors import Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.model.principal import Principal, Role
from svc.model.session.ending import PEER_PROXY_UNREACHABLE
from svc.pki.identity import TransportIdentity
from svc.pki.tls import ClientCertificates, server_context
from svc.proxy.peers.links import PeerLinks
from svc.proxy.peers.reachable import ReachableByPeers
from svc.proxy.peers.relayed import RelayAdmission
from svc.proxy.peers.route import PeerRoutes
from svc.proxy.peers.service import PeerService
from svc.proxy.sessions.prolonged import ProlongedSessions
from svc.proxy.sessions.route import NoOtherProxies, OtherProxies
from svc.proxy.uplink.snapshot import SnapshotHolder
from svc.rpc.client.channel import dial
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks
from svc.telemetry.metrics import Metrics
from svc.tunnel.routes import RouteTable
from svc.tunnel.times import dial_secs

KEY = "endpoints.peer_listen"
_PROXIES = frozenset({Role.PROXY})
_ANSWER_SECS = 5.0
"""What the other Proxy may take beside what its Connector takes."""


def peer_listener(runtime: Runtime, settings: RoleSettings) -> RpcListener | None:
    """The listener for other Proxies, where the configuration asks for one."""
    address = settings.endpoints.peer_listen
    return None if address is None else rpc_listener(runtime, settings, KEY, address)


@define(kw_only=True)
class PeerWiring:
    """What both sides are wired from.

    Attributes:
        listener: For other Proxies; None: this Proxy relays no sessions, in either direction.
    """

    runtime: Runtime
    settings: RoleSettings
    metrics: Metrics
    tasks: BackgroundTasks
    identity: TransportIdentity
    holder: SnapshotHolder
    listener: RpcListener | None

    @property
    def address(self) -> str:
        """Where other Proxies reach this one; empty: it relays none."""
        if self.listener is None:
            return ""
        told, bound = self.settings.endpoints.peer_address, self.listener.listener.bound
        if told is not None:
            return str(told)
        return str(Address(getattr(bound, "host", ""), getattr(bound, "port", 0)))

    def reachable(self, changed: Callable[[], object]) -> ReachableByPeers:
        """What other Proxies serve, for lists; told each change of that."""
        return ReachableByPeers(changed)

    def links(self) -> PeerLinks:
        """The connections to other Proxies; none is made before a session needs it."""
        runtime, identity = self.runtime, self.identity
        pings = keepalive(runtime, self.settings)

        async def to_proxy(address: str) -> IRpcChannel:
            try:
                where = parse_address(address)
            except ValueError as e:
                raise Unavailable(f"its address {e}", reason=PEER_PROXY_UNREACHABLE) from None
            return await dial(
                tls_endpoint(runtime.reactor, identity, where, _PROXIES),
                runtime.reactor,
                authority="proxy",
                keepalive=pings,
                handshake_secs=self.settings.limits.handshake_secs,
                limits=wire_limits(self.settings),
                on_problem=log_problems(runtime.reactor, KEY, address),
            )

        return PeerLinks(
            dial=to_proxy,
            proxy_at=lambda channel: (
                identity.verifier.verify(channel.peer.chain, _PROXIES).principal.id
            ),
            clock=runtime.reactor,
            fresh=freshness(runtime, identity, Role.PROXY),
            dial_secs=dial_secs(self.settings.limits.handshake_secs),
        )

    def others(self, links: PeerLinks) -> OtherProxies:
        """The other Proxies, for sessions that enter here."""
        if self.listener is None:
            return NoOtherProxies()
        return PeerRoutes(
            links=links,
            tasks=self.tasks,
            clock=self.runtime.reactor,
            open_secs=tunnel_times(self.settings).open + _ANSWER_SECS,
            outcome=partial(peer_meter(self.metrics), "ingress"),
            check_not_revoked=lambda role, one: self.holder.check_not_revoked(
                Principal(self.settings.cluster, role, one)
            ),
        )

    def service(
        self, routes: RouteTable, prolonged: ProlongedSessions, kinds: Kinds, rates: ProxyRates
    ) -> PeerService:
        """What other Proxies open here; nobody reaches it without a listener."""
        runtime, verifier = self.runtime, self.identity.verifier
        meters = session_meters(self.metrics)
        return PeerService(
            routes=routes,
            admission=RelayAdmission(self.identity.principal.id, verifier, runtime.now),
            verifier=verifier,
            check_not_revoked=self.holder.check_not_revoked,
            check_person=self.holder.check_person,
            prolonged=prolonged,
            kinds=kinds.by_name,
            active=meters.active,
            missed=meters.missed,
            outcome=partial(peer_meter(self.metrics), "egress"),
            budget=rates.peers,
            clock=runtime.reactor,
            now=runtime.now,
            times=tunnel_times(self.settings),
            spans=runtime.traces.spans,
        )

    def serve(self, service: PeerService) -> None:
        """Serve other Proxies from now on; without a certificate there is no connection."""
        if self.listener is None:
            return
        server = rpc_server(
            self.runtime,
            self.settings,
            [service.service()],
            service.admit,
            listener=KEY,
            limits=service.limits(wire_limits(self.settings)),
        )
        tls = server_context(self.identity, ClientCertificates.REQUIRED, roles=_PROXIES)
        self.listener.late.serve(server, tls)
