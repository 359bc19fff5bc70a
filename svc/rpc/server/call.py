"""Serves one call: its handler, its deadline, and how both end.

A handler belongs to its call: when the call ends first, the handler is cancelled; when the handler
raises, only an :class:`~svc.errors.SvcError` is told to the peer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.rpc import IHeardCall, IRawEnd, Metadata, MetadataValue, Serve, Within
from svc.interfaces.tracing import Traced
from svc.rpc.call import MessageEnd
from svc.rpc.connection import WireProtocol
from svc.rpc.keepalive import Keepalive
from svc.rpc.status import cancelled, deadline_exceeded, status_of
from svc.wire.headers import Headers, RequestHead, encode_metadata
from svc.wire.status import OK
from svc.wire.streams import Stream

_log = Logger(namespace="svc_rpc")


@implementer(IHeardCall, IRawEnd)
class ServerCall(MessageEnd):
    """One call being served."""

    def __init__(self, connection: WireProtocol, stream: Stream, head: RequestHead) -> None:
        super().__init__(connection, stream, head.method)
        self.metadata: Mapping[str, MetadataValue] = head.metadata
        self.peer = connection.peer
        self.caller: object = None
        self._connection = connection
        self.deadline: float | None = None
        self._clock = connection.clock
        self._serving: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._first_message_timer: IDelayedCall | None = None
        self._has_received = False
        self._trailing: Headers | None = None
        self._on_cancel: tuple[Callable[[SvcError], object], ...] = ()
        if head.timeout is not None:
            self.deadline = self._clock.seconds() + head.timeout

    def answer_with(self, *, initial: Metadata = (), trailing: Metadata = ()) -> None:
        if initial and self._stream.answered:
            raise SvcError("the answer has begun already", reason="answered")
        self._stream.initial, self._trailing = encode_metadata(initial), encode_metadata(trailing)

    def on_cancel(self, callback: Callable[[SvcError], object]) -> None:
        if self.refusal is not None:
            callback(self.refusal)
        else:
            self._on_cancel = (*self._on_cancel, callback)

    def on_gone(self, callback: Callable[[], object]) -> None:
        if self._stream.is_over:
            callback()
        else:
            self._stream.on_gone = callback

    def keep_alive(self, interval: float, timeout: float) -> None:
        self._connection.keep_alive(Keepalive(interval, timeout))

    def end_raw(self) -> bool:
        return False

    def fail_raw(self, refusal: SvcError) -> None:
        self._stream.forget_queued()

    def begin(self, serve: Serve, traced: Traced | None = None, caller: object = None) -> None:
        """Start the handler and the deadline, for whom admission found."""
        self.caller = caller
        if self.deadline is not None:
            left = self.deadline - self._clock.seconds()
            if left <= 0:
                self._answer(deadline_exceeded())
                return
            self._timer = self._clock.callLater(left, self._time_is_up)
        serving = serve(self) if traced is None else _traced(serve, self, traced)
        self._serving = Deferred.fromCoroutine(serving)
        if not (self._has_received or self._serving.called):
            # Most calls come with their first message, which the handler has taken by now.
            self._wait_for_caller()
        self._serving.addCallbacks(self._served, self._failed)

    async def receive(self, within: Within | None = None) -> bytes | None:
        """As of every end; the first message must come in time, whatever the caller's deadline."""
        message = await super().receive(within)
        self._has_received = True
        if self._first_message_timer is not None:
            self._stop_first_message_timer()
        return message

    async def ends(self) -> bool:
        """Wait for the end of the caller's half, no longer than for a first message."""
        if not self._stream.input_ended:
            self._wait_for_caller()
        try:
            return await super().receive() is None
        finally:
            if self._first_message_timer is not None:
                self._stop_first_message_timer()

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
        callbacks, self._on_cancel = self._on_cancel, ()
        for callback in callbacks:
            callback(refusal)
        if self._serving is not None and not self._serving.called:
            self._serving.cancel()

    def _wait_for_caller(self) -> None:
        if self._first_message_timer is None:
            seconds = self._connection.wire.limits.stalled_secs
            self._first_message_timer = self._clock.callLater(seconds, self._nothing_came)

    def _nothing_came(self) -> None:
        self._first_message_timer = None
        if self._reader is not None:
            self._stop_timer()
            self._time_is_up()

    def _stop_first_message_timer(self) -> None:
        timer, self._first_message_timer = self._first_message_timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def leave(self) -> None:
        """End a call that would outlast the drain of this server.  Idempotent."""
        if self.refusal is None:
            self._end(draining())

    def _time_is_up(self) -> None:
        self._timer = None
        self._end(deadline_exceeded())

    def _end(self, refusal: SvcError) -> None:
        if self._stream.queued:
            # Trailers would wait behind messages that the caller does not read.
            self.break_off(refusal)
        else:
            self._answer(refusal)
            self.lost(refusal)

    def _served(self, _result: None) -> None:
        self._stop_timer()
        self.listen_no_more()
        self._stream.finish(OK, self._trailing)

    def _failed(self, failure: Failure) -> None:
        self._stop_timer()
        self.listen_no_more()
        if failure.check(CancelledError):
            if self.refusal is None:
                self._answer(cancelled("the call was cancelled here"))
        elif isinstance(failure.value, SvcError):
            self._answer(failure.value)
        else:
            _log.failure("a call failed", failure, method=self.method)
            self._answer(_internal(failure.value))

    def _answer(self, refusal: SvcError) -> None:
        self._stream.finish(status_of(refusal), self._trailing)

    def _stop_timer(self) -> None:
        if self._first_message_timer is not None:
            self._stop_first_message_timer()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None


def _internal(error: BaseException | None) -> SvcError:
    """What a caller is told of a fault of ours: nothing, but of a package that is not installed."""
    if isinstance(error, ModuleNotFoundError):
        return SvcError(
            f"there is no module {error.name} where this role is installed: install svc with all "
            "that it needs into one environment, and restart the role",
            reason="module_missing",
            fault=Fault.INTERNAL,
        )
    return SvcError("the call failed", reason="internal", fault=Fault.INTERNAL)


def draining() -> Unavailable:
    """The error for a call that a server cannot finish during its shutdown."""
    return Unavailable("this server is shutting down; use another", reason="draining")


async def _traced(serve: Serve, call: ServerCall, traced: Traced) -> None:
    with traced(call.method, call.metadata):
        await serve(call)
