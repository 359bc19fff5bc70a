"""A channel: gRPC calls over one connection, and dialing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import (
    IDelayedCall,
    IProtocol,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from zope.interface import implementer

from svc.errors import Fault, Malformed, SvcError, Unavailable
from svc.interfaces.rpc import (
    IHeardStream,
    IRawEnd,
    IRpcChannel,
    Metadata,
    MetadataValue,
    Peer,
)
from svc.interfaces.tracing import Headers
from svc.rpc.call import MessageEnd, OnProblem
from svc.rpc.connection import HANDSHAKE_SECONDS, WireProtocol, ignore
from svc.rpc.keepalive import Keepalive
from svc.rpc.status import cancelled, connection_lost, deadline_exceeded
from svc.runtime.dial_failure import dial_failure
from svc.wire.events import GoingAway
from svc.wire.headers import parse_metadata
from svc.wire.limits import WireLimits
from svc.wire.pings import TOO_MANY_PINGS
from svc.wire.streams import Stream
from svc.wire.turns import too_many_streams

_log = Logger(namespace="svc_rpc")

CANNOT_CONNECT = "cannot_connect"
TURN_SECONDS = 10.0
"""How long a call waits for its turn where the server allows no further one now."""

_Response = TypeVar("_Response", bound=Message)


@implementer(IHeardStream, IRawEnd)
class ClientStream(MessageEnd):
    """One call being made.

    Attributes:
        breaks_with_relay: Whether a relay that breaks resets it; else whoever made it does, once
            the server was told why.
    """

    breaks_with_relay = True

    def __init__(
        self, connection: ClientConnection, stream: Stream, method: str, timeout: float | None
    ) -> None:
        super().__init__(connection, stream, method)
        self._clock = connection.clock
        self._closed: Deferred[None] | None = None
        self._is_closed = False
        self._timer: IDelayedCall | None = None
        if timeout is not None:
            self._timer = connection.clock.callLater(max(timeout, 0.0), self._time_is_up)
        self._cancel_timer: IDelayedCall | None = None
        self._turn: IDelayedCall | None = None
        if not stream.id:
            self._turn = connection.clock.callLater(TURN_SECONDS, self._no_turn)

    @property
    def initial_metadata(self) -> Mapping[str, MetadataValue]:
        stream = self._stream
        # Of an answer without messages there is one list of fields, and it is the trailers.
        is_one = stream.status is not None and not stream.trailers
        return {} if is_one else parse_metadata(stream.headers)

    @property
    def trailing_metadata(self) -> Mapping[str, MetadataValue]:
        stream = self._stream
        if stream.status is None:
            return {}
        return parse_metadata(stream.trailers or stream.headers)

    @property
    def closed(self) -> Deferred[None]:
        """See :class:`svc.interfaces.rpc.IRpcStream`; made when first asked for."""
        if self._closed is None:
            self._closed = Deferred(lambda _closed: self.cancel())
            if self._is_closed:
                self._tell_closed(self._closed)
        return self._closed

    def end(self) -> None:
        self._stream.half_close()

    def cancel(self, reason: str = "cancelled") -> None:
        self.break_off(cancelled("the call was cancelled", reason))

    def over(self) -> None:
        """The server has ended or reset the call."""
        self._stop_timer()
        super().over()
        self._close()

    def lost(self, refusal: SvcError) -> None:
        """The call ended here or with its connection."""
        if self.refusal is not None:
            return
        self._stop_timer()
        super().lost(refusal)
        self._close()

    def finish_with(self, message: bytes, seconds: float) -> None:
        """Send a last message; break the call off if the server has not ended it in time."""
        try:
            self.write([message], len(message))
        except SvcError:
            return
        self.end()
        self._cancel_timer = self._clock.callLater(seconds, self.cancel)

    def end_raw(self) -> bool:
        self.end()
        return True

    def fail_raw(self, refusal: SvcError) -> None:
        if self.breaks_with_relay:
            self.break_off(refusal)
        else:
            self._stream.forget_queued()
            self.listen_no_more()

    def _time_is_up(self) -> None:
        self._timer = None
        self.break_off(deadline_exceeded())

    def _no_turn(self) -> None:
        if not self._stream.id:
            self.break_off(too_many_streams())

    def _stop_timer(self) -> None:
        for timer in (self._timer, self._turn, self._cancel_timer):
            if timer is not None and timer.active():
                timer.cancel()
        self._timer = self._turn = self._cancel_timer = None

    def _close(self) -> None:
        self._is_closed = True
        if self._closed is not None and not self._closed.called:
            self._tell_closed(self._closed)

    def _tell_closed(self, closed: Deferred[None]) -> None:
        refusal = self.outcome
        if refusal is None:
            closed.callback(None)
        else:
            closed.errback(refusal)


class ClientConnection(WireProtocol):
    """The protocol under a channel."""

    # A caller that closes has nothing more to say, and some servers answer no TLS close.
    close_seconds = 0.5

    def __init__(
        self,
        clock: IReactorTime,
        limits: WireLimits,
        *,
        plaintext: bool,
        keepalive: Keepalive | None,
        on_problem: OnProblem,
        handshake_secs: float = HANDSHAKE_SECONDS,
    ) -> None:
        super().__init__(
            clock,
            limits,
            is_client=True,
            plaintext=plaintext,
            keepalive=keepalive,
            on_problem=on_problem,
            handshake_secs=handshake_secs,
        )
        self.ready: Deferred[None] = Deferred(lambda _ready: self.fail("closed"))
        self._on_close: list[Callable[[str], object]] = []
        self._waiting_close: list[Deferred[None]] = []
        self._is_over = False

    def settled(self) -> None:
        """The server's SETTINGS came: calls may begin."""
        if not self.ready.called:
            self.ready.callback(None)

    def going_away(self, event: GoingAway) -> None:
        """The server shuts down: open calls continue, then the connection ends."""
        self.is_ending = True
        if event.words == TOO_MANY_PINGS.encode() and self._keepalive is not None:
            self._keepalive.slow_down()
            self.on_problem(TOO_MANY_PINGS, self.peer.host)
            _log.warn(
                "a server says that we ping too often; raise tunnel.keepalive_secs here",
                reason=TOO_MANY_PINGS,
                server=self.peer.host,
                next_interval_secs=self._keepalive.interval,
            )
        self._close_if_idle()

    def look_after(self) -> None:
        """See whether a drain is over."""
        self._close_if_idle()

    def drain(self) -> None:
        """See :class:`svc.interfaces.rpc.IRpcChannel`."""
        self.is_ending = True
        self.wire.refuse_further()
        self.schedule()
        for stream in self.wire.calls:
            if not stream.id and isinstance(stream.context, ClientStream):
                stream.context.break_off(connection_lost("draining", has_begun=False))
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self.is_ending and not self.wire.streams:
            self.close("going_away")

    def ended(self, reason: str) -> None:
        """Notify the waiting callers."""
        self._is_over = True
        if not self.ready.called:
            why = f"the HTTP/2 connection could not be established ({reason}: {self.lost_because})"
            self.ready.errback(Unavailable(why, reason=reason))
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback(reason)
        waiting, self._waiting_close = self._waiting_close, []
        for closed in waiting:
            closed.callback(None)

    def on_close(self, callback: Callable[[str], object]) -> None:
        """See :class:`svc.interfaces.rpc.IRpcChannel`."""
        if self._is_over:
            callback(self.end_reason or "lost")
        else:
            self._on_close.append(callback)

    async def closed(self) -> None:
        """Wait until the connection is over."""
        if not self._is_over:
            waiting: Deferred[None] = Deferred()
            self._waiting_close.append(waiting)
            await waiting


