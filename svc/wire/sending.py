"""The sending half of a connection: its open calls, and what is sent next.

Streams take turns, each as far as its window and the budget go.  A stream that waits for its
peer's window stands aside until that window opens; nothing is tried again before.
"""

from __future__ import annotations

from collections.abc import Callable

from h2.errors import ErrorCodes

from svc.wire.events import Event, Finished, QueueEmptied
from svc.wire.floods import FloodGuard
from svc.wire.headers import Headers, response_headers
from svc.wire.limits import KIB, WireLimits
from svc.wire.machine import Machine, Part
from svc.wire.pings import PingGuard
from svc.wire.room import StreamBudget
from svc.wire.status import Status
from svc.wire.streams import Stream
from svc.wire.turns import NOBODY, StreamQueue

_QUANTUM = 256 * KIB


class SendingHalf:
    """Open calls and their output; ``Connection`` adds the receiving.

    Attributes:
        limits: Its bounds.
        streams: Open calls by stream id.
        room: What they may hold together.
        blocked: Those of them that wait for their peer's window.
        events: What has happened and nobody has taken yet.

    Args:
        on_work: Called when there is something to write where there was nothing, and when the peer
            may send more and is to be told so.
    """

    def __init__(
        self, limits: WireLimits, *, is_client: bool, on_work: Callable[[], object]
    ) -> None:
        self.limits = limits
        self.streams: dict[int, Stream] = {}
        self.blocked: dict[int, Stream] = {}
        self._is_client = is_client
        self._machine = Machine(limits, is_client=is_client)
        self._floods = FloodGuard(limits)
        self.events: list[Event] = []
        self._dirty: dict[int, Stream] = {}
        self.room = StreamBudget(limits)
        self._pings = PingGuard(limits.least_ping_secs)
        # A server begins no call.
        self._turns = StreamQueue(limits.max_streams, self._begin) if is_client else NOBODY
        self._heads = 0
        self._on_work = on_work
        self._is_dead = False
        # HEADERS or DATA were written, which whoever limits pings is told when the next one comes.
        self._has_told = False
        self._now = 0.0

    @property
    def calls(self) -> list[Stream]:
        """Every call that is not over, those that wait for their turn included."""
        return [*self.streams.values(), *self._turns.waiting]

    @property
    def has_work(self) -> bool:
        """Whether :meth:`pump` would return anything now; ended streams send nothing more."""
        return bool(self._machine.control) or (bool(self._dirty) and not self._is_dead)

    def pump(self, budget: int) -> list[Part]:
        """Move queued bytes into frames, streams in turn, about *budget* bytes at most.

        Returns:
            What to write, in order.  :meth:`take_events` may have news afterwards.
        """
        while self._dirty and budget > 0 and not self._is_dead:
            stream_id = next(iter(self._dirty))
            stream = self._dirty.pop(stream_id)
            budget -= self._pump_stream(stream, min(budget, _QUANTUM))
        if not self._dirty:
            self._dirty.clear()  # which keeps room for what it held
        return self._machine.take_parts()

    def take_events(self) -> list[Event]:
        """Hand over the events that have gathered."""
        events, self.events = self.events, []
        return events

    def reset(self, stream: Stream, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """End *stream* at once, whatever is queued.  Idempotent; no event follows."""
        if stream.is_over:
            return
        self._reset(stream.id, code)
        self._forget(stream)

    # -- for streams

    def wants_to_send(self, stream: Stream) -> None:
        """*stream* has something to send; one that waits for its turn says so when it begins."""
        if stream.id and stream.id not in self.blocked:
            is_first = not self._dirty
            self._dirty[stream.id] = stream
            if is_first:
                self._on_work()

    def unblock(self, stream: Stream) -> None:
        """*stream* waits for no window any more."""
        self.blocked.pop(stream.id, None)
        if stream.wants_to_send:
            self.wants_to_send(stream)

    def open_window(self, stream: Stream, size: int) -> None:
        """Let the peer send *size* more bytes on *stream*."""
        if not self._is_dead and self._machine.is_open(stream.id):
            self._machine.increment_flow_control_window(size, stream.id)
            self._on_work()

    # -- inside

    def _pump_stream(self, stream: Stream, budget: int) -> int:
        machine = self._machine
        room = machine.room(stream.id)
        if stream.is_over or room is None:
            return 0
        if not self._is_client and not stream.answered and stream.queued:
            stream.answered = self._has_told = True
            machine.respond(stream.id, response_headers(stream.initial))
        sent = 0
        was_full = stream.queued >= self.limits.send_queue
        while stream.queued and sent < budget:
            if sent:
                room = machine.room(stream.id) or 0
            if room <= 0:
                self.blocked[stream.id] = stream
                break
            parts, size = stream.cut(min(room, budget - sent))
            # A caller's last message ends its half; a server's trailers do.
            ends = self._is_client and stream.ending is not None and not stream.queued
            machine.send_parts(stream.id, parts, size, ends=ends)
            stream.output_ended = ends
            self._floods.allowance.sent += 1
            sent += size
        if sent:
            self._has_told = True
            if stream.on_sent is not None:
                stream.on_sent(sent)
        if was_full and stream.queued < self.limits.send_queue:
            self.events.append(QueueEmptied(stream))
        if stream.queued:
            if stream.id not in self.blocked:
                self._dirty[stream.id] = stream
        elif stream.ending is not None and not stream.output_ended:
            self._end_output(stream, stream.ending)
        return sent

    def _end_output(self, stream: Stream, fields: Headers) -> None:
        stream.output_ended = True
        if self._is_client:
            self._machine.end_stream(stream.id)
            return
        if not stream.answered:
            fields = response_headers(stream.initial) + fields
        self._machine.respond(stream.id, fields, end_stream=True)
        self._has_told = True
        if not stream.input_ended:
            # The answer is whole: what the caller still sends has no reader (RFC 9113 8.1).
            self._reset(stream.id, ErrorCodes.NO_ERROR)
        self._forget(stream)

    def _add(self, stream: Stream, stream_id: int) -> Stream:
        """A call begins; the size of its header list counts as long as it is open."""
        stream.id = stream_id
        self.streams[stream_id] = stream
        self.room.windows += stream.window
        self._heads += stream.head
        self._floods.allowance.opened += 1
        return stream

    @property
    def _has_turn(self) -> bool:
        return len(self.streams) < self._machine.peer_max_streams

    def _begin(self, stream: Stream, fields: Headers) -> None:
        self._add(stream, self._machine.get_next_available_stream_id())
        self._machine.request(stream.id, fields)
        if stream.queued or stream.ending is not None:  # it has waited for its turn
            self.unblock(stream)

    def _next_turns(self) -> None:
        while self._turns.waiting and self._has_turn and not self._is_dead:
            self._turns.next()

    def _forget(self, stream: Stream) -> None:
        if not stream.id:
            self._turns.forget(stream)
        if self.streams.pop(stream.id, None) is not None:
            self.room.windows -= stream.window
            self._heads -= stream.head
            self._floods.allowance.ended += 1
            if not stream.input_ended:
                self._floods.allowance.cut += 1
        self._dirty.pop(stream.id, None)
        self.blocked.pop(stream.id, None)
        stream.drop()
        self._machine.forget(stream.id)
        if self._turns.waiting:
            self._next_turns()

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        if not self._is_dead and self._machine.is_open(stream_id):
            self._machine.reset(stream_id, code)

    def _over(self, stream: Stream, status: Status) -> None:
        stream.status, context = status, stream.context
        self._forget(stream)
        stream.context = context  # which the event is for
        self.events.append(Finished(stream))

    def _pinged(self) -> None:
        """The peer pings.

        Raises:
            WireError: too often.
        """
        if self._has_told:
            self._has_told = False
            self._pings.sent()
        self._pings.came(self._now)

    def _unblock(self) -> None:
        self._dirty.update(self.blocked)
        self.blocked.clear()
