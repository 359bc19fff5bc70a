"""One Authority among several: its name, its connection to the leader, and forwarded calls."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve
from twisted.logger import Logger

from svc.authority.ha.forward import (
    MAX_IN_FLIGHT,
    ForwardedCalls,
    Forwarder,
    authority_of,
)
from svc.authority.ha.leader_connection import LeaderRoute
from svc.authority.ha.membership import Membership, leader_service
from svc.authority.registry.health import ReportedHealth
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.distribution import (
    DistributionWiring,
    RootRooms,
    distribution_wiring,
    with_roots,
)
from svc.compose.authority.health import with_health
from svc.compose.authority.lifecycle import MEMBERSHIP
from svc.compose.authority.parts import Parts
from svc.compose.listeners.limits import log_problems, wire_limits
from svc.compose.listeners.rpc import RpcListener, rpc_server
from svc.compose.telemetry import forward_meters
from svc.config import RoleSettings
from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel, Peer, RpcService
from svc.messages.forward import LEADER_METHOD, ROOM, LeaderClaim
from svc.model.certificate import CertificateFacts, CertificateRefused
from svc.model.cluster.lease import Member
from svc.model.cluster.node import NodeState
from svc.model.principal import Principal, Role
from svc.pki.identity import TransportIdentity
from svc.pki.tls import ClientCertificates, client_context, server_context
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import dialed
from svc.rpc.client.tls import TlsEndpoint
from svc.runtime.services import AsyncService, Readiness
from svc.wire.limits import WireLimits

_log = Logger(namespace="svc_authority")


def owner_of(settings: RoleSettings, identity: TransportIdentity) -> str:
    """Our name among the Authorities on the store: the lease is held under it."""
    return settings.authority.name or identity.principal.id


@define
class Peers:
    """See the module.

    Attributes:
        membership: None where no other Authority can be.
    """

    membership: Membership | None
    route: LeaderRoute
    forwarding: Forwarder
    forwarded: ForwardedCalls
    leader: RpcService
    distribution: DistributionWiring

    @property
    def services(self) -> tuple[AsyncService, ...]:
        """In the order of their start."""
        return (self.route,) if self.membership is None else (self.membership, self.route)


def make_peers(
    p: Parts,
    state_cache: ClusterStateCache,
    roots: RootRooms,
    ready: Readiness,
    stopped_by: Callable[[SvcError], object],
) -> Peers:
    """Wire what one Authority is to the others."""
    membership = _membership(p, ready, stopped_by) if p.opened.is_shared else None
    if membership is None:
        ready.met(MEMBERSHIP)

    async def to_member(owner: str) -> IRpcChannel:
        return await _dialed(p, owner, "" if membership is None else membership.node_id(owner))

    route = LeaderRoute(p.leadership, to_member, p.runtime.reactor)
    forwarded = ForwardedCalls(p.identity.verifier, _not_revoked(state_cache))
    return Peers(
        membership=membership,
        route=route,
        forwarding=Forwarder(route, p.runtime.reactor, forward_meters(p.metrics)),
        forwarded=forwarded,
        leader=leader_service(lambda: _claim(p)),
        distribution=distribution_wiring(p, roots, route, stopped_by),
    )


def serve_private(
    p: Parts, peers: Peers, health: ReportedHealth, roots: RootRooms, listener: RpcListener
) -> None:
    """Serve other Authorities: who leads always, forwarded calls while we lead."""
    verifier = p.identity.verifier
    services = [
        peers.forwarded.service(),
        with_roots(with_health(peers.leader, p, health), p, roots),
    ]

    def an_authority(_method: str, peer: Peer) -> None:
        authority_of(verifier, peer)

    admit = p.serving.guarded(peers.forwarded.admit, {LEADER_METHOD: an_authority})
    server = rpc_server(
        p.runtime,
        p.settings,
        services,
        admit,
        listener="endpoints.private_listen",
        limits=_roomy(p.settings),
    )
    tls = server_context(p.identity, ClientCertificates.REQUIRED, roles={Role.AUTHORITY})
    listener.late.serve(server, tls)


def advice_of(settings: RoleSettings) -> Callable[[str], str]:
    """The advice for an operator whose command reached a standby Authority."""

    def advice(leader: str) -> str:
        address = settings.authority.peers.get(leader)
        where = "" if address is None else f" ({address.host})"
        return f"run the command on the leader's host{where}" if leader else "try again"

    return advice


def _membership(p: Parts, ready: Readiness, stopped_by: Callable[[SvcError], object]) -> Membership:
    settings, leadership = p.settings, p.leadership
    me = Member(leadership.owner, p.identity.principal.id, leadership.instance)

    def on_missing_keys(missing: tuple[str, ...]) -> None:
        (ready.lost if missing else ready.met)(MEMBERSHIP)

    return Membership(
        store=p.opened.store,
        me=me,
        peers=settings.authority.peers,
        listens=settings.endpoints.private_listen is not None,
        clock=p.runtime.reactor,
        on_missing_keys=on_missing_keys,
        stopped_by=stopped_by,
        term=settings.store_lease_secs,
    )


def _claim(p: Parts) -> LeaderClaim:
    lease, me = p.leadership.lease, p.identity.principal.id
    if lease is None or not p.serving.is_on:
        return LeaderClaim(leads=False, epoch=0, leader=p.leadership.leader, authority_id=me)
    return LeaderClaim(leads=True, epoch=lease.epoch, leader=p.leadership.owner, authority_id=me)


def _not_revoked(state_cache: ClusterStateCache) -> Callable[[Principal], object]:
    def check(principal: Principal) -> None:
        # Who has never led is in no registry; its certificate says that it is an Authority.
        node = state_cache.state.nodes.get(principal.id)
        if node is not None and node.state is NodeState.REVOKED:
            raise Denied("the node was revoked", reason="revoked_node")

    return check


async def _dialed(p: Parts, owner: str, node_id: str) -> IRpcChannel:
    """See :data:`svc.authority.ha.leader_connection.DialMember`."""
    key = f"authority.peers.{owner}"
    address = p.settings.authority.peers.get(owner)
    if address is None:
        raise Unavailable(f"{key}: no such key", reason="peer_address_missing")

    def expect(facts: CertificateFacts) -> None:
        if node_id and facts.principal.id != node_id:
            raise CertificateRefused(
                f"{key}: the Authority at {address} is {facts.principal.id}, not {node_id}",
                reason="certificate_name",
            )

    def refused(refusal: SvcError) -> None:
        _log.error(
            "the server at a private address is not the expected Authority",
            key=key,
            address=str(address),
            reason=refusal.reason,
            text=refusal.text,
        )

    settings, clock = p.settings, p.runtime.reactor
    context = client_context(
        p.identity.verifier, p.identity, roles={Role.AUTHORITY}, expect=expect, refused=refused
    )
    return await dial(
        TlsEndpoint(context.begin, dialed(clock, address)),
        clock,
        authority="authority",
        headers=p.runtime.traces.headers,
        handshake_secs=settings.limits.handshake_secs,
        limits=_roomy(settings),
        on_problem=log_problems(clock, key, str(address)),
    )


def _roomy(settings: RoleSettings) -> WireLimits:
    """A forwarded message is longer than the longest that any other listener takes.

    And callers who go away all at once, as with their Proxy, are resets of one connection here.
    """
    limits = wire_limits(settings)
    return evolve(
        limits,
        max_message=limits.max_message + ROOM,
        resets=max(limits.resets, 4 * MAX_IN_FLIGHT),
    )
