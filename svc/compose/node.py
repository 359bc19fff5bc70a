"""What Proxy and Connector share: a node's identity, and its renewal.

A node may begin without an identity: its listeners are bound at once, and the
rest is wired once it has joined.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc import __version__
from svc.compose.listeners.limits import log_problems, wire_limits
from svc.compose.telemetry import identity_meters
from svc.config import Address, RoleSettings
from svc.errors import ConfigError, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.join.enroll import join_node, read_token
from svc.model.principal import Role
from svc.pki.host_names import host_names
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.renewal import RenewalLoop
from svc.pki.tls import client_context
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from svc.rpc.client.channel import dial
from svc.rpc.client.endpoints import dialed
from svc.rpc.client.tls import TlsEndpoint
from svc.rpc.keepalive import CommonTicks, Keepalive
from svc.rpc.max_age import Freshness
from svc.runtime.backoff import share
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncMultiService, AsyncService
from svc.runtime.state_directory import StateDirectory
from svc.telemetry.metrics import Metrics
from svc.tunnel.times import TunnelTimes, dial_secs

_log = Logger(namespace="svc")

RENEW_METHOD = "/gate.v1.Renewal/Renew"
_RENEW_SECS = 20.0

Assemble = Callable[[TransportIdentity], list[Service]]
"""Makes what runs once there is an identity, in the order of its start."""


@define(slots=False, eq=False)
class NodeRole(AsyncService):
    """Joins where there is no identity yet, then runs what was assembled for it.

    Attributes:
        stopped_by: Told why, when joining was refused: the process then ends.
    """

    runtime: Runtime
    settings: RoleSettings
    identity_store: IdentityStore
    role: Role
    assemble: Assemble
    stopped_by: Callable[[SvcError], object]
    _inner: AsyncMultiService | None = field(default=None, init=False)
    _joining: Deferred[None] | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start at once with an identity; join in the background without one."""
        if self.identity_store.exists:
            identity = TransportIdentity.load(
                self.identity_store, self.runtime.now, self.settings.cluster
            )
            await self._run(identity)
        else:
            self._joining = Deferred.fromCoroutine(self._join())
            self._joining.addErrback(self._broken)

    async def stop(self) -> None:
        """Stop what runs."""
        if self._joining is not None:
            self._joining.cancel()
        if self._inner is not None:
            await self._inner.stopService()

    async def _join(self) -> None:
        try:
            identity = await join_node(self.runtime, self.settings, self.identity_store, self.role)
            await self._run(identity)
        except SvcError as refusal:
            _log.critical("joining was refused", reason=refusal.reason, text=refusal.text)
            self.stopped_by(refusal)

    def _broken(self, failure: Failure) -> None:
        """Whatever is no refusal: never a role that sits there half begun."""
        if not failure.check(CancelledError):
            _log.failure("the role did not start", failure)
            self.stopped_by(SvcError("the role did not start; see the log for the cause"))

    async def _run(self, identity: TransportIdentity) -> None:
        if self.role is Role.PROXY:
            say_names_not_carried(self.settings, identity.chain[0])
        inner = AsyncMultiService()
        for service in self.assemble(identity):
            inner.addService(service)
        self._inner = inner
        await inner.startService()


def say_names_not_carried(settings: RoleSettings, leaf: bytes) -> None:
    """Warn of names in ``endpoints.public_names`` that our certificate does not carry."""
    carried = host_names(leaf)
    missing = [name for name in settings.endpoints.public_names if name not in carried]
    if missing:
        _log.warn(
            "endpoints.public_names holds names that the certificate does not carry: clients "
            "that check the host name reject this Proxy under those names; join again with a "
            "token created for them (`svc authority nodes add NAME --role proxy --public-name "
            "...`), or remove them",
            names=missing,
            carried=sorted(carried),
            reason="names_not_carried",
        )


def identity_store(runtime: Runtime, state: StateDirectory) -> IdentityStore:
    """The identity files of a role."""
    return IdentityStore(state.path, crash_point=runtime.crash_point)


def check_identity(runtime: Runtime, settings: RoleSettings, store: IdentityStore) -> None:
    """Refuse at start what is wrong with the identity on disk, or that there is no way to one.

    Raises:
        ConfigError: naming the file or key.
    """
    if store.exists:
        TransportIdentity.load(store, runtime.now, settings.cluster)
    else:
        check_can_join(settings)


