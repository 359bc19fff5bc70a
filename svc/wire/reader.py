"""Splits received bytes into frames, and keeps long DATA frames in the pieces they arrived in.

``h2``'s own buffer copies each byte of a long frame three times before anybody sees it; here the
pieces are only put in a row.  A frame longer than we take is refused by its head: ``h2`` would
gather all of it first.  The rest is ``h2``'s own matter.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError, ProtocolError
from h2.frame_buffer import FrameBuffer
from hyperframe.frame import DataFrame, Frame

from svc.wire.limits import KIB

Piece = bytes | memoryview
_HEAD = 9
_HEAD_AT = Struct("!BHBBL").unpack_from
_KIND_AT = 3
DATA, HEADERS, _RESET, _SETTINGS, _PUSH, _PING, _WINDOW_UPDATE, _CONTINUATION = (
    0,
    1,
    3,
    4,
    5,
    6,
    8,
    9,
)
_HEADS = (HEADERS, _PUSH, _CONTINUATION)
_END_STREAM, _END_HEADERS = 0x01, 0x04
_PADDED = 0x08
RESET_BYTES, _PING_BYTES = 4, 8
_ACK = 0x01
_PLAIN = {DATA: 0, HEADERS: _END_HEADERS, _RESET: 0}
"""The flags of plain frames, beside the end of the stream."""

_BESIDE_BLOCK = 6 + 256
"""What a HEADERS frame may hold beside its part of the block: priority and padding."""

_LONGEST_SETTINGS = KIB
_LONGEST = 16 * KIB
"""Of any other frame: as long as everybody must take them."""

_EMPTY_FRAGMENTS = 4
"""Nobody who means well sends even one."""


class HeaderBlockTooLong(ProtocolError):
    """A header block is longer than its list could be."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


class SizeUpdates(ProtocolError):
    """A header block changes the size of its table again and again."""

    error_code = ErrorCodes.COMPRESSION_ERROR


class NoSettings(ProtocolError):
    """The peer's first frame is not its settings."""


