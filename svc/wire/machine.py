"""The HTTP/2 state machine: ``h2`` with the few changes that a gateway needs.

Changed, each for a reason that was measured or found:

- GOAWAY does not close the machine, in either direction: streams that are open go on (RFC 9113
  6.8); ``h2`` alone refuses every frame after one.
- The count of open streams is kept by the connection above; ``h2`` alone walks all streams for
  each new one, and ends the connection for one stream too many.
- DATA is received in the pieces it came in (``reader``) and not traced.  Where ``h2`` would only
  count it, or has judged the same fields before, no frame is made of it (``plain``); nor of the
  DATA that we send.
- DATA is written as header and parts, never joined here, because its bytes would be copied four
  times on their way out.
- Frames are taken one by one, so that a peer's flood is judged frame by frame and never holds the
  reactor; ``h2`` alone works off whatever has been read.
- What a peer can make us remember is bounded: settings that nobody defined are forgotten (``h2``
  alone keeps each of 65,536), and so are all but the latest of closed streams.
- What it keeps for a connection that is idle is small (``lean``).
- A malformed message ends its stream, not the connection (``messages``).
- What comes late on a stream that we have reset is thrown away; ``h2`` alone answers each frame.
- Inbound validation stays on; outbound validation is off, our own fields are made by ``headers``.

Nothing outside this module, ``plain`` and ``lean`` touches a private name of ``h2``.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from h2.connection import (
    AllowedStreamIDs,
    ConnectionInputs,
    ConnectionState,
    H2Connection,
    _decode_headers,
)
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event, StreamReset
from h2.exceptions import ProtocolError, StreamClosedError, StreamIDTooLowError
from h2.settings import SettingCodes
from h2.stream import H2Stream, StreamClosedBy, StreamInputs, StreamState
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from svc.wire.headers import Headers
from svc.wire.heads import HeadDecoder, HeadEncoder
from svc.wire.lean import ClosedStreams, Dispatch, LeanSettings, configuration
from svc.wire.limits import WireLimits
from svc.wire.messages import MalformedMessage, MessageStream
from svc.wire.plain import HEADERS_WORK, PlainFrames
from svc.wire.reader import RESET_BYTES, FrameReader, check_size_updates

_HEADER = Struct("!HBBBL")
_NO_LIMIT = 1 << 30
_FIRST_WINDOW = 65_535
_LAST_STREAM = (1 << 31) - 1
_HEADER_TABLE = 4096
_FEWEST_CLOSED = 1024
_END_STREAM, _END_HEADERS = 0x1, 0x4
_FIELD = 32
_SURELY_ONE_FRAME = 4096
"""A list of fields, counted as HTTP/2 counts, whose block fits any peer's longest frame (16 KiB at
least), although the code for rare bytes is almost four times as long as they are."""

_CLIENT_OPEN, _SERVER_OPEN = ConnectionState.CLIENT_OPEN, ConnectionState.SERVER_OPEN
# In these, DATA changes no state (h2.stream, transitions of OPEN and the half-closed ones).
_SENDING = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE})
_BYTES_A_WORK = 128
_STREAMS_A_WORK = 32
_SETTINGS = frozenset(int(code) for code in SettingCodes)

_METHOD = b"POST"

Part = bytes | bytearray | memoryview


def _size(fields: Headers) -> int:
    size = 0
    for name, value in fields:
        size += len(name) + len(value) + _FIELD
    return size


def _settings(limits: WireLimits, *, is_client: bool) -> LeanSettings:
    values = {
        SettingCodes.INITIAL_WINDOW_SIZE: limits.small_window,
        SettingCodes.MAX_FRAME_SIZE: limits.max_frame,
        SettingCodes.MAX_CONCURRENT_STREAMS: limits.max_streams,
        SettingCodes.MAX_HEADER_LIST_SIZE: limits.max_header_list,
    }
    if is_client:
        values[SettingCodes.ENABLE_PUSH] = 0
    return LeanSettings(client=is_client, initial_values=values)


def _added_window(limits: WireLimits) -> int:
    return limits.connection_window - _FIRST_WINDOW


@lru_cache(maxsize=16)
def _first_words(limits: WireLimits, is_client: bool) -> bytes:
    """What every connection with these limits says first; a process has a few such kinds."""
    connection = H2Connection(configuration(client=is_client))
    connection.local_settings = _settings(limits, is_client=is_client)
    connection.initiate_connection()
    connection.increment_flow_control_window(_added_window(limits))
    return connection.data_to_send()


class Machine(PlainFrames):
    """One connection's HTTP/2 state.  Its output is a list of parts, in order.

    Attributes:
        reader: Holds what was read.
        feed: Keeps what was read, for :meth:`take_frame`; raises ProtocolError where it does not
            begin as HTTP/2 does.
        control: The control frames waiting to be written; only to be looked at.
        peer_max_streams: How many calls the peer lets us have open.
    """

    remote_settings: LeanSettings

    def __init__(self, limits: WireLimits, *, is_client: bool) -> None:
        super().__init__(configuration(client=is_client))
        self.is_client = is_client
        self._frame_dispatch_table = Dispatch(self)  # type: ignore[assignment]
        self.encoder, self.decoder = HeadEncoder(), HeadDecoder()
        self.local_settings = _settings(limits, is_client=is_client)
        self.remote_settings = LeanSettings(client=not is_client)
        self._windows = self._first_windows()
        self.peer_max_streams = self._peer_limit()
        # h2 takes these from an acknowledgement that changes them; ours changes nothing.
        self.max_inbound_frame_size = limits.max_frame
        self.decoder.max_header_list_size = limits.max_header_list
        self.reader = FrameReader(limits.max_header_list, limits.max_frame, server=not is_client)
        self.incoming_buffer = self.reader
        self.feed = self.reader.add_data
        # No more than late frames can concern.
        self._closed_streams = ClosedStreams(max(_FEWEST_CLOSED, 2 * limits.max_streams))
        self.control = self._data_to_send  # always the same object
        self._parts: list[Part] = []
        # As initiate_connection() and increment_flow_control_window() do, with the same bytes.
        self.state_machine.process_input(ConnectionInputs.SEND_SETTINGS)
        self._inbound_flow_control_window_manager.window_opened(_added_window(limits))
        self._data_to_send += _first_words(limits, is_client)

    @property
    def open_inbound_streams(self) -> int:
        """Always 0: the connection above counts, and refuses one stream instead of all."""
        return 0

    @property
    def open_outbound_streams(self) -> int:
        """Always 0, as above."""
        return 0

    @property
    def held_control(self) -> int:
        """Bytes of control frames waiting to be written."""
        return len(self.control)

    def take_frame(self) -> Frame | None:
        """The next whole frame of what was read.

        Raises:
            ProtocolError: it is none, or one that is not taken.
        """
        try:
            return next(self.reader, None)
        except HyperframeError as broken:
            raise ProtocolError(str(broken)) from broken

    def act_on(self, frame: Frame) -> list[Event]:
        """Do what a frame asks; its answers wait to be written.

        Raises:
            ProtocolError: the peer may not send it, or not now.
        """
        try:
            return self._receive_frame(frame)
        except HyperframeError as broken:
            raise ProtocolError(str(broken)) from broken

    def work_of(self, frame: Frame) -> int:
        """What a frame costs, in small frames."""
        if isinstance(frame, HeadersFrame):
            return HEADERS_WORK + self.reader.fragments + len(frame.data) // _BYTES_A_WORK
        if isinstance(frame, SettingsFrame):
            # Each may change the window of every stream.
            return 1 + frame.body_len // _BYTES_A_WORK + len(self.streams) // _STREAMS_A_WORK
        return 1

    @property
    def has_frame(self) -> bool:
        """Whether :meth:`take_frame` may give one without more bytes; it may turn out not to."""
        return self.reader.has_frame

    @property
    def is_amid_head(self) -> bool:
        """Whether a header block, or a frame other than DATA, has begun and not ended."""
        return self.reader.is_amid_head

    def reset_by_peer(self, stream_id: int) -> bool:
        """Note that the peer reset a closed stream; False if it had done so before."""
        was = self._closed_streams.get(stream_id)
        if was in (None, StreamClosedBy.RECV_RST_STREAM):
            return False
        self._closed_streams[stream_id] = StreamClosedBy.RECV_RST_STREAM
        return True

    def is_open(self, stream_id: int) -> bool:
        """Whether the stream may still send or receive."""
        stream = self.streams.get(stream_id)
        return stream is not None and stream.state_machine.state is not StreamState.CLOSED

    def room(self, stream_id: int) -> int | None:
        """How many bytes of DATA the peer takes on this stream now, in one frame; None: it is over.

        A window can be less than nothing.
        """
        stream = self.streams.get(stream_id)
        if stream is None or stream.state_machine.state is StreamState.CLOSED:
            return None
        return min(
            self.outbound_flow_control_window,
            stream.outbound_flow_control_window,
            self.max_outbound_frame_size,
        )

    def send_parts(
        self, stream_id: int, parts: list[Part], size: int, *, ends: bool = False
    ) -> None:
        """Write one DATA frame of *parts*, *size* bytes; the caller has asked :meth:`room`.

        Args:
            ends: Whether it is the last of our half.
        """
        stream = self.streams[stream_id]
        state = self.state_machine.state
        is_open = state is _CLIENT_OPEN or state is _SERVER_OPEN
        if (
            not is_open or stream.state_machine.state not in _SENDING
        ):  # h2 says why not; where it may, its states stay as they are.
            self.state_machine.process_input(ConnectionInputs.SEND_DATA)
            stream.state_machine.process_input(StreamInputs.SEND_DATA)
        stream.outbound_flow_control_window -= size
        self.outbound_flow_control_window -= size
        if self.control:
            self._parts.append(bytes(self.control))
            self.control.clear()
        flags = 0
        if ends:
            stream.state_machine.process_input(StreamInputs.SEND_END_STREAM)
            flags = _END_STREAM
        self._parts.append(_HEADER.pack(size >> 8, size & 0xFF, 0, flags, stream_id))
        self._parts.extend(parts)

    def request(self, stream_id: int, fields: Headers) -> None:
        """Begin a call (client): what ``send_headers`` does, for *fields* of our own."""
        if _size(fields) > _SURELY_ONE_FRAME:
            self.send_headers(stream_id, fields)
            return
        stream = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD)
        stream.state_machine.process_input(StreamInputs.SEND_HEADERS)
        stream.request_method = _METHOD
        self._send_block(stream_id, fields, _END_HEADERS)

    def respond(self, stream_id: int, fields: Headers, *, end_stream: bool = False) -> None:
        """Begin or end an answer (server): what ``send_headers`` does, for *fields* of our own.

        Neither an informational answer nor a field that must not be indexed is among them.
        """
        if _size(fields) > _SURELY_ONE_FRAME:
            self.send_headers(stream_id, fields, end_stream=end_stream)
            return
        state = self.streams[stream_id].state_machine
        state.process_input(StreamInputs.SEND_HEADERS)
        flags = _END_HEADERS
        if end_stream:
            state.process_input(StreamInputs.SEND_END_STREAM)
            flags |= _END_STREAM
        self._send_block(stream_id, fields, flags)

    def _send_block(self, stream_id: int, fields: Headers, flags: int) -> None:
        state = self.state_machine.state
        if state is not _CLIENT_OPEN and state is not _SERVER_OPEN:
            # h2 says why not; where it may, the state stays as it is.
            self.state_machine.process_input(ConnectionInputs.SEND_HEADERS)
        block = self.encoder.encode(fields)
        self._data_to_send += _HEADER.pack(
            len(block) >> 8, len(block) & 0xFF, HeadersFrame.type, flags, stream_id
        )
        self._data_to_send += block

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream that is open: what ``reset_stream`` does."""
        self.state_machine.process_input(ConnectionInputs.SEND_RST_STREAM)
        self.streams[stream_id].state_machine.process_input(StreamInputs.SEND_RST_STREAM)
        self._data_to_send += _HEADER.pack(0, RESET_BYTES, RstStreamFrame.type, 0, stream_id)
        self._data_to_send += code.to_bytes(RESET_BYTES, "big")

    def send_goaway(self, *, last_stream_id: int | None = None) -> None:
        """Tell the peer to open no further streams; open ones go on.

        Args:
            last_stream_id: The last stream that is served; None where the peer's next streams are
                still taken (the first of two notices).
        """
        frame = GoAwayFrame(0)
        frame.last_stream_id = _LAST_STREAM if last_stream_id is None else last_stream_id
        self._data_to_send += frame.serialize()

    def terminate(self, code: ErrorCodes, why: str = "") -> None:
        """Write a GOAWAY that ends the connection; *why* helps to debug the peer."""
        frame = GoAwayFrame(0)
        frame.last_stream_id = self.highest_inbound_stream_id
        frame.error_code = code
        frame.additional_data = why.encode("ascii")
        self._data_to_send += frame.serialize()

    def forget(self, stream_id: int) -> None:
        """Drop a closed stream, keeping what tells late frames from wrong ones."""
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            how = stream.state_machine.stream_closed_by
            self._closed_streams[stream_id] = how or StreamClosedBy.SEND_RST_STREAM

    def take_parts(self) -> list[Part]:
        """Everything to be written, in order; it is handed over."""
        if self.control:
            self._parts.append(bytes(self.control))
            self.control.clear()
        parts, self._parts = self._parts, []
        return parts

    def _receive_frame(self, frame: Frame) -> list[Event]:
        try:
            if type(frame) is not DataFrame:
                return list(super()._receive_frame(frame))
            # As h2 does for DATA, without its trace line, which prints each frame in hexadecimal.
            frames, events = self._receive_data_frame(frame)
        except MalformedMessage:
            if self.config.client_side and not self._stream_id_is_outbound(frame.stream_id):
                raise  # no server begins a stream here
            return self._reset_malformed(frame)
        self._prepare_for_sending(frames)
        return events

    def _reset_malformed(self, frame: Frame) -> list[Event]:
        """End the stream of a malformed message; nothing of it was told to anybody."""
        self.reset_stream(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)
        if isinstance(frame, DataFrame):
            # Taken from the connection's window already, and nobody's to give back.
            self._give_back(frame.flow_controlled_length)
        code = ErrorCodes.PROTOCOL_ERROR
        return [StreamReset(stream_id=frame.stream_id, error_code=code, remote_reset=False)]

    def _give_back(self, size: int) -> None:
        increment = self._inbound_flow_control_window_manager.process_bytes(size)
        if increment:
            frame = WindowUpdateFrame(0)
            frame.window_increment = increment
            self._prepare_for_sending([frame])

    def _was_reset_by_us(self, stream_id: int) -> bool:
        return self._stream_closed_by(stream_id) is StreamClosedBy.SEND_RST_STREAM

    def _handle_data_on_closed_stream(
        self, events: list[Event], exc: StreamClosedError, frame: DataFrame
    ) -> tuple[list[Frame], list[Event]]:
        frames, events = super()._handle_data_on_closed_stream(events, exc, frame)
        if self._was_reset_by_us(frame.stream_id):
            frames = [one for one in frames if type(one) is not RstStreamFrame]
        return frames, events

    def _begin_new_stream(self, stream_id: int, allowed_ids: AllowedStreamIDs) -> H2Stream:
        """As in h2, for streams of ours."""
        outbound = stream_id % 2 == self.is_client
        highest = self.highest_outbound_stream_id if outbound else self.highest_inbound_stream_id
        if stream_id <= highest:
            raise StreamIDTooLowError(stream_id, highest)
        if stream_id % 2 != int(allowed_ids):
            raise ProtocolError("Invalid stream ID for peer.")
        stream = MessageStream(
            stream_id,
            config=self.config,
            inbound_window_size=self._windows[0],
            outbound_window_size=self._windows[1],
        )
        stream.max_outbound_frame_size = self.max_outbound_frame_size
        self.streams[stream_id] = stream
        if outbound:
            self.highest_outbound_stream_id = stream_id
        else:
            self.highest_inbound_stream_id = stream_id
        return stream

    def _receive_headers_frame(self, frame: HeadersFrame) -> tuple[list[Frame], list[Event]]:
        check_size_updates(frame.data)
        if self._was_reset_by_us(frame.stream_id):
            # Late: its fields count for the compression, and for nothing else.
            _decode_headers(self.decoder, frame.data)
            return [], []
        return super()._receive_headers_frame(frame)

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Frame], list[Event]]:
        unknown = [code for code in frame.settings if code not in _SETTINGS]
        for code in unknown:
            del frame.settings[code]
        answer = super()._receive_settings_frame(frame)
        self._windows = self._first_windows()
        self.peer_max_streams = self._peer_limit()
        # Small, however large a table of our headers the peer offers to keep.
        if self.encoder.header_table_size > _HEADER_TABLE:
            self.encoder.header_table_size = _HEADER_TABLE
        return answer

    def _peer_limit(self) -> int:
        said = self.remote_settings.most_streams
        return _NO_LIMIT if said is None else min(said, _NO_LIMIT)

    def _first_windows(self) -> tuple[int, int]:
        """What a stream that begins may have under way, to us and to the peer."""
        local, remote = self.local_settings, self.remote_settings
        return local.initial_window_size, remote.initial_window_size

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        event = ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        event.additional_data = frame.additional_data or None
        return [], [event]
