"""RPC listeners: TLS or plaintext, TCP or the control socket; drained when they stop."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXServerEndpoint
from twisted.internet.interfaces import (
    IListeningPort,
    IProtocolFactory,
    IReactorTime,
    IStreamServerEndpoint,
)
from zope.interface import implementer

from svc.compose.listeners.addresses import server_endpoint
from svc.compose.listeners.limits import wire_limits
from svc.config import Address, RoleSettings
from svc.interfaces.rpc import Admit, RpcService
from svc.lanes.front import FrontFactory
from svc.lanes.rendezvous import RendezvousTable
from svc.pki.tls import ServerTLS
from svc.rpc.disconnect_log import DisconnectLog
from svc.rpc.server.connection_limits import ConnectionLimits
from svc.rpc.server.server import RpcServerFactory
from svc.rpc.server.tls import TlsServerFactory
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncService, BoundPort
from svc.wire.limits import WireLimits, anonymous


@define(slots=False, eq=False)
class RpcListener(AsyncService):
    """One listener with its server; a stop drains the open calls first.

    The port is bound early (``privilegedStartService``), so an address in use
    ends the start; connections that come before the server is there are closed.

    Attributes:
        binds_early: Or only once the process starts: a socket in a directory that is ours is
            free, and nothing removes it where the start is refused.
    """

    listener: BoundPort
    late: LateFactory
    drain_secs: float
    binds_early: bool = True

    def privilegedStartService(self) -> None:
        """Bind, if that is early."""
        if self.binds_early:
            self.listener.privilegedStartService()

    async def start(self) -> None:
        """Serve."""
        self.late.open()
        self.listener.startService()

    async def stop(self) -> None:
        """Accept no more, let open calls finish, then end."""
        await self.listener.stopService()
        self.late.close()
        if self.late.server is not None:
            await self.late.server.drain(self.drain_secs)


@implementer(IProtocolFactory)
class LateFactory:
    """Accepts connections for a server that is made later, or serves later."""

    def __init__(self, clock: IReactorTime, most_handshakes: int) -> None:
        self._clock = clock
        self._most_handshakes = most_handshakes
        self._is_open = False
        self.server: RpcServerFactory | None = None
        self._factory: Any = None

    @property
    def is_open(self) -> bool:
        """Whether the services that the server needs have started."""
        return self._is_open

    def open(self) -> None:
        """The services that the server needs have started."""
        self._is_open = True

    def close(self) -> None:
        """It is about to stop."""
        self._is_open = False

    def serve(
        self,
        server: RpcServerFactory,
        tls: ServerTLS | None,
        rendezvous_table: RendezvousTable | None = None,
    ) -> None:
        """Serve from now on.

        Args:
            rendezvous_table: Where halves of direct lanes meet that come to this listener as well.
        """
        self.server = server
        self._factory = server
        if tls is not None:
            self._factory = TlsServerFactory(
                begin=tls.begin,
                inner=server,
                seconds=self._clock.seconds,
                most_handshakes=self._most_handshakes,
            )
        if rendezvous_table is not None and tls is not None:
            self._factory = FrontFactory(
                usual=self._factory,
                rendezvous_table=rendezvous_table,
                clock=self._clock,
                stand_aside=lambda usual: usual.inner.stand_aside(),
            )

    def doStart(self) -> None:
        """Nothing to begin with."""

    def doStop(self) -> None:
        """Nothing to end."""

    def buildProtocol(self, addr: Any) -> Any:
        """A connection, or None while there is no server or no room: closed, without TLS."""
        if not self._is_open or self.server is None or self.server.refuses(addr):
            return None
        return self._factory.buildProtocol(addr)


def rpc_listener(
    runtime: Runtime, settings: RoleSettings, key: str, address: Address
) -> RpcListener:
    """A listener on TCP, for a server that is given to its ``late`` factory."""
    late = LateFactory(runtime.reactor, settings.limits.max_handshakes)
    endpoint = server_endpoint(runtime.reactor, address)
    listener = BoundPort(key=key, address=str(address), endpoint=endpoint, factory=late)
    return RpcListener(listener, late, settings.limits.drain_secs)


def rpc_server(
    runtime: Runtime,
    settings: RoleSettings,
    services: Iterable[RpcService],
    admit: Admit,
    *,
    plaintext: bool = False,
    listener: str = "",
    limits: WireLimits | None = None,
) -> RpcServerFactory:
    """A server with the configured limits; of those, a peer without certificate gets a part.

    The control socket's peers are known by their uid, and are bound alike.

    Args:
        listener: The key of what it serves, for the log.
        limits: Of its connections, where they are not the configured ones.
    """
    limits = limits or wire_limits(settings)
    connection_limits = ConnectionLimits(
        clock=runtime.reactor,
        most=settings.limits.max_connections,
        most_of_address=settings.limits.max_connections_per_address,
        listener=listener,
        per_minute=settings.limits.connections_per_minute,
    )
    return RpcServerFactory(
        services=list(services),
        clock=runtime.reactor,
        limits=limits,
        admit=admit,
        plaintext=plaintext,
        traced=runtime.traces.traced,
        anonymous=anonymous(limits),
        handshake_secs=settings.limits.handshake_secs,
        connection_limits=connection_limits,
        disconnect_log=DisconnectLog(runtime.reactor, listener),
    )


@implementer(IStreamServerEndpoint)
@define
class ControlSocketEndpoint:
    """A socket in a directory whose path may be longer than a socket's may be.

    The socket is bound through ``/proc/self/fd``, so only the directory's
    descriptor counts; what an earlier process left is removed first, which is
    safe because the directory is locked by us.
    """

    reactor: Any
    directory: Path
    name: str
    _handle: int = -1

    def listen(self, factory: Any) -> Deferred[IListeningPort]:
        """Bind, 0600 from the first moment on."""
        # Kept open for as long as we listen: the port unlinks by this path when it stops.
        self._handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        (self.directory / self.name).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            path = f"/proc/self/fd/{self._handle}/{self.name}"
            endpoint = UNIXServerEndpoint(self.reactor, path, mode=0o600)
            port: Deferred[IListeningPort] = endpoint.listen(factory)
            return port
        finally:
            os.umask(before)


def control_listener(
    runtime: Runtime,
    settings: RoleSettings,
    directory: Path,
    server: RpcServerFactory,
    name: str = "control.sock",
    *,
    binds_early: bool = True,
) -> RpcListener:
    """The socket of this name in a role's directory."""
    late = LateFactory(runtime.reactor, settings.limits.max_handshakes)
    late.serve(server, None)
    path = directory / name
    endpoint = ControlSocketEndpoint(runtime.reactor, directory, name)
    return RpcListener(
        listener=BoundPort(key="state_dir", address=str(path), endpoint=endpoint, factory=late),
        late=late,
        drain_secs=settings.limits.drain_secs,
        binds_early=binds_early,
    )
