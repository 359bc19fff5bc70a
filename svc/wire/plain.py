"""Takes frames in which ``h2`` would find nothing new, without making a frame of them.

Most of what passes is DATA that is only counted, and heads of calls like those before.  The states
and windows are ``h2``'s, and become what it makes of them; whatever is not as usual is left to it.
"""

from __future__ import annotations

from typing import Any

from attrs import define
from h2.connection import AllowedStreamIDs, ConnectionState, H2Connection
from h2.events import Event
from h2.stream import H2Stream, StreamInputs, StreamState
from h2.utilities import HeaderValidationFlags

from svc.wire.heads import LONGEST, Fields, HeadDecoder
from svc.wire.reader import FrameReader

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
class PlainData:
    """Bytes of a stream, past ``h2``."""

    stream_id: int
    data: bytes


@define(eq=False)
class PlainPing:
    """A ping, past ``h2``; if it asks, its answer waits to be written."""

    payload: bytes
    is_answer: bool


_Plain = Event | PlainData | PlainPing


class PlainFrames(H2Connection):
    """See the module.

    Attributes:
        reader: Holds what was read.
    """

    reader: FrameReader
    decoder: HeadDecoder

    def take_plain(self) -> tuple[int, list[_Plain]] | None:
        """What the next frame costs and does, where ``h2`` would find nothing new in it.

        That is DATA within both windows, on a stream that awaits data of no named length; a list
        of fields that came before on this connection and was judged, where it may come; and PING.
        """
        plain = self.reader.plain()
        state = self.state_machine.state  # compared by identity: a plain enum's hash is slow
        if state is not _CLIENT_OPEN and state is not _SERVER_OPEN:
            return None
        if plain is None:
            return self._plain_ping()
        kind, stream_id, ends, length = plain
        if kind:
            events = self._known_head(stream_id, length, ends=ends)
            work = HEADERS_WORK
        else:
            events = self._plain_data(stream_id, length, ends=ends)
            work = 1
        if events is None:
            return None
        self.reader.drop(length)
        return work, events

    def _plain_ping(self) -> tuple[int, list[_Plain]] | None:
        ping = self.reader.ping()
        if ping is None:
            return None
        payload, is_answer = ping
        self.reader.drop(len(payload))
        if not is_answer:
            self._data_to_send += _PONG + payload
        return 1, [PlainPing(payload, is_answer)]

    def _plain_data(self, stream_id: int, length: int, *, ends: bool) -> list[_Plain] | None:
        stream = self.streams.get(stream_id)
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
        data = PlainData(stream_id, self.reader.payload(length))
        return [data, *transitions.process_input(StreamInputs.RECV_END_STREAM)] if ends else [data]

    def _known_head(self, stream_id: int, length: int, *, ends: bool) -> list[_Plain] | None:
        known = self.decoder.known(self.reader.payload(length)) if length <= LONGEST else None
        if known is None or known.names_length:
            return None
        stream = self.streams.get(stream_id)
        if stream is not None:
            return self._known_answer(stream, known, ends=ends)
        checked = known.checked.get(_REQUEST)
        is_next = stream_id % 2 and stream_id > self.highest_inbound_stream_id
        if checked is None or ends or not is_next or self.config.client_side:
            return None
        begun = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD).state_machine
        events: list[Any] = begun.process_input(StreamInputs.RECV_HEADERS)
        events[0].headers = checked
        return events

    def _known_answer(self, stream: H2Stream, known: Fields, *, ends: bool) -> list[_Plain] | None:
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
