r"""Frames of a gated session, which its Proxy reads and cannot write (rule R24, ADR 35).

Pure.  The two ends of the session share a key for each direction.  A frame is::

    tag (16) ‖ kind (1) ‖ seq (8) ‖ offset (8) ‖ data

with big-endian numbers.  The tag is AES-256-GMAC over all that follows it.  Its nonce is the
class of the frame (4 bytes) and seq (8).  Data and the end of writing are *ordered*: their seq
counts from 0, and offset is that of their first byte.  A heartbeat and a cancel are *urgent*: they
have a seq of their own, because they overtake data that waits at the gate.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from hashlib import sha256

from attrs import define, field
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from svc.errors import Malformed
from svc.model.session.ending import FRAME_ALTERED, FRAME_ORDER, FRAME_UNTAGGED

MAX_FRAME_DATA = 64 * 1024
"""Data of one frame: its receiver holds no more than one frame that is not passed on whole."""

MAX_FRAMES_HELD = 4096
"""Frames of one direction that may wait at once, however short they are."""

TAG_BYTES = 16
HEAD_BYTES = TAG_BYTES + 17

_HEAD = struct.Struct(">BQQ")
_TAGGED = struct.Struct(">16sBQQ")
_NONCE = struct.Struct(">IQ")
_MARK = struct.Struct(">Q16s")
_TAGS = b"svc-frame-tags-v1\0"
_KINDS = 4

Bytes = bytes | memoryview


class TaggedKind(IntEnum):
    """What a frame is; the numbers are part of what is tagged."""

    DATA = 0
    EOF = 1
    HEARTBEAT = 2
    CANCEL = 3

    @property
    def is_urgent(self) -> bool:
        """Whether it overtakes data that waits."""
        return self >= TaggedKind.HEARTBEAT


_BY_NUMBER = tuple(TaggedKind)
_EOF, _HEARTBEAT = TaggedKind.EOF, TaggedKind.HEARTBEAT
_COPIED_BYTES = 4096
"""Shorter data is cheaper to copy than to view."""


@define(eq=False)
class TaggedFrame:
    """A frame as it came; nothing of it is verified.

    Attributes:
        body: What is tagged: the head without its tag, and the data.
        size: How many bytes of data it carries.
    """

    kind: TaggedKind
    seq: int
    offset: int
    tag: bytes
    body: Bytes = field(repr=False)
    size: int

    @property
    def data(self) -> Bytes:
        """The bytes that it carries."""
        return self.body[HEAD_BYTES - TAG_BYTES :]


def read_tagged(payload: Bytes | bytearray, at: int = 0) -> TaggedFrame:
    """A frame from its bytes, the first of which is at *at*.

    Raises:
        Malformed: they are none, or it is longer than a frame may be.
    """
    size = len(payload) - at - HEAD_BYTES
    if not 0 <= size <= MAX_FRAME_DATA:
        raise Malformed("a frame of a gated session has no tag", reason=FRAME_UNTAGGED)
    tag, kind, seq, offset = _TAGGED.unpack_from(payload, at)
    if kind >= _KINDS or (size > 0) is not (kind == 0):
        raise Malformed("a frame of a gated session is of no known kind", reason=FRAME_UNTAGGED)
    if size < _COPIED_BYTES:
        body: Bytes = bytes(payload[at + TAG_BYTES :])
    else:
        body = memoryview(payload)[at + TAG_BYTES :]
    return TaggedFrame(kind=_BY_NUMBER[kind], seq=seq, offset=offset, tag=tag, body=body, size=size)


class FrameTagger:
    """Makes the frames of one direction.

    Args:
        key: 32 bytes, of this direction and session alone.
    """

    def __init__(self, key: bytes) -> None:
        self._gmac = AESGCM(key)
        self._offset = 0
        self._ordered = 0
        self._urgent = 0

    def data(self, data: Bytes) -> tuple[bytes, bytes]:
        """The tag and the body of a frame of these bytes, 1 to MAX_FRAME_DATA of them."""
        made = self._tagged(TaggedKind.DATA, self._ordered, data)
        self._ordered += 1
        self._offset += len(data)
        return made

    def eof(self) -> tuple[bytes, bytes]:
        """Of the frame after which none of data comes."""
        self._ordered += 1
        return self._tagged(TaggedKind.EOF, self._ordered - 1, b"")

    def urgent(self, kind: TaggedKind) -> tuple[bytes, bytes]:
        """Of a heartbeat or a cancel."""
        self._urgent += 1
        return self._tagged(kind, self._urgent - 1, b"")

    def _tagged(self, kind: TaggedKind, seq: int, data: Bytes) -> tuple[bytes, bytes]:
        body = b"".join((_HEAD.pack(kind, seq, self._offset), data))
        return self._gmac.encrypt(_NONCE.pack(kind >= _HEARTBEAT, seq), b"", body), body


class FrameChecker:
    """Verifies the frames of one direction, each before anything is done with it.

    Attributes:
        received: Bytes of data in the frames that were verified.
        has_ended: The end of writing was verified.
    """

    def __init__(self, key: bytes) -> None:
        self._gmac = AESGCM(key)
        self.received = 0
        self.has_ended = False
        self._ordered = 0
        self._urgent = 0

    def verify(self, frame: TaggedFrame) -> None:
        """Return if the other end made this frame, and it is the next.

        Raises:
            Malformed: ``frame_altered`` or ``frame_order``.
        """
        kind, seq = frame.kind, frame.seq
        is_urgent = kind >= _HEARTBEAT
        try:
            self._gmac.decrypt(_NONCE.pack(is_urgent, seq), frame.tag, frame.body)
        except InvalidTag:
            raise Malformed(
                "a frame of a gated session was not made by the other end, or was altered",
                reason=FRAME_ALTERED,
            ) from None
        if is_urgent:
            is_next = seq == self._urgent
            self._urgent += 1
        else:
            is_next = seq == self._ordered and frame.offset == self.received and not self.has_ended
            self._ordered += 1
            self.received += frame.size
            self.has_ended = kind is _EOF
        if not is_next:
            raise Malformed(
                "a frame of a gated session is missing, repeated or out of order",
                reason=FRAME_ORDER,
            )


class FrameMarks:
    """The places and tags of frames whose bytes are not done with."""

    def __init__(self) -> None:
        # Mostly empty, and as a deque it would take 760 bytes even then.
        self._frames: list[tuple[int, int, int, bytes]] = []

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: TaggedFrame) -> None:
        """Take the next frame of data.

        Raises:
            Malformed: too many wait.
        """
        if len(self._frames) >= MAX_FRAMES_HELD:
            raise Malformed("too many short frames of a gated session wait for its gate")
        first = frame.offset
        self._frames.append((first, first + frame.size, frame.seq, frame.tag))

    def drop(self, before: int) -> None:
        """Forget the frames that end at or before this offset."""
        frames = self._frames
        if frames and frames[-1][1] <= before:
            frames.clear()
            return
        done = 0
        while done < len(frames) and frames[done][1] <= before:
            done += 1
        del frames[:done]

    def digest(self, offset: int, size: int) -> bytes:
        """A digest of the tags of all frames that have bytes of this range.

        Tags are made with a key that neither the Proxy nor Authority has, so the digest lets
        nobody guess what was said.
        """
        end, frames = offset + size, self._frames
        if len(frames) == 1:  # as nearly always
            first, last, seq, tag = frames[0]
            is_of = first < end and last > offset
            return sha256(_TAGS + _MARK.pack(seq, tag) if is_of else _TAGS).digest()
        parts = [_TAGS]
        for first, last, seq, tag in frames:
            if first >= end:
                break
            if last > offset:
                parts.append(_MARK.pack(seq, tag))
        return sha256(b"".join(parts)).digest()
