"""Messages in and out of a stream's bytes: one flag byte, four bytes of length, the message.

The :class:`Inbox` keeps bytes as they came and cuts messages only when asked, so that a relay
can take the same bytes on unread.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

from svc.errors import Fault, SvcError

_PREFIX = Struct("!BI")
PREFIX_BYTES = _PREFIX.size
_SMALL = 2048


def prefix(length: int) -> bytes:
    """What stands before a message of *length* bytes."""
    return _PREFIX.pack(0, length)


class Inbox:
    """Bytes received and not yet taken."""

    __slots__ = ("_chunks", "_limit", "_need", "_refusal", "held")

    def __init__(self, limit: int) -> None:
        self._chunks: deque[bytes | memoryview] = deque()
        self._limit = limit
        self._need = -1
        self._refusal: SvcError | None = None
        self.held = 0

    def add(self, data: bytes | memoryview) -> None:
        """Keep *data*; whoever calls bounds it by the stream's window."""
        size = len(data)
        self.held += size
        chunks = self._chunks
        if size >= _SMALL:
            chunks.append(data)
        elif size:
            # Small pieces are put together: each alone would cost many times its bytes.
            last = chunks[-1] if chunks else None
            if isinstance(last, bytes) and len(last) < _SMALL:
                chunks[-1] = last + bytes(data)
            else:
                chunks.append(bytes(data))

    def take(self) -> bytes | memoryview | None:
        """The next message, or None until more bytes come.

        Raises:
            SvcError: ``EXHAUSTED`` for a message past the limit, ``UNIMPLEMENTED`` for a
                compressed one; the stream's remaining bytes mean nothing then.
        """
        if not self.is_whole:
            return None
        if self._refusal is not None:
            raise self._refusal
        size, self._need = self._need, -1
        return self._cut(size)

    def take_raw(self) -> list[bytes | memoryview]:
        """Everything held, uncut.  Only between two messages."""
        chunks = list(self._chunks)
        if self._need >= 0:
            # Whether a message is whole was asked before: its prefix is off already.
            is_compressed = self._refusal is not None and self._refusal.reason == "compressed"
            chunks.insert(0, _PREFIX.pack(is_compressed, self._need))
            self._need, self._refusal = -1, None
        self._chunks.clear()
        self.held = 0
        return chunks

    @property
    def is_whole(self) -> bool:
        """Whether :meth:`take` would give a message, or refuse one."""
        if self._need < 0:
            if self.held < PREFIX_BYTES:
                return False
            self._need = self._cut_prefix()
        return self._refusal is not None or self.held >= self._need

    @property
    def is_partial(self) -> bool:
        """Whether a message was begun and is not whole."""
        return self._need >= 0 or self.held > 0

    def _cut_prefix(self) -> int:
        flag, length = _PREFIX.unpack(self._cut(PREFIX_BYTES))
        if flag:
            self._refusal = SvcError(
                "compressed messages are not taken", reason="compressed", fault=Fault.UNIMPLEMENTED
            )
        elif length > self._limit:
            self._refusal = SvcError(
                "a message is longer than the limit",
                reason="message_too_long",
                fault=Fault.EXHAUSTED,
            )
        return int(length)

    def _cut(self, size: int) -> bytes | memoryview:
        if not size:
            return b""
        self.held -= size
        chunks = self._chunks
        first = chunks[0]
        if len(first) == size:
            return chunks.popleft()
        if len(first) > size:
            view = memoryview(first)
            chunks[0] = view[size:]
            return view[:size]
        parts: list[bytes | memoryview] = []
        while size:
            part = chunks.popleft()
            if len(part) > size:
                view = memoryview(part)
                chunks.appendleft(view[size:])
                part = view[:size]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