class EmptyFragments(ProtocolError):
    """A header block comes in frames that bring nothing."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


def check_size_updates(block: bytes) -> None:
    """Refuse more changes of the table's size than a block may start with (RFC 7541 4.2).

    They count for nothing in the header list, and 16 KiB of them cost 30 ms.

    Raises:
        SizeUpdates: there are more than two.
    """
    at = 0
    for _ in range(3):
        if at >= len(block) or block[at] >> 5 != 1:
            return
        is_long = block[at] & 0x1F == 0x1F
        at += 1
        while is_long and at < len(block):
            is_long, at = block[at] >= 0x80, at + 1
    raise SizeUpdates("a header block changes the size of its table too often")


class Pieces:
    """The payload of one DATA frame, in order; as long as their sum."""

    __slots__ = ("_size", "parts")

    def __init__(self, parts: list[Piece], size: int) -> None:
        self.parts = parts
        self._size = size

    def __len__(self) -> int:
        return self._size


class FrameReader(FrameBuffer):
    """A frame buffer that gathers a long DATA frame instead of copying it."""

    def __init__(self, max_block: int, max_frame: int, *, server: bool) -> None:
        super().__init__(server=server)
        self.max_frame_size = max_frame
        self.fragments = 0
        self._max_block = max_block
        self._block = 0
        self._empty = 0
        self._frame: DataFrame | None = None
        self._parts: list[Piece] = []
        self._length = 0
        self._missing = 0
        self.has_dropped_all = True

    @property
    def has_frame(self) -> bool:
        """Whether a frame may be whole: one that is long is only known to be once it is taken."""
        if self._frame is not None:
            return not self._missing
        data = self._data
        return len(data) >= _HEAD and len(data) - _HEAD >= int.from_bytes(data[:_KIND_AT], "big")

    @property
    def is_clear(self) -> bool:
        """Whether all that was read has been taken, to the end of a frame and of its block."""
        return not (self._data or self._headers_buffer or self._frame is not None)

    def plain(self) -> tuple[int, int, bool, bytes] | None:
        """Kind, stream, whether it ends the stream, and payload of the next frame, if it is plain.

        That is DATA, HEADERS or RST_STREAM, whole, and with no other flag than that its block is
        whole too.  It stays; :meth:`drop` takes it.
        """
        data = self._data
        if len(data) < _HEAD or self._frame is not None or self._headers_buffer:
            return None
        high, low, kind, flags, stream_id = _HEAD_AT(data)
        length = high << 16 | low
        if _PLAIN.get(kind) != flags & ~_END_STREAM or length > len(data) - _HEAD:
            return None
        if length > self.max_frame_size:
            return None
        payload = bytes(memoryview(data)[_HEAD : _HEAD + length])
        return kind, stream_id & 0x7FFF_FFFF, flags & _END_STREAM != 0, payload

    def ping(self) -> tuple[bytes, bool] | None:
        """What the next frame asks or answers, and whether it answers, if it is a whole PING."""
        data = self._data
        if len(data) < _HEAD + _PING_BYTES or self._frame is not None or self._headers_buffer:
            return None
        high, low, kind, flags, stream_id = _HEAD_AT(data)
        if kind != _PING or flags & ~_ACK or stream_id & 0x7FFF_FFFF:
            return None
        if high << 16 | low != _PING_BYTES:
            return None
        return bytes(data[_HEAD : _HEAD + _PING_BYTES]), flags == _ACK

    def drop(self, length: int) -> None:
        """Take away the next frame, whose payload is of that length."""
        data = self._data
        del data[: _HEAD + length]
        self.has_dropped_all = not data

    def resets_next(self, stream_id: int) -> bool:
        """Whether the next frame is there whole, and is the peer's reset of this stream."""
        data = self._data
        if len(data) < _HEAD + RESET_BYTES or self._frame is not None or self._headers_buffer:
            return False
        high, low, kind, _, stream = _HEAD_AT(data)
        if kind != _RESET or high << 16 | low != RESET_BYTES:
            return False
        return bool(stream & 0x7FFF_FFFF == stream_id)

    @property
    def is_amid_head(self) -> bool:
        """Whether a header block, or a frame other than DATA, has begun and not ended."""
        if self._headers_buffer:
            return True
        return len(self._data) > _KIND_AT and self._data[_KIND_AT] != DATA

    def add_data(self, data: Any) -> None:
        """Take what was read."""
        if self._missing:
            view = memoryview(data)
            if len(view) <= self._missing:
                self._missing -= len(view)
                self._parts.append(data if isinstance(data, bytes) else view)
                return
            self._parts.append(view[: self._missing])
            data = view[self._missing :]
            self._missing = 0
        if self._preamble_len:
            super().add_data(data)
        else:
            self._data += data

    def __next__(self) -> Frame:
        """The next whole frame."""
        if self._frame is None:
            self._check_length()
            if not self._begins_long_data():
                self._clear_reserved()
                return super().__next__()
        if self._missing or self._frame is None:
            raise StopIteration
        frame, self._frame = self._frame, None
        # h2 asks for the length of a frame's data and hands it on, nothing else.
        frame.data = Pieces(self._parts, self._length)  # type: ignore[assignment]
        frame.body_len = self._length
        self._parts = []
        return frame

    def _clear_reserved(self) -> None:
        """Let the reserved bit of a window update mean nothing (RFC 9113 6.9)."""
        data = self._data
        if len(data) > _HEAD and data[_KIND_AT] == _WINDOW_UPDATE and data[:_KIND_AT] != b"\0\0\0":
            data[_HEAD] &= 0x7F

    def _check_length(self) -> None:
        """Refuse what is too long before it has come."""
        data = self._data
        if len(data) < _HEAD:
            return
        kind, length = data[_KIND_AT], int.from_bytes(data[:_KIND_AT], "big")
        if kind in _HEADS:
            if length > self._max_block - self._block + _BESIDE_BLOCK:
                raise HeaderBlockTooLong("the header block is longer than is accepted here")
            return
        longest = _LONGEST_SETTINGS if kind == _SETTINGS else _LONGEST
        if length > (self.max_frame_size if kind == DATA else longest):
            raise FrameTooLargeError("the frame is longer than is accepted here")

    def _update_header_buffer(self, f: Frame | None) -> Frame | None:
        whole = super()._update_header_buffer(f)
        if self._headers_buffer:
            added = len(self._headers_buffer[-1].data)
            self._block += added
            self._empty += not added
            if self._empty > _EMPTY_FRAGMENTS:
                raise EmptyFragments("too many empty frames in a header block")
            self.fragments = len(self._headers_buffer)
        elif whole is not None and self._block + self._empty:
            # The frame that has just ended a block: ``fragments`` is read with it.
            self._block = self._empty = 0
        else:
            self.fragments = 0
        return whole

    def _begins_long_data(self) -> bool:
        data = self._data
        if len(data) < _HEAD or data[3] != DATA or data[4] & _PADDED or self._headers_buffer:
            return False
        length = int.from_bytes(data[:3], "big")
        stream_id = int.from_bytes(data[5:9], "big") & 0x7FFF_FFFF
        here = len(data) - _HEAD
        if here >= length or not stream_id or length > self.max_frame_size:
            return False
        self._frame = DataFrame(stream_id, flags=["END_STREAM"] if data[4] & _END_STREAM else [])
        self._length = length
        self._missing = length - here
        self._parts = [bytes(data[_HEAD:])] if here else []
        data.clear()
        return True