class _Connecting(Deferred[IProtocol]):
    """Ends as the endpoint's own Deferred does, and knows whether it was cancelled.

    Endpoints do not agree on what they make of that: a name that is being
    looked up fails as one that does not exist.
    """

    def __init__(self, connecting: Deferred[IProtocol]) -> None:
        super().__init__()
        self.is_cancelled = False
        self._connecting = connecting
        connecting.addCallbacks(self.callback, self.errback)

    def cancel(self) -> None:
        """Cancel the endpoint's; what that leaves to be unwound is waited for."""
        self.is_cancelled = True
        self._connecting.cancel()


async def connect(endpoint: IStreamClientEndpoint, connection: Protocol) -> None:
    """Connect *connection* there.

    Raises:
        Unavailable: ``cannot_connect``.
    """
    factory = Factory.forProtocol(lambda: connection)
    factory.noisy = False
    connecting = _Connecting(endpoint.connect(factory))
    try:
        await connecting
    except Exception as failed:
        if connecting.is_cancelled or isinstance(failed, CancelledError):
            # Not that nobody answers: whoever stops us must not be dialled for again.
            raise CancelledError from failed
        if isinstance(failed, SvcError):
            raise
        raise Unavailable(
            f"cannot connect: {dial_failure(failed)}", reason=CANNOT_CONNECT
        ) from failed


