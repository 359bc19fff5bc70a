"""Serves gRPC: a factory for listeners, a protocol for each connection, an object for each call.

Every call is admitted by itself when it starts: an identity that has ended since the handshake
starts nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Fault, SvcError, TooMany
from svc.interfaces.rpc import (
    Admit,
    RpcService,
    Serve,
)
from svc.interfaces.tracing import Traced
from svc.rpc.call import OnProblem
from svc.rpc.connection import HANDSHAKE_SECONDS, WireProtocol, ignore
from svc.rpc.disconnect_log import DisconnectLog, also_logged
from svc.rpc.peer import host_of
from svc.rpc.server.call import ServerCall, draining
from svc.rpc.server.connection_limits import ConnectionLimits
from svc.rpc.shutdown import GracefulShutdown
from svc.rpc.status import UNKNOWN_METHOD
from svc.wire.events import CallOpened, Event, GoingAway
from svc.wire.limits import WireLimits

_log = Logger(namespace="svc_rpc")


class ServerConnection(WireProtocol):
    """A caller's connection."""

    def __init__(self, factory: RpcServerFactory, host: str = "") -> None:
        super().__init__(
            factory.clock,
            factory.limits,
            is_client=False,
            plaintext=factory.plaintext,
            on_problem=also_logged(factory.on_problem, factory.disconnect_log, host),
            handshake_secs=factory.handshake_secs,
        )
        self._factory = factory
        self.host = host
        # None until either end begins to leave.
        self._shutdown: GracefulShutdown | None = None
        self._was_called = False
        self._is_anonymous = False

    def connectionMade(self) -> None:
        """Count the connection in."""
        self._factory.connection_made(self)
        super().connectionMade()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Count the connection out, whatever its calls make of the end."""
        try:
            super().connectionLost(reason)
        finally:
            if self._is_anonymous:
                self._is_anonymous = False
                self._factory.connection_limits.anonymous_left()
            self._factory.connection_ended(self)

    def stand_aside(self) -> None:
        """The connection turned out to be no concern of ours; its loss follows and says nothing."""
        self.end_reason = self.end_reason or "not_ours"

    def opened(self, event: Event) -> None:
        """Find, admit and start a call."""
        if not isinstance(event, CallOpened) or event.stream.is_over:
            return
        self._was_called = True
        longest = self._factory.longest.get(event.head.method)
        if longest is not None:
            event.stream.inbox.limit = min(longest, event.stream.inbox.limit)
        call = ServerCall(self, event.stream, event.head)
        try:
            # Before anything is said of the method: also a call of one that is not there has
            # to be somebody's, and counts.
            caller = self._factory.admit(event.head.method, self.peer)
            serve = self._factory.find(event.head.method)
            leaving = self._shutdown
            if leaving and leaving.is_draining and self._factory.is_lasting(event.head.method):
                raise draining()
        except SvcError as refusal:
            call.refuse(refusal)
            if isinstance(refusal, TooMany):
                self.hold(refusal.hold)
        except Exception:
            # An admission that fails admits nobody.
            _log.failure("admission failed", method=event.head.method)
            call.refuse(SvcError("the call failed", reason="internal", fault=Fault.INTERNAL))
        else:
            call.begin(serve, self._factory.traced, caller)

    def met(self) -> None:
        """A peer without certificate gets less, and is not kept when it asks nothing."""
        limits = self._factory.anonymous
        if limits is None or self.peer.chain:
            return
        self._is_anonymous = self._factory.connection_limits.admits_anonymous(self.host)
        if not self._is_anonymous:
            self.close("too_many_anonymous")  # which ConnectionLimits has logged
            return
        # Before the first byte either way: its settings say what it may do, and a stock client
        # that keeps to them is never refused a stream.
        self.wire = self.wire_within(limits)
        self._look_again()

    def _look_again(self) -> None:
        self._was_called = False
        self._timers.after("idle", self.wire.limits.idle_secs, self._look)

    def _look(self) -> None:
        if self._was_called or self.wire.streams:
            self._look_again()
        else:
            self.close("idle")

    def drain(self) -> None:
        """Serve what the caller has begun, take no further call; close once those are over."""
        self.is_ending = True
        self._leaving().drain(is_ready=self._is_ready)

    def end_lasting(self) -> None:
        """End the calls that have no end of their own, if no others are left."""
        calls = [stream.context for stream in self.wire.streams.values()]
        lasting = [
            call
            for call in calls
            if isinstance(call, ServerCall) and self._factory.is_lasting(call.method)
        ]
        if len(lasting) == len(calls):
            for call in lasting:
                call.leave()

    def going_away(self, _event: GoingAway) -> None:
        """The caller leaves; its calls are served to their end."""
        self.is_ending = True
        self._leaving().client_goes_away()

    def look_after(self) -> None:
        """End it if it may be over."""
        self._leaving().look()

    def _leaving(self) -> GracefulShutdown:
        if self._shutdown is None:
            self._shutdown = GracefulShutdown(self, self._timers.after)
        return self._shutdown


@implementer(IProtocolFactory)
@define(eq=False)
class RpcServerFactory(Factory):
    """What a listener needs to serve.

    Args:
        services: What is served.
        clock: Times deadlines and drains.
        limits: Bounds of every connection.
        on_problem: Hears ``handshake_timeout``, ``handshake_failed``, ``no_h2``,
            ``plaintext_refused``, ``unreadable_peer``, ``header_block_timeout``,
            ``answer_not_taken``, ``not_reading`` and the reasons of
            :class:`~svc.wire.errors.WireError`, each with a detail.
        admit: Runs when a call starts, also of a method that is not served; raises SvcError to
            refuse it.
        plaintext: Whether connections without TLS are served; never a fallback.
        traced: Entered around each handler, in the handler's own context.
        anonymous: Bounds of a connection whose peer shows no certificate, which is closed when it
            asks nothing; None: as all others.
        handshake_secs: From the connection to the caller's first word of HTTP/2, TLS included.
        connection_limits: How many connections there may be.
        disconnect_log: Logs what *on_problem* hears, with the peer's address; None: nobody does.
    """

    services: Iterable[RpcService]
    clock: IReactorTime
    admit: Admit
    limits: WireLimits = field(factory=WireLimits)
    on_problem: OnProblem = ignore
    plaintext: bool = False
    traced: Traced | None = None
    anonymous: WireLimits | None = None
    handshake_secs: float = HANDSHAKE_SECONDS
    connection_limits: ConnectionLimits = field()
    disconnect_log: DisconnectLog | None = None
    noisy = False
    connections: set[ServerConnection] = field(init=False, factory=set)
    longest: dict[str, int] = field(init=False, factory=dict)
    _methods: dict[str, Serve] = field(init=False, factory=dict)
    _lasting: set[str] = field(init=False, factory=set)
    _drained: Deferred[None] | None = field(init=False, default=None)

    @connection_limits.default
    def _usual(self) -> ConnectionLimits:
        return ConnectionLimits(self.clock)

    def __attrs_post_init__(self) -> None:
        for service in self.services:
            for name, serve in service.methods.items():
                self._methods[f"/{service.name}/{name}"] = serve
            self._lasting |= {f"/{service.name}/{name}" for name in service.lasting}
            for name, size in service.longest.items():
                self.longest[f"/{service.name}/{name}"] = size

    def buildProtocol(self, addr: IAddress | None) -> ServerConnection | None:
        """A connection, or None where it is refused: it is then closed at once."""
        return None if self.refuses(addr) else ServerConnection(self, host_of(addr))

    def refuses(self, addr: IAddress | None) -> bool:
        """Whether connections from this host are refused now; checked before anything is created.

        A layer below (TLS) that asked only us would begin with nobody to talk to.
        """
        return self._drained is not None or self.connection_limits.refuses(host_of(addr))

    def is_lasting(self, method: str) -> bool:
        """Whether a call of *method* has no end of its own."""
        return method in self._lasting

    def find(self, method: str) -> Serve:
        """What serves *method*.

        Raises:
            SvcError: ``UNIMPLEMENTED``.
        """
        serve = self._methods.get(method)
        if serve is None:
            raise SvcError("no such method here", reason=UNKNOWN_METHOD, fault=Fault.UNIMPLEMENTED)
        return serve

    async def drain(self, seconds: float) -> None:
        """Take nothing new, wait for open calls, then end every connection.

        Args:
            seconds: How long open calls may go on; those left then are broken off.
        """
        if self._drained is None:
            self._drained = Deferred()
        for connection in list(self.connections):
            connection.drain()
        if not self.connections:
            return
        timer = self.clock.callLater(seconds, self._cut)
        await self._drained
        if timer.active():
            timer.cancel()

    def connection_made(self, connection: ServerConnection) -> None:
        """Called by a connection that begins."""
        self.connections.add(connection)
        self.connection_limits.entered(connection.host)

    def connection_ended(self, connection: ServerConnection) -> None:
        """Called by a connection that is over."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.connection_limits.left(connection.host)
        if self._drained is not None and not self.connections and not self._drained.called:
            self._drained.callback(None)

    def _cut(self) -> None:
        for connection in list(self.connections):
            connection.close("drained")
