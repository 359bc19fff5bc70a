"""Takes frames in which ``h2`` would find nothing new, without making a frame of them.

Most of what passes is DATA that is only counted, and heads of calls like those before.  The states
and windows are ``h2``'s, and become what it makes of them; whatever is not as usual is left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define
from h2.connection import AllowedStreamIDs, ConnectionState, H2Connection
from h2.events import Event
from h2.stream import H2Stream, StreamInputs, StreamState
from h2.utilities import HeaderValidationFlags

from svc.wire.heads import LONGEST, Fields, HeadDecoder
from svc.wire.reader import DATA, HEADERS, RESET_BYTES, FrameReader

_PONG = b"\0\0\x08\x06\x01\0\0\0\0"
"""The head of an answer to a ping: 8 bytes, PING, ACK, of the connection (RFC 9113 6.7)."""

HEADERS_WORK = 8
"""What HEADERS cost, in small frames."""

_CLIENT_OPEN, _SERVER_OPEN = ConnectionState.CLIENT_OPEN, ConnectionState.SERVER_OPEN
# In these, DATA changes no state (h2.stream, transitions of OPEN and the half-closed ones).
_RECEIVING = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL})
_REQUEST = HeaderValidationFlags(
    is_client=False, is_trailer=False, is_response_header=False, is_push_promise=False
)
_ANSWER = _REQUEST._replace(is_client=True, is_response_header=True)
_TRAILERS = _REQUEST._replace(is_client=True, is_trailer=True)


@define(eq=False)
class PlainPing:
    """A ping, past ``h2``; if it asks, its answer waits to be written."""

    payload: bytes
    is_answer: bool


@define(eq=False)
class LateReset:
    """A reset of a stream that is over here, past ``h2``."""

    stream_id: int


Taken = tuple[int, tuple[int, bytes] | None, Sequence[Event | PlainPing | LateReset]]
"""What a frame costs in small frames; the bytes that it brings, and to which stream; what else it
does, after that."""

_NOTHING: tuple[Event, ...] = ()


class PlainFrames(H2Connection):
    """See the module.

    Attributes:
        reader: Holds what was read.
    """

    reader: FrameReader
    decoder: HeadDecoder
    is_client: bool

    def take_plain(self) -> Taken | None:
        """What the next frame costs and does, where ``h2`` would find nothing new in it.

        That is DATA within both windows, on a stream that awaits data of no named length; a list
        of fields that came before on this connection and was judged, where it may come; a reset of
        a stream that is over; and PING.
        """
        plain = self.reader.plain()
        state = self.state_machine.state  # compared by identity: a plain enum's hash is slow
        if state is not _CLIENT_OPEN and state is not _SERVER_OPEN:
            return None
        if plain is None:
            return self._plain_ping()
        kind, stream_id, ends, payload = plain
        taken: Taken | None
        if kind == DATA:
            taken = self._plain_data(stream_id, payload, ends=ends)
        elif kind == HEADERS:
            events = self._known_head(stream_id, payload, ends=ends)
            taken = None if events is None else (HEADERS_WORK, None, events)
        else:
            is_late = (
                stream_id not in self.streams and stream_id > 0 and len(payload) == RESET_BYTES
            )
            taken = (1, None, [LateReset(stream_id)]) if is_late else None
        if taken is not None:
            self.reader.drop(len(payload))
        return taken

    def _plain_ping(self) -> Taken | None:
        ping = self.reader.ping()
        if ping is None:
            return None
        payload, is_answer = ping
        self.reader.drop(len(payload))
        if not is_answer:
            self._data_to_send += _PONG + payload
        return 1, None, [PlainPing(payload, is_answer)]

    def _plain_data(self, stream_id: int, data: bytes, *, ends: bool) -> Taken | None:
        stream, length = self.streams.get(stream_id), len(data)
        if stream is None or stream._expected_content_length is not None or not (length or ends):
            return None
        transitions = stream.state_machine
        if transitions.state not in _RECEIVING or not transitions.headers_received:
            return None
        window = stream._inbound_window_manager
        shared = self._inbound_flow_control_window_manager
        if length > window.current_window_size or length > shared.current_window_size:
            return None
        window.current_window_size -= length
        shared.current_window_size -= length
        ended = transitions.process_input(StreamInputs.RECV_END_STREAM) if ends else _NOTHING
        return 1, (stream_id, data), ended

    def _known_head(self, stream_id: int, block: bytes, *, ends: bool) -> list[Event] | None:
        known = self.decoder.known(block) if len(block) <= LONGEST else None
        if known is None or known.names_length:
            return None
        stream = self.streams.get(stream_id)
        if stream is not None:
            return self._known_answer(stream, known, ends=ends)
        checked = known.checked.get(_REQUEST)
        is_next = stream_id % 2 and stream_id > self.highest_inbound_stream_id
        if checked is None or ends or not is_next or self.is_client:
            return None
        begun = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD).state_machine
        events: list[Any] = begun.process_input(StreamInputs.RECV_HEADERS)
        events[0].headers = checked
        return events

    def _known_answer(self, stream: H2Stream, known: Fields, *, ends: bool) -> list[Event] | None:
        """Of a call that we made: what its answer begins with, or what ends it."""
        state = stream.state_machine
        is_trailer = bool(state.headers_received)
        checked = known.checked.get(_TRAILERS if is_trailer else _ANSWER)
        if checked is None or ends is not is_trailer or known.is_interim:
            return None
        if state.state not in _RECEIVING or stream._expected_content_length is not None:
            return None
        events: list[Any] = state.process_input(StreamInputs.RECV_HEADERS)
        events[0].headers = checked
        if ends:
            events += state.process_input(StreamInputs.RECV_END_STREAM)
        return events
