"""One HTTP/2 connection that carries gRPC calls: bytes in, events and parts out.

The owner calls :meth:`Connection.receive` with what it read, acts on the events, then writes
what :meth:`Connection.pump` gives, as often as its transport takes it.  The connection's own
window is given back on receipt, a stream's only by its reader (``streams``), so one reader that
stops never holds up another.  Every refusal of one stream leaves the others alone.

Frames are taken and judged one by one, a bounded amount of work at a time: a peer that sends more
than we can work off waits, and nobody beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from h2 import events as h2e
from h2.errors import ErrorCodes
from h2.exceptions import (
    DenialOfServiceError,
    FlowControlError,
    FrameTooLargeError,
    ProtocolError,
)
from hpack import HPACKError
from hyperframe.frame import (
    AltSvcFrame,
    DataFrame,
    ExtensionFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from svc.errors import Malformed, Unprocessed
from svc.wire.errors import WireError
from svc.wire.events import CallOpened, Event, GoingAway, Ponged, Readable, Ready
from svc.wire.floods import YOUNG_SECS, Nuisance
from svc.wire.headers import (
    MetadataValue,
    NotGrpc,
    http_refusal,
    parse_request,
    request_headers,
)
from svc.wire.heads import Fields
from svc.wire.limits import WireLimits
from svc.wire.plain import LateReset, PlainPing
from svc.wire.reader import EmptyFragments, HeaderBlockTooLong, NoSettings, Pieces
from svc.wire.sending import SendingHalf
from svc.wire.status import Code, Status, parse_trailers, status_of_reset
from svc.wire.streams import Stream

_LEAVING = b"svc-away"

_NUISANCES: dict[type[Frame], Nuisance] = {
    PingFrame: Nuisance.PING,
    SettingsFrame: Nuisance.SETTINGS,
    PriorityFrame: Nuisance.PRIORITY,
    WindowUpdateFrame: Nuisance.WINDOW_UPDATE,
    GoAwayFrame: Nuisance.GOAWAY,
    ExtensionFrame: Nuisance.UNKNOWN,
    AltSvcFrame: Nuisance.UNKNOWN,
}
REASONS: dict[type[ProtocolError], str] = {
    DenialOfServiceError: "header_list_too_long",
    HeaderBlockTooLong: "header_list_too_long",
    EmptyFragments: "continuation_flood",
    NoSettings: "no_settings",
    FrameTooLargeError: "frame_too_long",
    FlowControlError: "flow_control",
}


class Connection(SendingHalf):
    """The state of one connection, client or server side.

    Attributes:
        is_going_away: A server (the peer or we) has said that no further call begins.
        taken: How many frames have come.
        is_clear: Whether all that was received was taken then: nothing waits for its turn, and
            nothing for its end.
    """

    def __init__(
        self,
        limits: WireLimits,
        *,
        is_client: bool,
        on_work: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(limits, is_client=is_client, on_work=on_work)
        self.taken = 0
        self.is_clear = True
        self.is_going_away = False
        self._is_leaving = False
        self._returned = 0
        self._is_ready = False

    # -- receiving

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take what the transport read.

        No more than ``turn_work`` is done at a time; while :attr:`has_unread`, the owner reads
        nothing more, and calls this again with no bytes when others have had their turn.

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
            self._machine.feed(data)
            self._work()
        except ProtocolError as broken:
            reason = REASONS.get(type(broken), "protocol_error")
            is_hpack = reason == "protocol_error" and isinstance(broken.__cause__, HPACKError)
            code = ErrorCodes.COMPRESSION_ERROR if is_hpack else broken.error_code
            raise self._end(code, reason, type(broken).__name__) from broken
        except WireError as flood:
            raise self._end(ErrorCodes.ENHANCE_YOUR_CALM, flood.reason) from None
        if self._returned >= self.limits.connection_window // 4:
            self._machine.increment_flow_control_window(self._returned)
            self._returned = 0
        events, self.events = self.events, []
        return events

    def hold(self, data: bytes) -> None:
        """Keep *data* for the next :meth:`receive`: the transport had read it already."""
        if not self._is_dead and data:
            self._machine.feed(data)

    @property
    def has_unread(self) -> bool:
        """Whether received frames wait for their turn."""
        return not self._is_dead and self._machine.has_frame

    @property
    def is_amid_head(self) -> bool:
        """Whether the peer has begun a header block and owes its end."""
        return not self._is_dead and self._machine.is_amid_head

    def check_held(self) -> None:
        """For an owner that cannot write: end a peer that asks and does not read.

        Raises:
            WireError: with reason ``unread_answers``.
        """
        if self._machine.held_control > self.limits.held_control:
            self._is_dead = True
            raise WireError("the peer does not read its answers", reason="unread_answers")

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
        """Begin a call (client); past the peer's limit of streams it waits for its turn.

        Raises:
            Unprocessed: once the connection goes away.
            SvcError: ``EXHAUSTED`` where too many wait already.
            Malformed: for metadata that cannot travel.
        """
        if self._is_dead or self.is_going_away:
            raise Unprocessed("the connection accepts no further call", reason="going_away")
        fields = request_headers(
            method, scheme=scheme, authority=authority, timeout=timeout, metadata=metadata
        )
        stream = Stream(self, 0, self._now)
        if self._turns.waiting or not self._has_turn:
            self._turns.wait(stream, fields)
        else:
            self._begin(stream, fields)
        return stream

    def ping(self, payload: bytes) -> None:
        """Ask for an answer; :class:`Ponged` follows."""
        if not self._is_dead:
            self._machine.ping(payload)

    def go_away(self) -> None:
        """Tell the peer to begin no further call (server); what it has begun is served.

        The first of two notices: the second, :meth:`refuse_further`, follows by itself once the
        peer has answered the ping behind this one, because by then it has read this one and all
        calls that it began before have come.  Idempotent.
        """
        if not self._is_leaving and not self._is_dead:
            self._is_leaving = True
            self._machine.send_goaway()
            self._machine.ping(_LEAVING)

    def refuse_further(self) -> None:
        """Refuse every call that comes from now on; open ones go on.  Idempotent."""
        if not self.is_going_away and not self._is_dead:
            self.is_going_away = True
            self._machine.send_goaway(last_stream_id=self._machine.highest_inbound_stream_id)

    def terminate(self, code: ErrorCodes = ErrorCodes.NO_ERROR, why: str = "") -> None:
        """Say the last word: the connection is about to be closed by us.

        Args:
            why: A reason word for whoever debugs the peer.
        """
        if not self._is_dead:
            self._is_dead = True
            self._machine.terminate(code, why)

    # -- inside

    def _work(self) -> None:
        machine, left = self._machine, self.limits.turn_work
        reader = machine.reader
        clear = reader.is_clear
        while not clear and left > 0:
            plain = machine.take_plain() if self._is_ready else None
            events: Sequence[h2e.Event | PlainPing | LateReset]
            if plain is not None:
                self.taken += 1
                work, data, events = plain
                clear = reader.has_dropped_all
                if data is not None:
                    self._on_plain_data(*data)
            else:
                frame = machine.take_frame()
                if frame is None:
                    break
                self.taken += 1
                work, events = machine.work_of(frame), self._acted_on(frame)
                clear = reader.is_clear
            left -= work
            for event in events:
                dispatch = _DISPATCH.get(type(event))
                if dispatch is not None:
                    dispatch(self, event)
        self.is_clear = clear

    def _acted_on(self, frame: Frame) -> list[h2e.Event]:
        if not self._is_ready and type(frame) is not SettingsFrame:
            raise NoSettings("the peer did not send SETTINGS first")
        events = self._machine.act_on(frame)
        self._judge(frame, events)
        return events

    def _end(self, code: ErrorCodes | int, reason: str, error: str = "") -> WireError:
        self._is_dead = True
        self._machine.terminate(ErrorCodes(code), reason)
        details = {"error": error} if error else {}
        return WireError(f"the peer is cut off: {reason}", reason=reason, details=details)

    def _judge(self, frame: Frame, events: list[h2e.Event]) -> None:
        """Count a frame that brings nobody forward."""
        what = _NUISANCES.get(type(frame))
        if what is not None:
            if "ACK" in frame.flags:
                what = Nuisance.ACKNOWLEDGEMENT
            elif what is Nuisance.PING and not self._is_client:
                self._pinged()
            self._floods.count(what, self._now)
        elif events:
            return
        elif isinstance(frame, DataFrame | HeadersFrame):
            self._floods.count(Nuisance.CLOSED_STREAM, self._now)
        elif isinstance(frame, RstStreamFrame):
            self._on_late_reset(frame)

    def _on_late_reset(self, reset: LateReset | RstStreamFrame) -> None:
        if not self._machine.reset_by_peer(reset.stream_id):
            self._floods.count(Nuisance.CLOSED_STREAM, self._now)

    def _on_plain_data(self, stream_id: int, data: bytes) -> None:
        stream, size = self.streams.get(stream_id), len(data)
        self._returned += size
        if stream is not None and size:
            stream.accept((data,), size, 0)
            last = self.events[-1] if self.events else None  # as below
            if type(last) is not Readable or last.stream is not stream:
                self.events.append(Readable(stream))

    def _tell_readable(self, stream: Stream) -> None:
        """Once for all that follows one another: whoever is told takes whatever is there."""
        last = self.events[-1] if self.events else None
        if type(last) is not Readable or last.stream is not stream:
            self.events.append(Readable(stream))

    def _on_plain_ping(self, plain: PlainPing) -> None:
        if plain.is_answer:
            self._floods.count(Nuisance.ACKNOWLEDGEMENT, self._now)
            self._ponged(plain.payload)
            return
        if not self._is_client:
            self._pinged()
        self._floods.count(Nuisance.PING, self._now)

    def _on_data(self, event: h2e.DataReceived) -> None:
        length = event.flow_controlled_length or 0
        data: bytes | Pieces = event.data or b""
        self._returned += length
        if not len(data) and event.stream_ended is None:
            self._floods.count(Nuisance.EMPTY_DATA, self._now)
        stream = self.streams.get(event.stream_id)
        if stream is not None and length:
            parts = data.parts if isinstance(data, Pieces) else [data]
            stream.accept(parts, len(data), length - len(data))
            self._tell_readable(stream)

    def _on_request(self, event: h2e.RequestReceived) -> None:
        fields: Any = event.headers or []
        fields = fields if type(fields) is Fields else Fields(fields)
        size = fields.size
        is_full = (
            len(self.streams) >= self.limits.max_streams
            or self._heads + size > self.limits.held_heads
        )
        if is_full or self.is_going_away:
            self._floods.allowance.cut += 1
            self._floods.count(Nuisance.RESET, self._now)
            self._reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
            self._machine.forget(event.stream_id)
            return
        stream = self._add(
            Stream(connection=self, stream_id=0, began=self._now, head=size), event.stream_id
        )
        try:
            head = fields.head = fields.head or parse_request(fields)
        except NotGrpc as refused:
            stream.answer_http(http_refusal(refused.http_status))
        except Malformed as refused:
            stream.finish(Status(Code.INVALID_ARGUMENT, refused.text))
        else:
            stream.inbox.encoding = head.encoding
            self.events.append(CallOpened(stream, head))

    def _on_response(self, event: h2e.ResponseReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.headers = list(event.headers or ())

    def _on_trailers(self, event: h2e.TrailersReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None and self._is_client:
            stream.trailers = list(event.headers or ())

    def _on_informational(self, _event: h2e.InformationalResponseReceived) -> None:
        self._floods.count(Nuisance.INFORMATIONAL, self._now)

    def _on_ended(self, event: h2e.StreamEnded) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        stream.input_ended = True
        if not self._is_client:
            self._tell_readable(stream)
        else:
            # A server that waits for no more says so by itself, right behind its answer.
            if not self._machine.reader.resets_next(stream.id):
                self._reset(stream.id, ErrorCodes.NO_ERROR)
            self._over(stream, parse_trailers(dict([*stream.headers, *stream.trailers])))

    def _on_reset(self, event: h2e.StreamReset) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:
            if not event.remote_reset:
                # A malformed request: nobody was told of it.
                self._floods.count(Nuisance.RESET, self._now)
                self._machine.forget(event.stream_id)
            return
        is_young = self._now - stream.began < YOUNG_SECS
        if not self._is_client and is_young and not stream.answered:
            # Whoever of us reset it: the peer made it so, and waited for nothing.
            self._floods.count(Nuisance.RESET, self._now)
        if event.remote_reset:
            stream.input_ended = True
        code = int(event.error_code or 0)
        # RFC 9113 8.7; not believed of a call that was answered.
        stream.is_unprocessed = code == ErrorCodes.REFUSED_STREAM and not stream.headers
        self._over(stream, status_of_reset(code))

    def _on_window(self, event: h2e.WindowUpdated) -> None:
        if event.stream_id:
            stream = self.blocked.pop(event.stream_id, None)
            if stream is not None:
                self._dirty[stream.id] = stream
        else:
            self._unblock()

    def _on_settings(self, _event: h2e.RemoteSettingsChanged) -> None:
        if not self._is_ready:
            self._is_ready = True
            self.events.append(Ready())
        self._next_turns()
        self._unblock()

    def _on_pong(self, event: h2e.PingAckReceived) -> None:
        self._ponged(event.ping_data)

    def _ponged(self, payload: bytes | None) -> None:
        if payload == _LEAVING and self._is_leaving:
            self.refuse_further()
        self.events.append(Ponged())

    def _on_goaway(self, event: h2e.ConnectionTerminated) -> None:
        last = event.last_stream_id or 0
        words = event.additional_data or b""
        self.events.append(GoingAway(last, int(event.error_code or 0), words))
        if not self._is_client:
            return  # about streams of ours, of which there are none; what is begun is served
        self.is_going_away = True
        # Those that wait first: none of them may begin when another one ends.
        for stream in [*self._turns.waiting, *self.streams.values()]:
            if not stream.id or stream.id > last:
                stream.is_unprocessed = True
                self._over(
                    stream,
                    Status(Code.UNAVAILABLE, "the server closed the connection before the call"),
                )


_DISPATCH: dict[type[h2e.Event | PlainPing | LateReset], Callable[[Connection, Any], None]] = {
    PlainPing: Connection._on_plain_ping,
    LateReset: Connection._on_late_reset,
    h2e.DataReceived: Connection._on_data,
    h2e.RequestReceived: Connection._on_request,
    h2e.ResponseReceived: Connection._on_response,
    h2e.InformationalResponseReceived: Connection._on_informational,
    h2e.TrailersReceived: Connection._on_trailers,
    h2e.StreamEnded: Connection._on_ended,
    h2e.StreamReset: Connection._on_reset,
    h2e.WindowUpdated: Connection._on_window,
    h2e.RemoteSettingsChanged: Connection._on_settings,
    h2e.PingAckReceived: Connection._on_pong,
    h2e.ConnectionTerminated: Connection._on_goaway,
}
