"""What is known of a WebSocket: that it was opened rightly, where its frames end, how it is closed.

Frames are counted and pass as they are; nothing of a message is looked at.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.head import HttpAnswer

POLICY_VIOLATION = 1008
"""The code of a close by policy (RFC 6455, 7.4.1)."""

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE = 0x88
_LONGEST_REASON = 123


def is_opened_by(answer: HttpAnswer, key: bytes) -> bool:
    """Whether a 101 opens the WebSocket that was asked for with this key."""
    headers = answer.headers
    proof = b64encode(sha1(key + _GUID, usedforsecurity=False).digest())
    return (
        bool(key)
        and headers.words(b"upgrade") == {b"websocket"}
        and b"upgrade" in headers.words(b"connection")
        and headers.one(b"sec-websocket-accept") == proof
    )


def closing_frame(code: int, reason: str) -> bytes:
    """A close, as a server sends it; a long reason is cut."""
    text = reason.encode("utf-8")[:_LONGEST_REASON].decode("utf-8", "ignore").encode("utf-8")
    return bytes((_CLOSE, 2 + len(text))) + code.to_bytes(2, "big") + text


@define
class FrameScan:
    """Tells where the frames of one direction end."""

    _head: bytearray = field(factory=bytearray, init=False)
    _left: int = field(default=0, init=False)

    @property
    def is_between(self) -> bool:
        """Whether what has come ends with a frame, so that a control frame may follow."""
        return not self._left and not self._head

    def take(self, data: bytes) -> None:
        """Count the next bytes of the stream.

        Raises:
            Malformed: a frame is longer than there can be.
        """
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) == self._head_size():
                self._left = self._payload_size()
                self._head.clear()

    def _head_size(self) -> int:
        if len(self._head) < 2:
            return 2
        mask = 4 if self._head[1] & 0x80 else 0
        return 2 + {126: 2, 127: 8}.get(self._head[1] & 0x7F, 0) + mask

    def _payload_size(self) -> int:
        short = self._head[1] & 0x7F
        if short < 126:
            return short
        size = int.from_bytes(self._head[2 : 4 if short == 126 else 10], "big")
        if size >> 63:
            raise Malformed("a frame of a WebSocket is longer than there can be")
        return size
