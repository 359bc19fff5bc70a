"""The seam between whoever speaks gRPC and the rooms that serve or call it.

A room that serves describes itself with plain data (:class:`RpcService`) and
speaks to its caller through :class:`IRpcCall`; a room that calls holds an
:class:`IRpcChannel`.  Both see whole messages and refusals
(:class:`~svc.errors.SvcError`) only.  This page must not know HTTP/2, TLS or
any message of ours.

Plain gRPC: on one connection the client calls and the server serves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from attrs import field, frozen
from google.protobuf.message import DecodeError, Message
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from svc.errors import Fault, Malformed, SvcError

_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)

MetadataValue = str | bytes
"""Text for ordinary keys, bytes for keys that end in ``-bin``."""

Metadata = Iterable[tuple[str, MetadataValue]]
"""What a caller sends: pairs of lower-case name and value, in order."""


Within = Callable[[Deferred[None]], Awaitable[None]]
"""Waits for what is given, and no longer than it may take."""


@frozen
class Peer:
    """The peer of a connection, as far as the transport knows it.

    Attributes:
        host: The peer's IP address; the socket's path, possibly empty, for a unix socket.
        port: The peer's port; 0 for a unix socket.
        tls: Whether the connection is encrypted.
        chain: The verified chain in DER, leaf first, as the peer's TLS gave it; empty where it
            showed no certificate.
        uid: The user id of a unix socket's peer, asked of the kernel; None elsewhere.
        pid: Likewise its process id.
    """

    host: str
    port: int
    tls: bool = False
    chain: tuple[bytes, ...] = field(default=(), repr=False)
    uid: int | None = None
    pid: int | None = None


class CallListener(Protocol):
    """Hears of one call by callback, where a coroutine that waits would cost more than it does."""

    def readable(self) -> None:
        """Messages or the end of the peer's half can be taken."""

    def drained(self) -> None:
        """There is room to write again."""

    def broken(self, refusal: SvcError) -> None:
        """The call was ended by us or with its connection."""


class IRpcCall(Interface):
    """One call as its server sees it; lives until its handler returns or raises."""

    method: str = Attribute("``/package.Service/Method``, checked; what routing and admission saw.")
    metadata: Mapping[str, MetadataValue] = Attribute(
        "The caller's own metadata, ``grpc-*`` and HTTP headers left out; ``-bin`` as bytes; "
        "values of a repeated key are joined with a comma (``-bin``: the first is kept)."
    )
    peer: Peer = Attribute("Who calls.")
    caller: object = Attribute(
        "Whom admission found the peer to be, as it answered in the turn in which the call began."
    )
    deadline: float | None = Attribute("When the call ends by itself, in seconds of the clock.")

    async def receive(within: Within | None = None) -> bytes | None:
        """The next message; None once the caller has ended its half.

        One reader at a time.  The sender's window opens as messages are taken.

        Args:
            within: Bounds the wait, where the message is not there yet.

        Raises:
            SvcError: ``CANCELLED`` when the caller went away, ``DEADLINE`` when time is up,
                ``EXHAUSTED`` for a message past the limit.
        """

    async def ends() -> bool:
        """Wait for the end of the caller's half; False where another message comes first.

        Raises:
            SvcError: ``deadline_exceeded``: neither came in the time that a call has for its
                first message.
        """

    async def send(message: bytes) -> None:
        """Queue one message; returns when there is room for the next.

        Raises:
            SvcError: as :meth:`receive`, once the call is over.
        """

    def answer_with(*, initial: Metadata = (), trailing: Metadata = ()) -> None:
        """Metadata to send with the answer: before its first message, and with its status.

        Called before the first message is sent; a second time replaces the first.

        Raises:
            Malformed: for metadata that cannot travel.
        """

    def on_cancel(callback: Callable[[SvcError], object]) -> None:
        """Call *callback* once, if the call ends before its handler does.

        The handler's own ``await`` is cancelled as well; this is for what it started elsewhere.
        """

    def on_gone(callback: Callable[[], object]) -> None:
        """Call *callback* once when nothing is held for the call any more; this may be immediately.

        That is later than the end of its handler where the caller does not read what was sent
        last.  One listener a call: the handler's; it must not raise.
        """

    def keep_alive(interval: float, timeout: float) -> None:
        """Ping the caller's connection every *interval* seconds from now on.

        A caller silent for *timeout* seconds after a ping loses the connection, and every call
        on it ends with ``keepalive_failed``.  For calls that stand for hours.
        """


