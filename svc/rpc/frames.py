"""Encodes common ``gate.v1.StreamFrame`` messages by hand, without copying their payload.

The form is that of ``stream.proto``; whatever is not written the way we write it goes through the
generated module.
"""

from __future__ import annotations

from enum import Enum

from google.protobuf.message import DecodeError

from svc.errors import Malformed
from svc.model.session.edits import Edit
from svc.model.session.ending import (
    FRAME_UNTAGGED,
    SessionOver,
    known_decision,
    known_ending,
)
from svc.model.session.frames import TAG_BYTES, TaggedFrame, read_tagged
from svc.model.session.gated import MAX_NOTED, GateNote
from svc.model.session.ranges import RangeDecision
from svc.proto.gate.v1.stream_pb2 import (
    StreamDecision,
    StreamEdit,
    StreamEnd,
    StreamFrame,
    StreamNote,
)
from svc.wire.limits import KIB
from svc.wire.machine import Part

_OPEN_TAG = 0x0A
_DATA_TAG = 0x12
_DATA = bytes((_DATA_TAG,))
_END_TAG = 0x2A
_TAGGED_TAG = 0x42
_NOTE_TAG = 0x4A
_PASS_TO_TAG = 0x08
_DECISION_TAG = 0x12
_NUMBER_TAGS = (0x08, 0x10, 0x18, 0x20)
"""Of a decision, in their order: n, offset, size and whether it is allowed."""
EOF = b"\x18\x01"
"""The whole frame that says: I write no more."""
MOVED = b"\x20\x01"
"""The whole frame that says: what I write from here on takes the direct lane."""

MAX_DATA_HEAD = 6
"""Bytes before the data in its frame: a tag, and the length as a varint."""

_LONGEST_NOTE = 128 * KIB
MAX_OPENING = 160 * KIB
"""What opens a stream is no longer, nor is any frame of a gated session from one of its ends."""


class FrameKind(Enum):
    """Which arm of the frame is set; EMPTY for one of a later version."""

    OPEN = "open"
    DATA = "data"
    EOF = "eof"
    MOVED = "moved"
    END = "end"
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


def tagged_head(body: bytes) -> bytes:
    """The bytes before the tag and the body of a tagged frame in their message."""
    return _head(_TAGGED_TAG, TAG_BYTES + len(body))


def note_part(note: GateNote) -> bytes:
    """What a Proxy says, as the first part of a message; a frame may follow as it came.

    Most notes say only up to where bytes may be passed on, and what was decided of them.
    """
    said = (
        _said_shortly(note)
        or StreamNote(
            pass_to=note.pass_to,
            decisions=[
                StreamDecision(n=one.n, offset=one.offset, size=one.size, allowed=one.allowed)
                for one in note.decisions
            ],
            edits=[
                StreamEdit(offset=one.offset, size=one.size, name=one.name, values=one.values)
                for one in note.edits
            ],
            closes=note.closes,
        ).SerializeToString()
    )
    return _head(_NOTE_TAG, len(said)) + said


def _said_shortly(note: GateNote) -> bytes:
    """What the generated module would write, many times quicker; empty: it has to."""
    if not note.pass_to or note.edits or note.closes:
        return b""
    said = _head(_PASS_TO_TAG, note.pass_to)
    for one in note.decisions:
        decided = _decision(one)
        said += bytes((_DECISION_TAG, len(decided))) + decided  # its numbers are 32 bytes at most
    return said


def parse_gated(message: Part) -> tuple[GateNote | None, TaggedFrame | None]:
    """A message of a gated session, at one of its ends: a note, a frame, or a note and a frame.

    Raises:
        Malformed: ``frame_untagged``: it is anything else.
    """
    note, at, size = None, 0, len(message)
    if size and message[0] == _NOTE_TAG:
        length, at = _varint(message, 1)
        if not 0 <= length <= size - at:
            raise _untagged()
        note = _read_note(bytes(message[at : at + length]))
        at += length
        if at == size:
            return note, None
    return note, parse_tagged(message, at)


def parse_tagged(message: Part, start: int = 0) -> TaggedFrame:
    """A frame that one end of a gated session has sent, as its Proxy gets it; not verified.

    Args:
        start: It is the rest of the message from there.

    Raises:
        Malformed: ``frame_untagged``: it is anything else.
    """
    size = len(message)
    if size > start + 1 and message[start] == _TAGGED_TAG:
        length, at = message[start + 1], start + 2
        if length >= 0x80:
            length, at = _varint(message, start + 1)
        if length == size - at:
            return read_tagged(message, at)
    raise _untagged()


def is_end(message: Part) -> bool:
    """Whether this message says why its sender ends the stream."""
    return len(message) > 0 and message[0] == _END_TAG


