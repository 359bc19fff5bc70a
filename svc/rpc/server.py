"""Serving gRPC: a factory for listeners, one protocol a connection, one object a call.

Every call is admitted by itself when it starts (an identity that has ended since the handshake
starts nothing more).  A handler belongs to its call: when the call ends first, the handler is
cancelled; when the handler raises, only an :class:`~svc.errors.SvcError` is told to the peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Fault, SvcError, TooMany
from svc.interfaces.rpc import (
    Admit,
    IRawEnd,
    IRpcCall,
    Metadata,
    MetadataValue,
    Peer,
    RpcService,
    Serve,
)
from svc.interfaces.tracing import Traced
from svc.rpc.connection import HANDSHAKE_SECONDS, Keepalive, WireProtocol, ignore
from svc.rpc.crowd import Crowd
from svc.rpc.endings import Endings, logged_too
from svc.rpc.ends import MessageEnd, Told
from svc.rpc.leaving import Leaving
from svc.rpc.peer import host_of
from svc.rpc.status import cancelled, deadline_exceeded, status_of
from svc.wire.connection import Connection
from svc.wire.events import Event, GoingAway, Opened
from svc.wire.headers import Headers, RequestHead, encode_metadata
from svc.wire.limits import WireLimits
from svc.wire.status import OK
from svc.wire.streams import Stream

_log = Logger(namespace="svc_rpc")


def admit_all(_method: str, _peer: Peer) -> None:
    """An *admit* for listeners that refuse nobody."""


@implementer(IRpcCall, IRawEnd)
class ServerCall(MessageEnd):
    """One call being served."""

    def __init__(self, connection: ServerConnection, stream: Stream, head: RequestHead) -> None:
        super().__init__(connection, stream, head.method)
        self.metadata: Mapping[str, MetadataValue] = head.metadata
        self.peer = connection.peer
        self._connection = connection
        self.deadline: float | None = None
        self._clock = connection.clock
        self._serving: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._unheard: IDelayedCall | None = None
        self._trailing: Headers = []
        self._on_cancel: list[Callable[[SvcError], object]] = []
        if head.timeout is not None:
            self.deadline = self._clock.seconds() + head.timeout

    def answer_with(self, *, initial: Metadata = (), trailing: Metadata = ()) -> None:
        """See :class:`svc.interfaces.rpc.IRpcCall`."""
        if initial and self._stream.answered:
            raise SvcError("the answer has begun already", reason="answered")
        self._stream.initial, self._trailing = encode_metadata(initial), encode_metadata(trailing)

    def on_cancel(self, told: Callable[[SvcError], object]) -> None:
        """See :class:`svc.interfaces.rpc.IRpcCall`."""
        if self.refusal is not None:
            told(self.refusal)
        else:
            self._on_cancel.append(told)

    def on_gone(self, told: Callable[[], object]) -> None:
        """See :class:`svc.interfaces.rpc.IRpcCall`."""
        if self._stream.is_over:
            told()
        else:
            self._stream.on_gone = told

    def keep_alive(self, interval: float, timeout: float) -> None:
        """See :class:`svc.interfaces.rpc.IRpcCall`."""
        self._connection.keep_alive(Keepalive(interval, timeout))

    def end_raw(self) -> bool:
        """See :class:`svc.interfaces.rpc.IRawEnd`."""
        return False

    def fail_raw(self, refusal: SvcError) -> None:
        """See :class:`svc.interfaces.rpc.IRawEnd`."""
        self._stream.forget_queued()

    def begin(self, serve: Serve, traced: Traced | None = None) -> None:
        """Start the handler and the deadline."""
        if self.deadline is not None:
            left = self.deadline - self._clock.seconds()
            if left <= 0:
                self._answer(deadline_exceeded())
                return
            self._timer = self._clock.callLater(left, self._time_is_up)
        patience = self._connection.wire.limits.stalled_secs
        self._unheard = self._clock.callLater(patience, self._nothing_came)
        self._serving = Deferred.fromCoroutine(_run(serve, self, traced))
        self._serving.addCallbacks(self._served, self._failed)

    async def receive(self) -> bytes | None:
        """As of every end; the first message must come in time, whatever the caller's deadline."""
        message = await super().receive()
        self._stop_unheard()
        return message

    def refuse(self, refusal: SvcError) -> None:
        """Answer without a handler."""
        self._answer(refusal)

    def over(self) -> None:
        """The caller broke the call off."""
        self.lost(cancelled("the caller broke the call off"))

    def lost(self, refusal: SvcError) -> None:
        """The call ended before its handler."""
        if self.refusal is not None:
            return
        super().lost(refusal)
        self._stop_timer()
        told, self._on_cancel = self._on_cancel, []
        for callback in told:
            callback(refusal)
        if self._serving is not None and not self._serving.called:
            self._serving.cancel()

    def _nothing_came(self) -> None:
        self._unheard = None
        if self._reader is not None:
            self._stop_timer()
            self._time_is_up()

    def _stop_unheard(self) -> None:
        unheard, self._unheard = self._unheard, None
        if unheard is not None and unheard.active():
            unheard.cancel()

    def _time_is_up(self) -> None:
        self._timer = None
        if self._stream.queued:
            # Trailers would wait behind messages that the caller does not read.
            self.break_off(deadline_exceeded())
        else:
            self._answer(deadline_exceeded())
            self.lost(deadline_exceeded())

    def _served(self, _result: None) -> None:
        self._stop_timer()
        self._stream.finish(OK, self._trailing)
        self._owner.schedule()

    def _failed(self, failure: Failure) -> None:
        self._stop_timer()
        if failure.check(CancelledError):
            if self.refusal is None:
                self._answer(cancelled("the call was cancelled here"))
        elif isinstance(failure.value, SvcError):
            self._answer(failure.value)
        else:
            _log.failure("a call failed", failure, method=self.method)
            self._answer(SvcError("the call failed", reason="internal", fault=Fault.INTERNAL))

    def _answer(self, refusal: SvcError) -> None:
        self._stream.finish(status_of(refusal), self._trailing)
        self._owner.schedule()

    def _stop_timer(self) -> None:
        self._stop_unheard()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None