class IHeardMessages(Interface):
    """What comes on one call, of which somebody may be told instead of waiting for each."""

    has_ended: bool = Attribute("Whether the peer's half is over: it says no more.")

    def listen(listener: CallListener) -> None:
        """From now on *listener* hears of messages, and takes them; none is received any more.

        It hears at once of those that are there.
        """

    def listen_no_more() -> None:
        """Let the listener hear nothing more.  Idempotent."""

    def take() -> bytes | memoryview | None:
        """The next message; None where it is not there whole.

        Raises:
            SvcError: as ``receive``.
        """


class IHeardCall(IRpcCall, IHeardMessages):
    """A call whose handler may be told of messages.

    A listener hears of them until the handler has returned.
    """

    def offer(message: bytes) -> Deferred[None] | None:
        """Queue one message; None, or what fires once there is room for the next.

        Raises:
            SvcError: as :meth:`send`.
        """


class IRpcStream(Interface):
    """One streaming call as its caller sees it."""

    method: str = Attribute("``/package.Service/Method``.")
    closed: Deferred[None] = Attribute(
        "Fires with None when the server ended the call with OK, fails with SvcError otherwise."
    )
    initial_metadata: Mapping[str, MetadataValue] = Attribute(
        "What the server sent before its first message; empty until that has come."
    )
    trailing_metadata: Mapping[str, MetadataValue] = Attribute(
        "What the server sent with its status; empty until that has come."
    )

    async def receive(within: Within | None = None) -> bytes | None:
        """The next message; None once the server ended the call with OK.

        Args:
            within: Bounds the wait, where the message is not there yet.

        Raises:
            SvcError: the status the server ended with, or how the call broke.
        """

    async def send(message: bytes) -> None:
        """Queue one message; returns when there is room for the next.

        Raises:
            SvcError: once the call is over.
        """

    def end() -> None:
        """Send no more; what is queued still goes.  Idempotent."""

    def cancel(reason: str = "cancelled") -> None:
        """Reset the call at once; *reason* is for our own logs. Idempotent."""


class IHeardStream(IRpcStream, IHeardMessages):
    """A streaming call whose caller may be told of messages."""


class IRpcChannel(Interface):
    """A connection to one server; calls share it."""

    peer: Peer = Attribute("The server, with its certificate.")
    open_streams: int = Attribute("How many calls are open now.")
    takes_calls: bool = Attribute("Whether a further call may begin; False also once it is over.")
    heard_at: float = Attribute("When the server last said anything, in seconds of the clock.")

    async def unary(
        method: str,
        request: Message,
        response_type: type[_Response],
        *,
        timeout: float | None,
        metadata: Metadata = (),
    ) -> _Response:
        """Call and wait for the one answer.

        Cancelling the awaiting Deferred resets the call.

        Args:
            method: ``/package.Service/Method``.
            timeout: Seconds from now; it travels to the server.  None: no end.

        Raises:
            Unprocessed: the server did nothing for the call; only then it may be made again
                without asking what became of it.
            SvcError: the server's refusal (``reason`` from its ErrorInfo), ``DEADLINE``,
                or ``UNAVAILABLE`` when the connection is gone.
        """

    def stream(method: str, *, timeout: float | None = None, metadata: Metadata = ()) -> IRpcStream:
        """Begin a streaming call; past the server's limit of calls it waits a while for its turn.

        Raises:
            Unprocessed: the connection is gone or is going away.
            SvcError: ``EXHAUSTED`` where too many calls wait already.
        """

    def drain() -> None:
        """Begin no further call; the connection ends once those under way are over.  Idempotent.

        A call that still waits for its turn fails with ``Unprocessed``, as does a later one.
        """

    async def close() -> None:
        """End the connection; open calls fail with ``UNAVAILABLE``.  Idempotent."""

    def on_close(callback: Callable[[str], object]) -> None:
        """Call *callback* once with the reason word when the connection ends.

        At once if it already has.  Words: ``closed`` (we), ``lost``, ``going_away`` (the server
        drained), ``keepalive_failed``, ``protocol_error``.
        """