@implementer(IRpcChannel)
class RpcChannel:
    """Calls over one connection; made by :func:`dial`."""

    def __init__(
        self, connection: ClientConnection, *, authority: str, headers: Headers | None = None
    ) -> None:
        self._connection = connection
        self._authority = authority
        self._headers = headers

    @property
    def peer(self) -> Peer:
        """The server."""
        return self._connection.peer

    @property
    def open_streams(self) -> int:
        """How many calls are open now."""
        return len(self._connection.wire.calls)

    @property
    def takes_calls(self) -> bool:
        connection = self._connection
        return connection.end_reason is None and not connection.wire.is_going_away

    @property
    def heard_at(self) -> float:
        return self._connection.heard_at

    async def unary(
        self,
        method: str,
        request: Message,
        response_type: type[_Response],
        *,
        timeout: float | None,
        metadata: Metadata = (),
    ) -> _Response:
        stream = self.stream(method, timeout=timeout, metadata=metadata)
        try:
            data = request.SerializeToString()
            stream.write([data], len(data))
            stream.end()
            answer = await stream.receive()
            if answer is None or await stream.receive() is not None:
                raise SvcError("not one answer", reason="not_one_answer", fault=Fault.INTERNAL)
        except (CancelledError, SvcError):
            stream.cancel()
            raise
        try:
            return response_type.FromString(answer)
        except DecodeError:
            raise Malformed("the answer is not of the expected message type") from None

    def stream(
        self, method: str, *, timeout: float | None = None, metadata: Metadata = ()
    ) -> ClientStream:
        connection = self._connection
        if connection.end_reason is not None:
            raise connection_lost(connection.end_reason, has_begun=False)
        if self._headers is not None:
            metadata = (*metadata, *self._headers())
        scheme = "https" if connection.peer.tls else "http"
        wire_stream = connection.wire.open(
            method, scheme=scheme, authority=self._authority, timeout=timeout, metadata=metadata
        )
        connection.schedule()
        return ClientStream(
            connection=connection, stream=wire_stream, method=method, timeout=timeout
        )

    def drain(self) -> None:
        self._connection.drain()

    async def close(self) -> None:
        self._connection.close("closed")
        await self._connection.closed()

    def on_close(self, callback: Callable[[str], object]) -> None:
        self._connection.on_close(callback)


async def dial(
    endpoint: IStreamClientEndpoint,
    clock: IReactorTime,
    *,
    authority: str = "svc",
    plaintext: bool = False,
    limits: WireLimits | None = None,
    keepalive: Keepalive | None = None,
    on_problem: OnProblem = ignore,
    headers: Headers | None = None,
    handshake_secs: float = HANDSHAKE_SECONDS,
) -> RpcChannel:
    """Connect and wait until the server speaks HTTP/2.

    Args:
        endpoint: Where; TLS is the caller's (``client.tls.TlsEndpoint`` with ALPN ``h2``).
        clock: Times handshake, deadlines and keepalive.
        authority: The name in ``:authority``.
        plaintext: Whether a connection without TLS is meant.
        limits: Bounds of the connection.
        keepalive: Pings, or none; it is slowed down where the server wants fewer.
        on_problem: Hears how the connection failed.
        headers: Gives metadata that each call carries beside its own.
        handshake_secs: From the connection to the server's first word of HTTP/2, TLS included.

    Raises:
        Unavailable: when nobody answers, or no HTTP/2 is spoken.
    """
    connection = ClientConnection(
        clock,
        limits or WireLimits(),
        plaintext=plaintext,
        keepalive=keepalive,
        on_problem=on_problem,
        handshake_secs=handshake_secs,
    )
    await connect(endpoint, connection)
    await connection.ready
    return RpcChannel(connection, authority=authority, headers=headers)