async def _run(serve: Serve, call: ServerCall, traced: Traced | None) -> None:
    if traced is None:
        await serve(call)
        return
    with traced(call.method, call.metadata):
        await serve(call)


class ServerConnection(WireProtocol):
    """A caller's connection."""

    def __init__(self, factory: RpcServerFactory, host: str = "") -> None:
        super().__init__(
            factory.clock,
            factory.limits,
            is_client=False,
            plaintext=factory.plaintext,
            told=logged_too(factory.told, factory.endings, host),
            handshake_secs=factory.handshake_secs,
        )
        self._factory = factory
        self.host = host
        self._leaving = Leaving(self, self._after)
        self._was_called = False
        self._is_unnamed = False

    def connectionMade(self) -> None:
        """Count the connection in."""
        self._factory.connection_made(self)
        super().connectionMade()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Count the connection out, whatever its calls make of the end."""
        try:
            super().connectionLost(reason)
        finally:
            if self._is_unnamed:
                self._is_unnamed = False
                self._factory.crowd.unnamed_left()
            self._factory.connection_ended(self)

    def stand_aside(self) -> None:
        """The connection turned out to be no concern of ours; its loss follows and says nothing."""
        self.end_reason = self.end_reason or "not_ours"

    def opened(self, event: Event) -> None:
        """Find, admit and start a call."""
        if not isinstance(event, Opened) or event.stream.is_over:
            return
        self._was_called = True
        call = ServerCall(self, event.stream, event.head)
        try:
            # Before anything is said of the method: also a call of one that is not there has
            # to be somebody's, and counts.
            self._factory.admit(event.head.method, self.peer)
            serve = self._factory.find(event.head.method)
        except SvcError as refusal:
            call.refuse(refusal)
            if isinstance(refusal, TooMany):
                self.hold(refusal.hold)
        except Exception:
            # An admission that fails admits nobody.
            _log.failure("admission failed", method=event.head.method)
            call.refuse(SvcError("the call failed", reason="internal", fault=Fault.INTERNAL))
        else:
            call.begin(serve, self._factory.traced)

    def met(self) -> None:
        """A peer without certificate gets less, and is not kept when it asks nothing."""
        limits = self._factory.anonymous
        if limits is None or self.peer.chain:
            return
        self._is_unnamed = self._factory.crowd.takes_unnamed(self.host)
        if not self._is_unnamed:
            self.close("too_many_anonymous")  # which the crowd has told
            return
        # Before the first byte either way: its settings say what it may do, and a stock client
        # that keeps to them is never refused a stream.
        self.wire = Connection(limits, is_client=False)
        self._look_again()

    def _look_again(self) -> None:
        self._was_called = False
        self._after("idle", self.wire.limits.idle_secs, self._look)

    def _look(self) -> None:
        if self._was_called or self.wire.streams:
            self._look_again()
        else:
            self.close("idle")

    def drain(self) -> None:
        """Serve what the caller has begun, take no further call; close once those are over."""
        self._leaving.drain(is_ready=self._is_ready)

    def going_away(self, _event: GoingAway) -> None:
        """The caller leaves; its calls are served to their end."""
        self._leaving.caller_leaves()

    def _flush(self) -> None:
        super()._flush()
        self._leaving.look()


@implementer(IProtocolFactory)
@define(eq=False)
class RpcServerFactory(Factory):
    """What a listener needs to serve.

    Args:
        services: What is served.
        clock: Times deadlines and drains.
        limits: Bounds of every connection.
        told: Hears ``handshake_timeout``, ``handshake_failed``, ``no_h2``, ``plaintext_refused``,
            ``unreadable_peer``, ``header_block_timeout``, ``answer_not_taken``, ``not_reading`` and
            the reasons of :class:`~svc.wire.errors.WireError`, each with a detail.
        admit: Runs when a call starts, also of a method that is not served; raises SvcError to
            refuse it.
        plaintext: Whether connections without TLS are served; never a fallback.
        traced: Entered around each handler, in the handler's own context.
        anonymous: Bounds of a connection whose peer shows no certificate, which is closed when it
            asks nothing; None: as all others.
        handshake_secs: From the connection to the caller's first word of HTTP/2, TLS included.
        crowd: How many connections there may be.
        endings: Logs what *told* hears, with the peer's address; None: nobody does.
    """

    services: Iterable[RpcService]
    clock: IReactorTime
    limits: WireLimits = field(factory=WireLimits)
    told: Told = ignore
    admit: Admit = admit_all
    plaintext: bool = False
    traced: Traced | None = None
    anonymous: WireLimits | None = None
    handshake_secs: float = HANDSHAKE_SECONDS
    crowd: Crowd = field()
    endings: Endings | None = None
    noisy = False
    connections: set[ServerConnection] = field(init=False, factory=set)
    _methods: dict[str, Serve] = field(init=False, factory=dict)
    _drained: Deferred[None] | None = field(init=False, default=None)

    @crowd.default
    def _usual(self) -> Crowd:
        return Crowd(self.clock)

    def __attrs_post_init__(self) -> None:
        for service in self.services:
            for name, serve in service.methods.items():
                self._methods[f"/{service.name}/{name}"] = serve

    def buildProtocol(self, addr: IAddress | None) -> ServerConnection | None:
        """A connection, or None where it is refused: it is then closed at once."""
        return None if self.refuses(addr) else ServerConnection(self, host_of(addr))

    def refuses(self, addr: IAddress | None) -> bool:
        """Whether nobody is let in from there now; asked before anything is made for a peer.

        A layer below (TLS) that asked only us would begin with nobody to talk to.
        """
        return self._drained is not None or self.crowd.refuses(host_of(addr))

    def find(self, method: str) -> Serve:
        """What serves *method*.

        Raises:
            SvcError: ``UNIMPLEMENTED``.
        """
        serve = self._methods.get(method)
        if serve is None:
            raise SvcError(
                "no such method here", reason="unknown_method", fault=Fault.UNIMPLEMENTED
            )
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
        self.crowd.entered(connection.host)

    def connection_ended(self, connection: ServerConnection) -> None:
        """Called by a connection that is over."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.crowd.left(connection.host)
        if self._drained is not None and not self.connections and not self._drained.called:
            self._drained.callback(None)

    def _cut(self) -> None:
        for connection in list(self.connections):
            connection.close("drained")