def check_can_join(settings: RoleSettings) -> None:
    """See :func:`check_identity`."""
    join = settings.join
    if join.ca_pin is None or (join.token_file is None and not join.by_key):
        raise ConfigError(
            "join.token_file",
            "no identity in state_dir yet; set join.token_file and join.ca_pin; `svc "
            "authority nodes add` prints the token and the pin",
        )
    if join.authority is None and not settings.endpoints.proxy:
        raise ConfigError(
            "join.authority", "required to join: the address of Authority's join listener"
        )
    if join.token_file is None:
        return
    try:
        read_token(Path(join.token_file))
    except SvcError as refusal:
        raise ConfigError("join.token_file", refusal.text) from None


def tunnel_times(settings: RoleSettings) -> TunnelTimes:
    """The configured times of tunnels."""
    tunnel = settings.tunnel
    return TunnelTimes(
        keepalive_interval=tunnel.keepalive_secs,
        keepalive_timeout=tunnel.keepalive_timeout_secs,
        lease=tunnel.lease_secs,
        renew=tunnel.lease_renew_secs,
        dial=dial_secs(settings.limits.handshake_secs),
        handshake=settings.limits.handshake_secs,
        drain=settings.limits.drain_secs,
    )


def keepalive(runtime: Runtime, settings: RoleSettings) -> Keepalive:
    """The configured pings, for all connections to one server."""
    tunnel = settings.tunnel
    return Keepalive(
        interval=tunnel.keepalive_secs,
        timeout=tunnel.keepalive_timeout_secs,
        ticks=CommonTicks(runtime.now),
    )


def tls_endpoint(
    reactor: Any,
    identity: TransportIdentity,
    address: Address,
    roles: frozenset[Role],
    *,
    plaintext: bool = False,
) -> IStreamClientEndpoint:
    """Where a server of ours is dialed: its chain and role checked, our certificate shown."""
    endpoint = dialed(reactor, address)
    if plaintext:
        return endpoint
    return TlsEndpoint(client_context(identity.verifier, identity, roles=roles).begin, endpoint)


def freshness(runtime: Runtime, identity: TransportIdentity, server: Role) -> Freshness:
    """Says when a connection to servers of this role is to be made again."""
    return Freshness(
        clock=runtime.reactor,
        now=runtime.now,
        identity=identity,
        verifier=identity.verifier,
        roles=frozenset({server}),
        chance=lambda: share(runtime.entropy),
    )


def renewal_listener(
    runtime: Runtime,
    settings: RoleSettings,
    identity: TransportIdentity,
    reach: Callable[[], Awaitable[IStreamClientEndpoint]],
) -> Callable[[], Awaitable[IRpcChannel]]:
    """Connects to Authority's renewal listener, by our own TLS over the byte stream of *reach*."""

    async def connect() -> IRpcChannel:
        context = client_context(identity.verifier, identity, roles=frozenset({Role.AUTHORITY}))
        endpoint = TlsEndpoint(context.begin, await reach())
        return await dial(
            endpoint,
            runtime.reactor,
            authority="authority",
            handshake_secs=settings.limits.handshake_secs,
            limits=wire_limits(settings),
            on_problem=log_problems(runtime.reactor, "endpoints.renewal_listen", "authority"),
        )

    return connect


def renewal_loop(
    runtime: Runtime,
    settings: RoleSettings,
    metrics: Metrics,
    store: IdentityStore,
    identity: TransportIdentity,
    reach: Callable[[], Awaitable[IStreamClientEndpoint]],
) -> RenewalLoop:
    """Keeps the node's leaf fresh.

    Args:
        reach: Gives the byte stream to Authority's renewal listener, without TLS.
    """
    connect = renewal_listener(runtime, settings, identity, reach)

    async def renew(csr: bytes) -> tuple[bytes, ...]:
        channel = await connect()
        try:
            request = pb.RenewRequest(csr=csr, version=__version__)
            answer = await channel.unary(
                RENEW_METHOD, request, pb.RenewResponse, timeout=_RENEW_SECS
            )
            return tuple(answer.chain)
        finally:
            await channel.close()

    role = identity.principal.role.value
    return RenewalLoop(
        identity,
        store,
        renew,
        clock=runtime.reactor,
        now=runtime.now,
        entropy=runtime.entropy,
        on_outcome=identity_meters(metrics, role, identity.seconds_left),
    )


def host_endpoint(runtime: Runtime, host: str, port: int) -> IStreamClientEndpoint:
    """Plain TCP to a host and port learnt at run time."""
    return HostnameEndpoint(runtime.reactor, host, port)
