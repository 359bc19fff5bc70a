"""One end of a call: the coroutines and callbacks that use a wire stream.

The end turns the stream's news into waiting readers and writers.  It knows neither which side it
is on (``server`` and ``channel`` add that) nor what the messages mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from h2.errors import ErrorCodes
from twisted.internet.defer import Deferred

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import CallListener, IRawSink, Within
from svc.rpc.frames import MAX_DATA_HEAD, read_data
from svc.rpc.status import refusal_of_stream
from svc.wire.machine import Part
from svc.wire.streams import Stream


class Owner(Protocol):
    """What an end asks of its connection."""

    def before_writing(self, call: Callable[[], object]) -> None:
        """Run *call* once, before this turn's writing."""

    def soon(self, call: Callable[[], object]) -> None:
        """Run *call* in the next turn."""

    def reset(self, stream: Stream, code: ErrorCodes) -> None:
        """Reset one stream."""


class MessageEnd:
    """Messages in and out of one stream.

    Attributes:
        method: ``/package.Service/Method``.
        refusal: Why the call broke; None while it has not.
    """

    def __init__(self, owner: Owner, stream: Stream, method: str) -> None:
        self.method = method
        self.refusal: SvcError | None = None
        self._owner = owner
        self._stream = stream
        self._reader: Deferred[None] | None = None
        self._writers: list[Deferred[None]] | None = None
        self._listener: CallListener | None = None
        stream.context = self

    async def receive(self, within: Within | None = None) -> bytes | None:
        """The next message; see :class:`svc.interfaces.rpc.IRpcCall`."""
        while True:
            message = self.take()
            if message is not None:
                return bytes(message)
            if self._stream.input_ended:
                return None
            if self._reader is not None:
                raise SvcError("two readers on one call", reason="two_readers")
            self._reader = Deferred(self._forget_reader)
            await (self._reader if within is None else within(self._reader))

    async def send(self, message: bytes) -> None:
        """Queue one message; see :class:`svc.interfaces.rpc.IRpcCall`."""
        room = self.offer(message)
        if room is not None:
            await room

    def offer(self, message: bytes) -> Deferred[None] | None:
        """Queue one message; see :class:`svc.interfaces.rpc.IHeardCall`."""
        self.write([message], len(message))
        stream = self._stream
        if stream.queued < stream.queue_limit:
            return None
        room: Deferred[None] = Deferred(self._forget_writer)
        if self._writers is None:
            self._writers = [room]
        else:
            self._writers.append(room)
        return room

    # -- without waiting

    def take(self) -> bytes | memoryview | None:
        """The next whole message if it is there.

        Raises:
            SvcError: when the call has broken, the server refused, or a message is not takeable.
        """
        if self.refusal is not None:
            raise self.refusal
        stream = self._stream
        message = stream.take()
        if message is not None:
            return message
        if stream.status is not None and (outcome := self.outcome) is not None:
            raise outcome
        if stream.input_ended and stream.inbox.is_partial:
            raise SvcError(
                "the last message is cut short", reason="truncated", fault=Fault.INTERNAL
            )
        return None

    @property
    def is_drained(self) -> bool:
        """Whether nothing is held after the last message taken, and the peer's half goes on.

        Where it is False another :meth:`take` has something to give, to ask for or to raise, or
        the peer's half is over.
        """
        stream = self._stream
        is_over = stream.is_over or stream.status is not None or self.refusal is not None
        return not (is_over or stream.input_ended or stream.inbox.need >= 0 or stream.inbox.held)

    @property
    def outcome(self) -> SvcError | None:
        """Why the call failed; None while it continues."""
        if self.refusal is not None or self._stream.status is None:
            return self.refusal
        return refusal_of_stream(self._stream)

    @property
    def has_ended(self) -> bool:
        """Whether the peer's half is over."""
        return self._stream.input_ended

    @property
    def is_full(self) -> bool:
        """Whether a writer should wait."""
        return self._stream.queued >= self._stream.queue_limit

    @property
    def awaits_room(self) -> bool:
        """Whether a writer is waiting."""
        return bool(self._writers)

    def write(self, parts: list[Part], size: int) -> None:
        """Queue one message given in parts of *size* bytes together.

        Raises:
            SvcError: when the call is over.
        """
        stream = self._stream
        if self.refusal is not None or stream.is_over or stream.ending is not None:
            raise self.outcome or _ended()
        stream.send_parts(parts, size)

    def before_writing(self, call: Callable[[], object]) -> None:
        """Run *call* once, just before the connection writes next."""
        self._owner.before_writing(call)

    def soon(self, call: Callable[[], object]) -> None:
        """Run *call* in the reactor's next turn, also when the connection is gone."""
        self._owner.soon(call)

    def listen(self, listener: CallListener) -> None:
        """Notify *listener* from now on, and at once of what is there."""
        self._listener = listener
        if self.refusal is not None:
            listener.broken(self.refusal)
        else:
            listener.readable()

    def listen_no_more(self) -> None:
        """Notify nobody: whoever listened wants nothing more of the call."""
        self._listener = None

    def break_off(self, refusal: SvcError, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """End the call from our side at once.  Idempotent."""
        if self.refusal is None and not self._stream.is_over:
            self._owner.reset(self._stream, code)
            self.lost(refusal)

    # -- told by the connection

    def readable(self) -> None:
        """The stream holds something new."""
        if self._listener is not None:
            self._listener.readable()
        elif self._reader is None:
            pass  # Whoever comes to read takes what is there.
        elif self._stream.is_takeable:
            self._wake_reader()
        else:
            # Its message may be longer than the window: open it, though nothing was taken.
            self._stream.settle()

    def drained(self) -> None:
        """The stream's queue has room."""
        writers, self._writers = self._writers, None
        for room in writers or ():
            room.callback(None)
        if self._listener is not None:
            self._listener.drained()

    def over(self) -> None:
        """The peer has ended or reset the call; the stream holds its status."""
        self.readable()
        if self._writers:
            self._fail_writers(self.outcome or _ended())

    def lost(self, refusal: SvcError) -> None:
        """The call is over without a word of the peer."""
        if self.refusal is not None:
            return
        self.refusal = refusal
        self._fail_writers(refusal)
        self._wake_reader()
        if self._listener is not None:
            self._listener.broken(refusal)

    # -- raw (IRawEnd)

    def take_data(self, most: int) -> bytes:
        """See :class:`svc.interfaces.rpc.IRawEnd`."""
        message = self._stream.inbox.peek(most + MAX_DATA_HEAD)
        data = read_data(message)
        if not data or len(data) > most:
            return b""
        self.take()
        return data

    def divert(self, sink: IRawSink) -> None:
        """See :class:`svc.interfaces.rpc.IRawEnd`."""
        self._stream.on_sent = sink.raw_sent
        self.listen(_Diversion(self._stream, sink))

    def write_raw(self, chunk: bytes | memoryview) -> None:
        """See :class:`svc.interfaces.rpc.IRawEnd`."""
        self._stream.send_raw(chunk)

    def credit(self, size: int) -> None:
        """See :class:`svc.interfaces.rpc.IRawEnd`."""
        self._stream.credit(size)

    # -- inside

    def _fail_writers(self, refusal: SvcError) -> None:
        writers, self._writers = self._writers, None
        for room in writers or ():
            room.errback(refusal)

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.callback(None)

    def _forget_reader(self, _reader: Deferred[None]) -> None:
        self._reader = None

    def _forget_writer(self, room: Deferred[None]) -> None:
        if self._writers is not None and room in self._writers:
            self._writers.remove(room)


def _ended() -> SvcError:
    return SvcError("the call has ended", reason="ended", fault=Fault.CANCELLED)


class _Diversion:
    """Hands a stream's bytes to a sink as they come."""

    def __init__(self, stream: Stream, sink: IRawSink) -> None:
        self._stream = stream
        self._sink = sink
        self._end_passed = False

    def readable(self) -> None:
        """Pass on what is held, then the end, once."""
        for chunk in self._stream.take_raw():
            self._sink.raw_received(chunk)
        if self._end_passed or not (self._stream.input_ended or self._stream.status is not None):
            return
        self._end_passed = True
        refusal = refusal_of_stream(self._stream)
        if refusal is not None:
            self._sink.raw_failed(refusal)
        else:
            self._sink.raw_ended()

    def drained(self) -> None:
        """Does nothing: a relay uses ``raw_sent``."""

    def broken(self, refusal: SvcError) -> None:
        """Pass the failure on, once."""
        if not self._end_passed:
            self._end_passed = True
            self._sink.raw_failed(refusal)


OnProblem = Callable[[str, str], object]
"""``on_problem(what, detail)``: connection events, for metrics and logs of the room above."""
