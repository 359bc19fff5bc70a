"""Encodes common ``gate.v1.StreamFrame`` messages by hand, without copying their payload.

The form is that of ``stream.proto``; whatever is not written the way we write it goes through the
generated module.
"""

from __future__ import annotations

from enum import Enum

from google.protobuf.message import DecodeError

from svc.errors import Malformed
from svc.model.session.edits import Edit
from svc.model.session.ending import SessionOver, known_decision, known_ending
from svc.proto.gate.v1.stream_pb2 import StreamEdit, StreamEnd, StreamFrame
from svc.wire.machine import Part

_OPEN_TAG = 0x0A
_DATA_TAG = 0x12
EOF = b"\x18\x01"
"""The whole frame that says: I write no more."""
MOVED = b"\x20\x01"
"""The whole frame that says: what I write from here on takes the direct lane."""


class FrameKind(Enum):
    """Which arm of the frame is set; EMPTY for one of a later version."""

    OPEN = "open"
    DATA = "data"
    EOF = "eof"
    MOVED = "moved"
    END = "end"
    EDIT = "edit"
    EMPTY = "empty"


def open_frame(payload: bytes) -> bytes:
    """The first message of a stream."""
    return _head(_OPEN_TAG, len(payload)) + payload


def data_frame(data: bytes) -> bytes:
    """A message of a stream that carries *data*."""
    return data_head(len(data)) + data


def end_frame(over: SessionOver) -> bytes:
    """The last message of a stream: why its sender ends it."""
    end = StreamEnd(reason=over.reason, decision_id=over.decision_id)
    return StreamFrame(end=end).SerializeToString()


def read_end(payload: Part) -> SessionOver:
    """What an ``end`` says: a word of ours, and a decision id of the right form, or neither."""
    try:
        end = StreamEnd.FromString(bytes(payload))
    except DecodeError:
        raise Malformed("the end of a byte stream is not a StreamEnd") from None
    return SessionOver(known_ending(end.reason), known_decision(end.decision_id))


def edit_frame(edit: Edit) -> bytes:
    """What a Proxy wants changed in bytes that follow."""
    wire_edit = StreamEdit(offset=edit.offset, size=edit.size, name=edit.name, values=edit.values)
    return StreamFrame(edit=wire_edit).SerializeToString()


def read_edit(payload: Part) -> Edit:
    """What an ``edit`` says; which edits there are is the receiver's to know."""
    try:
        wire_edit = StreamEdit.FromString(bytes(payload))
    except DecodeError:
        raise Malformed("the edit of a byte stream is not a StreamEdit") from None
    return Edit(
        offset=wire_edit.offset,
        size=wire_edit.size,
        name=wire_edit.name,
        values=dict(wire_edit.values),
    )


def data_head(size: int) -> bytes:
    """The bytes before *size* bytes of data in their frame."""
    return _head(_DATA_TAG, size)


def parse_frame(message: Part) -> tuple[FrameKind, Part]:
    """The kind of a frame and, for OPEN, DATA, END and EDIT, its payload (a view where possible).

    Raises:
        Malformed: where it is no StreamFrame.
    """
    size = len(message)
    if size > 1 and message[0] in (_OPEN_TAG, _DATA_TAG):
        kind = FrameKind.OPEN if message[0] == _OPEN_TAG else FrameKind.DATA
        length, at = _varint(message)
        if length == size - at:
            return kind, memoryview(message)[at:]
    if message == EOF:
        return FrameKind.EOF, b""
    if message == MOVED:
        return FrameKind.MOVED, b""
    return _parse_slowly(message)


def _head(tag: int, size: int) -> bytes:
    head = bytearray((tag,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def _varint(message: Part) -> tuple[int, int]:
    value = shift = 0
    for at in range(1, min(len(message), 6)):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    return -1, 0


def _parse_slowly(message: Part) -> tuple[FrameKind, Part]:
    try:
        frame = StreamFrame.FromString(bytes(message))
    except DecodeError:
        raise Malformed("a message of a byte stream is not a StreamFrame") from None
    arm = frame.WhichOneof("frame")
    if arm == "open":
        return FrameKind.OPEN, frame.open
    if arm == "data":
        return FrameKind.DATA, frame.data
    if arm == "eof" and frame.eof:
        return FrameKind.EOF, b""
    if arm == "moved" and frame.moved:
        return FrameKind.MOVED, b""
    if arm == "end":
        return FrameKind.END, frame.end.SerializeToString()
    if arm == "edit":
        return FrameKind.EDIT, frame.edit.SerializeToString()
    return FrameKind.EMPTY, b""
