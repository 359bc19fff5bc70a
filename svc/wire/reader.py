"""Cutting received bytes into frames, with long DATA frames kept in the pieces they came in.

``h2``'s own buffer copies each byte of a long frame three times before anybody sees it; here the
pieces are only put in a row.  A frame longer than we take is refused by its head: ``h2`` would
gather all of it first.  The rest is ``h2``'s own matter.
"""

from __future__ import annotations

from typing import Any

from h2.exceptions import FrameTooLargeError
from h2.frame_buffer import FrameBuffer
from hyperframe.frame import DataFrame, Frame

Piece = bytes | memoryview
_HEAD = 9
_DATA = 0
_END_STREAM = 0x01
_PADDED = 0x08
_CONTROL_BYTES = 64 * 1024
"""No other frame than DATA is longer, nor is a header block in all its frames."""


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

    def __init__(self, *, server: bool) -> None:
        super().__init__(server=server)
        self._frame: DataFrame | None = None
        self._parts: list[Piece] = []
        self._length = 0
        self._missing = 0

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
        super().add_data(data)

    def __next__(self) -> Frame:
        """The next whole frame."""
        if self._frame is None:
            self._check_length()
            if not self._begins_long_data():
                return super().__next__()
        if self._missing or self._frame is None:
            raise StopIteration
        frame, self._frame = self._frame, None
        # h2 asks for the length of a frame's data and hands it on, nothing else.
        frame.data = Pieces(self._parts, self._length)  # type: ignore[assignment]
        frame.body_len = self._length
        self._parts = []
        return frame

    def _check_length(self) -> None:
        """Refuse what is too long before it has come."""
        data = self._data
        if len(data) < _HEAD:
            return
        if data[3] == _DATA:
            limit = self.max_frame_size
        else:
            limit = _CONTROL_BYTES - sum(len(frame.data) for frame in self._headers_buffer)
        if int.from_bytes(data[:3], "big") > limit:
            raise FrameTooLargeError("the frame is longer than is taken here")

    def _begins_long_data(self) -> bool:
        data = self._data
        if len(data) < _HEAD or data[3] != _DATA or data[4] & _PADDED or self._headers_buffer:
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
