"""One HTTP/2 connection that carries gRPC calls: bytes in, events and parts out.

The owner calls :meth:`Connection.receive` with what it read, acts on the events, then writes
what :meth:`Connection.pump` gives, as often as its transport takes it.  The connection's own
window is given back on receipt, a stream's only by its reader (``streams``), so one reader that
stops never holds up another.  Every refusal of one stream leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from h2 import events as h2e
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from svc.errors import Fault, Malformed, SvcError
from svc.wire.errors import WireError
from svc.wire.events import Drained, Event, Finished, GoingAway, Opened, Ponged, Readable, Ready
from svc.wire.headers import (
    Headers,
    MetadataValue,
    NotGrpc,
    http_refusal,
    parse_request,
    request_headers,
    response_headers,
)
from svc.wire.limits import KIB, FloodGuard, Nuisance, WireLimits
from svc.wire.machine import Machine, Part
from svc.wire.reader import Pieces
from svc.wire.status import Code, Status, parse_trailers, status_of_reset
from svc.wire.streams import Stream

_QUANTUM = 256 * KIB


class Connection:
    """The state of one connection, client or server side.

    Attributes:
        limits: Its bounds.
        streams: Open calls by stream id.
        is_going_away: The peer or we have said that no further call begins.
    """

    def __init__(self, limits: WireLimits, *, is_client: bool) -> None:
        self.limits = limits
        self.streams: dict[int, Stream] = {}
        self.is_going_away = False
        self._is_client = is_client
        self._machine = Machine(limits, is_client=is_client)
        self._floods = FloodGuard(limits)
        self._events: list[Event] = []
        self._dirty: dict[int, Stream] = {}
        self._blocked: dict[int, Stream] = {}
        self._windows = 0
        self._ahead = 0
        self._returned = 0
        self._is_ready = False
        self._is_dead = False
        self._now = 0.0

    # -- receiving

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take what the transport read.

        Args:
            data: The bytes.
            now: Seconds of any steady clock, for the flood guard.

        Returns:
            What happened, with what :meth:`pump` had to tell before.

        Raises:
            WireError: The connection is over; :meth:`pump` gives its last words.
        """
        if self._is_dead:
            raise WireError("the connection has ended")
        self._now = now
        try:
            for event in self._machine.receive_data(data):
                self._dispatch(event)
        except ProtocolError as broken:
            self._is_dead = True
            raise WireError(
                "the peer broke HTTP/2", details={"error": type(broken).__name__}
            ) from broken
        except WireError:
            self._is_dead = True
            self._machine.terminate(ErrorCodes.ENHANCE_YOUR_CALM)
            raise
        if self._returned >= self.limits.connection_window // 4:
            self._machine.increment_flow_control_window(self._returned)
            self._returned = 0
        return self.take_events()

    def take_events(self) -> list[Event]:
        """Hand over the events that have gathered."""
        events, self._events = self._events, []
        return events

    def check_held(self) -> None:
        """For an owner that cannot write: end a peer that asks and does not read.

        Raises:
            WireError: with reason ``flood``.
        """
        if self._machine.held_control > self.limits.held_control:
            self._is_dead = True
            raise WireError("the peer does not read its answers", reason="flood")

    # -- calls

    def open(
        self,
        method: str,
        *,
        scheme: str,
        authority: str,
        timeout: float | None,
        metadata: Iterable[tuple[str, MetadataValue]],
    ) -> Stream:
        """Begin a call (client).

        Raises:
            SvcError: ``UNAVAILABLE`` once the connection goes away, ``EXHAUSTED`` past the
                peer's limit of streams.
            Malformed: for metadata that cannot travel.
        """
        if self._is_dead or self.is_going_away:
            raise SvcError(
                "the connection takes no further call", reason="going_away", fault=Fault.UNAVAILABLE
            )
        if len(self.streams) >= self._machine.peer_max_streams:
            raise SvcError(
                "the peer allows no further call on this connection",
                reason="too_many_streams",
                fault=Fault.EXHAUSTED,
            )
        fields = request_headers(
            method, scheme=scheme, authority=authority, timeout=timeout, metadata=metadata
        )
        stream_id = self._machine.get_next_available_stream_id()
        self._machine.send_headers(stream_id, fields)
        return self._add(stream_id)

    def reset(self, stream: Stream, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """End *stream* at once, whatever is queued.  Idempotent; no event follows."""
        if stream.is_over:
            return
        self._reset(stream.id, code)
        self._forget(stream)

    def ping(self, payload: bytes) -> None:
        """Ask for an answer; :class:`Ponged` follows."""
        if not self._is_dead:
            self._machine.ping(payload)

    def go_away(self) -> None:
        """Tell the peer to begin no further call; open ones go on.  Idempotent."""
        if not self.is_going_away and not self._is_dead:
            self.is_going_away = True
            self._machine.send_goaway(last_stream_id=self._machine.highest_inbound_stream_id)

    def terminate(self) -> None:
        """Say the last word: the connection is about to be closed by us."""
        if not self._is_dead:
            self._is_dead = True
            self._machine.terminate(ErrorCodes.NO_ERROR)

    # -- sending

    @property
    def has_work(self) -> bool:
        """Whether :meth:`pump` would give anything now."""
        return bool(self._dirty) or self._machine.held_control > 0

    def pump(self, budget: int) -> list[Part]:
        """Move queued bytes into frames, streams in turn, about *budget* bytes at most.

        Returns:
            What to write, in order.  :meth:`take_events` may have news afterwards.
        """
        while self._dirty and budget > 0 and not self._is_dead:
            stream_id = next(iter(self._dirty))
            stream = self._dirty.pop(stream_id)
            budget -= self._pump_stream(stream, min(budget, _QUANTUM))
        return self._machine.take_parts()

    # -- for streams

    def wants_to_send(self, stream: Stream) -> None:
        """*stream* has something to send."""
        if stream.id not in self._blocked:
            self._dirty[stream.id] = stream

    def unblock(self, stream: Stream) -> None:
        """*stream* waits for no window any more."""
        self._blocked.pop(stream.id, None)
        if stream.wants_to_send:
            self._dirty[stream.id] = stream

    def grant(self, size: int) -> int:
        """How much of *size* a stream may add to its window: all, or 0 once we are crowded."""
        if self._windows >= self.limits.crowded:
            return 0
        self._windows += size
        return size

    def run_ahead(self, stream: Stream, by: int) -> None:
        """A stream holds *by* bytes more of an unfinished message than its window covers."""
        self._ahead += by
        if by > 0 and self._ahead > self.limits.run_ahead:
            self._reset(stream.id, ErrorCodes.ENHANCE_YOUR_CALM)
            self._over(stream, status_of_reset(ErrorCodes.ENHANCE_YOUR_CALM))

    def open_window(self, stream: Stream, size: int) -> None:
        """Let the peer send *size* more bytes on *stream*."""
        if not self._is_dead and self._machine.is_open(stream.id):
            self._machine.increment_flow_control_window(size, stream.id)

    # -- inside

    def _pump_stream(self, stream: Stream, budget: int) -> int:
        machine = self._machine
        if stream.is_over or not machine.is_open(stream.id):
            return 0
        if not self._is_client and not stream.answered and stream.queued:
            stream.answered = True
            machine.send_headers(stream.id, response_headers())
        sent = 0
        was_full = stream.queued >= self.limits.send_queue
        while stream.queued and sent < budget:
            room = machine.room(stream.id)
            if room <= 0:
                self._blocked[stream.id] = stream
                break
            parts, size = stream.cut(min(room, budget - sent))
            machine.send_parts(stream.id, parts, size)
            sent += size
        if sent and stream.on_sent is not None:
            stream.on_sent(sent)
        if was_full and stream.queued < self.limits.send_queue:
            self._events.append(Drained(stream))
        if stream.queued:
            if stream.id not in self._blocked:
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
            fields = response_headers() + fields
        self._machine.send_headers(stream.id, fields, end_stream=True)
        if not stream.input_ended:
            # The answer is whole: what the caller still sends has no reader (RFC 9113 8.1).
            self._reset(stream.id, ErrorCodes.NO_ERROR)
        self._forget(stream)

    def _add(self, stream_id: int) -> Stream:
        stream = Stream(self, stream_id)
        self.streams[stream_id] = stream
        self._windows += stream.window
        return stream

    def _forget(self, stream: Stream) -> None:
        if self.streams.pop(stream.id, None) is not None:
            self._windows -= stream.window
        self._dirty.pop(stream.id, None)
        self._blocked.pop(stream.id, None)
        stream.drop()
        self._machine.forget(stream.id)

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        if not self._is_dead and self._machine.is_open(stream_id):
            self._machine.reset_stream(stream_id, code)

    def _over(self, stream: Stream, status: Status) -> None:
        stream.status = status
        self._forget(stream)
        self._events.append(Finished(stream))

    def _dispatch(self, event: h2e.Event) -> None:
        dispatch = _DISPATCH.get(type(event))
        if dispatch is not None:
            dispatch(self, event)

    def _on_data(self, event: h2e.DataReceived) -> None:
        length = event.flow_controlled_length or 0
        data: bytes | Pieces = event.data or b""
        self._returned += length
        if not length and event.stream_ended is None:
            self._floods.count(Nuisance.EMPTY_DATA, self._now)
        stream = self.streams.get(event.stream_id)
        if stream is not None and length:
            parts = data.parts if isinstance(data, Pieces) else [data]
            stream.accept(parts, len(data), length - len(data))
            self._events.append(Readable(stream))

    def _on_request(self, event: h2e.RequestReceived) -> None:
        if len(self.streams) >= self.limits.max_streams or self.is_going_away:
            self._floods.count(Nuisance.RESET, self._now)
            self._reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
            self._machine.forget(event.stream_id)
            return
        stream = self._add(event.stream_id)
        try:
            head = parse_request(event.headers or ())
        except NotGrpc as refused:
            stream.answer_http(http_refusal(refused.http_status))
        except Malformed as refused:
            stream.finish(Status(Code.INVALID_ARGUMENT, refused.text))
        else:
            self._events.append(Opened(stream, head))

    def _on_response(self, event: h2e.ResponseReceived | h2e.TrailersReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None and self._is_client:
            stream.fields.update(event.headers or ())

    def _on_ended(self, event: h2e.StreamEnded) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        stream.input_ended = True
        self._events.append(Readable(stream))
        if self._is_client:
            self._reset(stream.id, ErrorCodes.NO_ERROR)
            self._over(stream, parse_trailers(stream.fields))

    def _on_reset(self, event: h2e.StreamReset) -> None:
        if not self._is_client:
            self._floods.count(Nuisance.RESET, self._now)
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._over(stream, status_of_reset(int(event.error_code or 0)))

    def _on_window(self, event: h2e.WindowUpdated) -> None:
        if event.stream_id:
            stream = self._blocked.pop(event.stream_id, None)
            if stream is not None:
                self._dirty[stream.id] = stream
        else:
            self._unblock()

    def _on_settings(self, _event: h2e.RemoteSettingsChanged) -> None:
        self._floods.count(Nuisance.SETTINGS, self._now)
        self._machine.bound_encoder()
        if not self._is_ready:
            self._is_ready = True
            self._events.append(Ready())
        self._unblock()

    def _on_ping(self, _event: h2e.PingReceived) -> None:
        self._floods.count(Nuisance.PING, self._now)

    def _on_pong(self, _event: h2e.PingAckReceived) -> None:
        self._events.append(Ponged())

    def _on_priority(self, _event: h2e.PriorityUpdated) -> None:
        self._floods.count(Nuisance.PRIORITY, self._now)

    def _on_goaway(self, event: h2e.ConnectionTerminated) -> None:
        self.is_going_away = True
        last = event.last_stream_id or 0
        self._events.append(GoingAway(last, int(event.error_code or 0)))
        if self._is_client:
            unserved = [stream for stream in self.streams.values() if stream.id > last]
            for stream in unserved:
                self._over(stream, Status(Code.UNAVAILABLE, "the server went away before the call"))

    def _unblock(self) -> None:
        self._dirty.update(self._blocked)
        self._blocked.clear()


_DISPATCH: dict[type[h2e.Event], Callable[[Connection, Any], None]] = {
    h2e.DataReceived: Connection._on_data,
    h2e.RequestReceived: Connection._on_request,
    h2e.ResponseReceived: Connection._on_response,
    h2e.TrailersReceived: Connection._on_response,
    h2e.StreamEnded: Connection._on_ended,
    h2e.StreamReset: Connection._on_reset,
    h2e.WindowUpdated: Connection._on_window,
    h2e.RemoteSettingsChanged: Connection._on_settings,
    h2e.PingReceived: Connection._on_ping,
    h2e.PingAckReceived: Connection._on_pong,
    h2e.PriorityUpdated: Connection._on_priority,
    h2e.ConnectionTerminated: Connection._on_goaway,
}
