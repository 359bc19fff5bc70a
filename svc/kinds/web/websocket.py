"""What is known of a WebSocket: where its frames end, and how it is closed.

Frames are counted and pass as they are; nothing of a message is looked at.
"""

from __future__ import annotations

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.words import CHANNELS, WEBSOCKET

POLICY_VIOLATION = 1008
"""The code of a close by policy (RFC 6455, 7.4.1)."""

TRY_AGAIN_LATER = 1013
"""The code of a close that says nothing against another try (IANA's registry of close codes)."""

NORMAL = 1000
"""The code of a close after all was said."""

_BINARY, _CLOSE = 0x82, 0x88
_FIRST_CONTROL = 0x08
_LONGEST_REASON = 123


def closing_frame(code: int, reason: str) -> bytes:
    """A close, as a server sends it; a long reason is cut."""
    text = reason.encode("utf-8")[:_LONGEST_REASON].decode("utf-8", "ignore").encode("utf-8")
    return bytes((_CLOSE, 2 + len(text))) + code.to_bytes(2, "big") + text


def binary_frame(data: bytes) -> bytes:
    """A message of less than 64 KiB, as a server sends it."""
    size = len(data)
    length = bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    return bytes((_BINARY,)) + length + data


@define
class FrameScan:
    """Tells where the frames of one direction end; see :class:`svc.kinds.web.last_word.EndScan`.

    Attributes:
        has_channels: A message's first byte says which channel it is of, as Kubernetes has it.
    """

    has_channels: bool = False
    _is_amid: bool = field(default=False, init=False)
    _head: bytearray = field(factory=bytearray, init=False)
    _left: int = field(default=0, init=False)

    @property
    def is_between(self) -> bool:
        """Whether what has come ends with a frame, so that a control frame may follow."""
        return not self._left and not self._head

    @property
    def form(self) -> str:
        """Of the last word: a close, or a message before it, which must not divide another."""
        return CHANNELS if self.has_channels and not self._is_amid else WEBSOCKET

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
                if self._head[0] & 0x0F < _FIRST_CONTROL:
                    self._is_amid = not self._head[0] & 0x80
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