def _read_note(data: bytes) -> GateNote:
    short = _read_shortly(data)
    if short is not None:
        return short
    if len(data) > _LONGEST_NOTE:
        raise Malformed("a note of a gated session is too long")
    try:
        said = StreamNote.FromString(data)
    except DecodeError:
        raise Malformed("a note of a gated session is not a StreamNote") from None
    if len(said.decisions) > MAX_NOTED or len(said.edits) > MAX_NOTED:
        raise Malformed("a note of a gated session says too much")
    return GateNote(
        pass_to=said.pass_to,
        closes=said.closes,
        decisions=tuple(
            RangeDecision(n=one.n, offset=one.offset, size=one.size, allowed=one.allowed)
            for one in said.decisions
        ),
        edits=tuple(
            Edit(offset=one.offset, size=one.size, name=one.name, values=dict(one.values))
            for one in said.edits
        ),
    )


def _read_shortly(data: bytes) -> GateNote | None:
    """A note as :func:`_said_shortly` writes one; None: the generated module has to read it."""
    if not data or data[0] != _PASS_TO_TAG:
        return None
    pass_to, at = _varint(data, 1)
    if not at:
        return None
    decisions: list[RangeDecision] = []
    while at < len(data):
        if data[at] != _DECISION_TAG or len(decisions) == MAX_NOTED:
            return None
        length, at = _varint(data, at + 1)
        if not at or at + length > len(data):
            return None
        decision = _read_decision(data[at : at + length])
        if decision is None:
            return None
        decisions.append(decision)
        at += length
    return GateNote(pass_to, tuple(decisions))


def _read_decision(data: bytes) -> RangeDecision | None:
    """One decision with all of its numbers, in their order."""
    n, offset, size, allowed = _read_numbers(data)
    if not 0 < size < 1 << 32 or not 0 <= allowed <= 1:
        return None
    return RangeDecision(n=n, offset=offset, size=size, allowed=allowed == 1)


def _untagged() -> Malformed:
    return Malformed("a message of a gated session has no tagged frame", reason=FRAME_UNTAGGED)


def data_head(size: int) -> bytes:
    """The bytes before *size* bytes of data in their frame."""
    return _head(_DATA_TAG, size)


def read_data(message: bytes) -> bytes:
    """The data of a frame that is written as we write it; empty for any other message."""
    if message[:1] == _DATA:
        length, at = _varint(message, 1)
        if length == len(message) - at:
            return message[at:]
    return b""


def parse_frame(message: Part) -> tuple[FrameKind, Part]:
    """The kind of a frame and, for OPEN, DATA and END, its payload (a view where possible).

    Raises:
        Malformed: where it is no StreamFrame.
    """
    size = len(message)
    if size > 1 and message[0] in (_OPEN_TAG, _DATA_TAG):
        kind = FrameKind.OPEN if message[0] == _OPEN_TAG else FrameKind.DATA
        length, at = int(message[1]), 2
        if length >= 0x80:
            length, at = _varint(message, 1)
        if length == size - at:
            return kind, memoryview(message)[at:]
    if message == EOF:
        return FrameKind.EOF, b""
    if message == MOVED:
        return FrameKind.MOVED, b""
    return _parse_slowly(message)


def _head(tag: int, size: int) -> bytes:
    """The tag of a field and a number, as protobuf writes them."""
    if size < 0x80:
        return bytes((tag, size))
    if size < 0x4000:
        return bytes((tag, size & 0x7F | 0x80, size >> 7))
    if size < 0x20_0000:
        return bytes((tag, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    return bytes((tag, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80)) + _rest(size >> 14)


def _rest(size: int) -> bytes:
    """What follows the first two groups of seven bits of a number."""
    rest = bytearray()
    while size > 0x7F:
        rest.append(size & 0x7F | 0x80)
        size >>= 7
    rest.append(size)
    return bytes(rest)


def _decision(one: RangeDecision) -> bytes:
    """Its fields, as protobuf writes them: one that is 0 is left out."""
    n, offset, size, allowed = _NUMBER_TAGS
    said = _head(n, one.n) if one.n else b""
    if one.offset:
        said += _head(offset, one.offset)
    if one.size:
        said += _head(size, one.size)
    return said + bytes((allowed, 1)) if one.allowed else said


def _read_numbers(data: bytes) -> list[int]:
    """What :func:`_decision` wrote; -1 in place of the last where it has written it otherwise."""
    values, last, place, shift = [0, 0, 0, 0], 0, -1, 0
    for byte in data:
        if place < 0:  # a tag, of a later field than the one before
            if byte not in _NUMBER_TAGS or byte <= last:
                return [0, 0, 0, -1]
            last, place, shift = byte, _NUMBER_TAGS.index(byte), 0
        else:
            values[place] |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                place = -1
            elif shift > 28:
                return [0, 0, 0, -1]
    return values if place < 0 else [0, 0, 0, -1]


def _varint(message: Part, start: int) -> tuple[int, int]:
    """A number, and where what follows it begins; -1 and 0 where there is none, or a long one."""
    value = shift = 0
    for byte in message[start : start + 5]:
        start += 1
        if byte < 0x80:
            return value | byte << shift, start
        value |= (byte & 0x7F) << shift
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
    return FrameKind.EMPTY, b""
