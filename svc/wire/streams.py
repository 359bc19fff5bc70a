"""One stream: the data it holds in each direction, and what its peer may still send.

Flow control lives here.  Bytes received are *owed* until the stream's reader took them; only then
does the peer's window open again, so a reader that stops stops its own sender and nobody else.
A stream never writes by itself: it queues, and the connection pumps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from svc.wire.framing import PREFIX_BYTES, Inbox, prefix
from svc.wire.headers import Headers
from svc.wire.limits import WireLimits
from svc.wire.machine import Part
from svc.wire.room import StreamBudget
from svc.wire.status import Status, trailers


class StreamOwner(Protocol):
    """What a stream asks of its connection.

    Attributes:
        limits: The bounds of the connection.
        room: What its streams may hold together.
    """

    limits: WireLimits
    room: StreamBudget

    def wants_to_send(self, stream: Stream) -> None:
        """*stream* has something to send."""

    def unblock(self, stream: Stream) -> None:
        """*stream* waits for no window any more."""

    def open_window(self, stream: Stream, size: int) -> None:
        """Let the peer send *size* more bytes on *stream*."""


class Stream:
    """A call's two halves.

    Attributes:
        id: The HTTP/2 stream id; 0 while the call waits for its turn to begin.
        began: When, on the connection's clock.
        head: The size of the header list it began with.
        queued: Bytes waiting to be sent.
        ending: The fields (client: none) that end our half, when it shall end.
        input_ended: The peer has ended its half; the inbox may still hold messages.
        is_over: Finished or reset; nothing is sent or received any more.
        status: How the peer ended the call, once it did.
        is_unprocessed: The peer has said that it did nothing for the call.
        headers: What the server's answer began with (client).
        trailers: What it ended with (client); of an answer without messages, its only fields.
        window: What the peer may have under way on this stream.
        queue_limit: From how many queued bytes on a writer should wait.
        initial: Further fields to begin our answer with (server).
        on_sent: Told how many queued bytes went to the transport (a relay's way to give credit).
        on_gone: Told once, when nothing is held for the stream any more; must not raise.
        context: The owner's object for this stream; None once it is over and its end was told.
    """

    __slots__ = (
        "_connection",
        "_grown_at",
        "_is_ahead",
        "_owed",
        "_queue",
        "_taken",
        "answered",
        "began",
        "context",
        "ending",
        "head",
        "headers",
        "id",
        "inbox",
        "initial",
        "input_ended",
        "is_over",
        "is_unprocessed",
        "is_waiting",
        "on_gone",
        "on_sent",
        "output_ended",
        "queue_limit",
        "queued",
        "status",
        "trailers",
        "window",
    )

    def __init__(
        self, connection: StreamOwner, stream_id: int, began: float = 0.0, head: int = 0
    ) -> None:
        self.id = stream_id
        self.began = began
        self.head = head
        self._connection = connection
        self.inbox = Inbox(connection.limits.max_message)
        self.headers: Headers | tuple[()] = ()
        self.trailers: Headers | tuple[()] = ()
        self.initial: Headers | tuple[()] = ()
        self.context: object = None
        self.input_ended = False
        self.output_ended = False
        self.is_over = False
        self.is_unprocessed = False
        self.status: Status | None = None
        self.answered = False
        self.is_waiting = False
        self.on_sent: Callable[[int], object] | None = None
        self.on_gone: Callable[[], object] | None = None
        self.queue_limit = connection.limits.send_queue
        self.queued = 0
        # None while nothing is queued: even an empty deque takes 760 bytes.
        self._queue: deque[Part] | None = None
        self.ending: Headers | None = None
        self.window = connection.limits.small_window
        self._taken = 0
        self._owed = 0
        self._grown_at = 0
        self._is_ahead = False

    # -- receiving

    def accept(self, pieces: Sequence[bytes | memoryview], size: int, padding: int) -> None:
        """Keep *size* bytes that the machine received; *padding* is given back at once."""
        for piece in pieces:
            self.inbox.add(piece)
        self._owed += size + padding
        if padding:
            self.credit(padding)
        if self.window < self._connection.limits.first_window and self._owed >= self.window // 4:
            self._grow(self._connection.limits.first_window)

    def take(self) -> bytes | memoryview | None:
        """The next complete message; None if there is none yet, or none any more.

        Raises:
            SvcError: for a message past the limit, a compressed one.
        """
        inbox = self.inbox
        has_none = inbox.need < 0 and inbox.held < PREFIX_BYTES
        message = None if has_none else inbox.take()
        # A message whose reader waits for it may be longer than the window.
        self.is_waiting = message is None
        if message is None:
            if self._owed or inbox.need > 0:
                self.settle()
            return None
        if self._is_ahead:
            self._stop_running_ahead()
        if self._owed > inbox.held:
            self.credit(self._owed - inbox.held)
        return message

    @property
    def is_takeable(self) -> bool:
        """Whether :meth:`take`, or the end, has something for a reader."""
        return self.inbox.is_whole or self.input_ended or self.is_over

    def take_raw(self) -> list[bytes | memoryview]:
        """All bytes held, unread; each must be given back with :meth:`credit` once it went on."""
        if self._is_ahead:
            self._stop_running_ahead()
        return self.inbox.take_raw()

    def credit(self, size: int) -> None:
        """*size* bytes were read: let the peer send as many more."""
        size = min(size, self._owed)
        self._owed -= size
        self._taken += size
        self._grown_at += size
        if self.input_ended or self.is_over:
            return
        full = self._connection.limits.full_window
        if self.window < full and self._grown_at >= self.window and self._owed <= self.window // 2:
            self._grow(min(self.window * 2, full))
        if self._taken >= self.window // 4:
            self._connection.open_window(self, self._taken)
            self._taken = 0

    def settle(self) -> None:
        """Give back what is taken, and as much of what a reader waits with as its message needs."""
        held = self.inbox.held
        if self.is_waiting and not self.is_over:
            held -= min(held, self._room_ahead())
        if self._owed > held:
            self.credit(self._owed - held)

    def _room_ahead(self) -> int:
        """How much of the unfinished message the peer may send again, as if it had been taken."""
        # A quarter of the window may not have been given back yet; the rest of it must do.
        missing = self.inbox.need - self.window // 2
        if missing <= 0 or self.inbox.is_whole:
            return 0
        self._is_ahead = True
        return self._connection.room.run_ahead(self.id, missing, self.settle)

    def _stop_running_ahead(self) -> None:
        """Its message was read, or is nobody's: others may have what was set aside for it."""
        self._is_ahead = False
        self._connection.room.release(self.id)

    def _grow(self, window: int) -> None:
        grant = self._connection.room.grant(window - self.window)
        if grant and not self.input_ended:
            self.window += grant
            self._grown_at = 0
            self._connection.open_window(self, grant)

    # -- sending

    def send_message(self, message: Part) -> None:
        """Queue one message."""
        self.send_parts([message], len(message))

    def send_parts(self, parts: list[Part], size: int) -> None:
        """Queue one message of *size* bytes given in parts, which are not copied."""
        if self.ending is None and not self.is_over:
            if self._queue is None:
                self._queue = deque()
            self._queue.append(prefix(size))
            self._queue += parts
            self.queued += size + PREFIX_BYTES
            self._connection.wants_to_send(self)

    def send_raw(self, chunk: Part) -> None:
        """Queue bytes that are already framed as messages."""
        if self.ending is None and not self.is_over:
            if self._queue is None:
                self._queue = deque()
            self._queue.append(chunk)
            self.queued += len(chunk)
            self._connection.wants_to_send(self)

    def finish(self, status: Status, metadata: Headers | None = None) -> None:
        """End the call with *status* once the queue is empty (server).  Idempotent.

        Args:
            metadata: Further fields after the status.
        """
        self._end(trailers(status) + (metadata or []))

    def answer_http(self, fields: Headers) -> None:
        """Answer what is not gRPC, with these fields alone."""
        self.answered = True
        self._end(fields)

    def half_close(self) -> None:
        """Send no more once the queue is empty (client).  Idempotent."""
        self._end([])

    def forget_queued(self) -> None:
        """Send no more of what is queued; the end of our half still goes.

        Without it a caller that does not read would keep a broken call, and all it holds.
        """
        self._queue = None
        self.queued = 0
        self._connection.unblock(self)

    def drop(self) -> None:
        """Forget what is queued, and who used the stream: it is over."""
        self.is_over = True
        self.context = self.on_sent = None
        if self._is_ahead:
            self._stop_running_ahead()
        self._queue = None
        self.queued = 0
        callback, self.on_gone = self.on_gone, None
        if callback is not None:
            callback()

    def _end(self, fields: Headers) -> None:
        if self.ending is None and not self.is_over:
            self.ending = fields
            self._connection.wants_to_send(self)

    # -- pumped by the connection

    @property
    def wants_to_send(self) -> bool:
        """Whether a pump would find work, window permitting."""
        return bool(self._queue) or (self.ending is not None and not self.output_ended)

    def cut(self, room: int) -> tuple[list[Part], int]:
        """Take up to *room* bytes off the queue, as parts and their size."""
        queue = self._queue
        parts: list[Part] = []
        size = 0
        while queue and size < room:
            part = queue[0]
            length = len(part)
            if size + length > room:
                view = memoryview(part)
                fitting = room - size
                parts.append(view[:fitting])
                queue[0] = view[fitting:]
                size = room
                break
            parts.append(queue.popleft())
            size += length
        if not queue:
            self._queue = None
        self.queued -= size
        return parts, size