class IRawSink(Interface):
    """The receiver of the bytes of an :class:`IRawEnd`, which calls it; must not block or raise."""

    def raw_received(chunk: bytes | memoryview) -> None:
        """Bytes arrived; acknowledge them with :meth:`IRawEnd.credit` once they were passed on."""

    def raw_sent(size: int) -> None:
        """*size* bytes written to the end have gone to its transport."""

    def raw_ended() -> None:
        """The peer sends no more: its half, or with a server's OK the call, is over."""

    def raw_failed(refusal: SvcError) -> None:
        """The call broke, or the server ended it with this refusal."""


class IRawEnd(Interface):
    """The messages of a call as bytes, framed as they travel.

    Our calls and streams both provide it, so that a relay passes messages on without
    reading them, and before they are whole.
    """

    def take_data(most: int) -> bytes:
        """The bytes of the next message, taken; or nothing is taken, and they are empty.

        So where the next message is not there whole, is no ``data`` of a byte stream, or holds
        more than *most*.  Before :meth:`divert`.

        Raises:
            SvcError: the call has broken.
        """

    def divert(sink: IRawSink) -> None:
        """From now on everything received goes to *sink*; ``receive`` is not used again.

        What was received already follows at once.  Only between two messages.
        """

    def write_raw(chunk: bytes | memoryview) -> None:
        """Queue framed bytes unchanged; the sink's ``raw_sent`` is called when they were sent."""

    def credit(size: int) -> None:
        """Let the peer send *size* more bytes."""

    def end_raw() -> bool:
        """Send no more; False at a server, whose half ends when its handler returns."""

    def fail_raw(refusal: SvcError) -> None:
        """Break the call off, whatever is queued.

        At a server the handler raises, and its refusal goes past what is queued.
        """


class IMovedReader(Interface):
    """A protocol over a call's byte stream whose peer may go on elsewhere."""

    def peer_moved() -> None:
        """What the peer writes from here on does not come through this stream."""


class IHalfCloseableTransport(Interface):
    """A transport that can say "I write no more" to its peer and go on reading."""

    def loseWriteConnection() -> None:
        """Send what is queued, then the end of writing."""


Admit = Callable[[str, Peer], object]
"""``admit(method, peer)`` runs when a call starts and raises SvcError to refuse it.

The handler begins in the same turn; what is returned is its call's ``caller``.
Also for a method that is not served, whose name is empty where it is not of a method's form.
"""

Serve = Callable[[IRpcCall], Coroutine[Any, Any, None]]
"""Serves one call of any shape; returning is status OK, raising is the refusal."""


@frozen
class RpcService:
    """One gRPC service: its full name and what serves each method.

    Attributes:
        name: ``package.Service``, without slashes.
        methods: Method name to what :func:`unary` or :func:`streaming` made.
        lasting: Methods whose calls have no end of their own.  A server that drains does not
            wait for them: once no others are left it ends them with ``draining``, and the caller
            turns to another.
        longest: By method, the bytes of the longest message that its caller may send, where that is
            less than what the listener takes.
    """

    name: str
    methods: Mapping[str, Serve] = field(factory=dict)
    lasting: frozenset[str] = frozenset()
    longest: Mapping[str, int] = field(factory=dict)


async def only_message(call: IRpcCall) -> bytes:
    """The one message of a unary call.

    Raises:
        SvcError: ``not_one_request``: it has none, or more.
    """
    data = await call.receive()
    if data is None or not await call.ends():
        raise SvcError(
            "this method takes exactly one message",
            reason="not_one_request",
            fault=Fault.UNIMPLEMENTED,
        )
    return data


def unary(
    request_type: type[_Request],
    answer: Callable[[_Request, IRpcCall], Awaitable[Message]],
) -> Serve:
    """A method that takes one message and returns one.

    Args:
        request_type: The generated class of the request.
        answer: ``async def (request, call) -> response``.
    """

    async def serve(call: IRpcCall) -> None:
        # A caller that reads slowly keeps the answer's bytes here, and nothing else.
        await call.send(await answered(call))

    async def answered(call: IRpcCall) -> bytes:
        data = await only_message(call)
        try:
            request = request_type.FromString(data)
        except DecodeError:
            raise Malformed("the request is not of the expected message type") from None
        del data
        return (await answer(request, call)).SerializeToString()

    return serve


def streaming(serve: Serve) -> Serve:
    """A method that reads and writes its call as it likes: ``async def (call) -> None``."""
    return serve
