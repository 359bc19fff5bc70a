"""Reads and writes messages in a stream's bytes: one flag byte, four bytes of length, the message.

The :class:`Inbox` keeps bytes as they came and cuts messages only when asked, so that a relay
can take the same bytes on unread.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import Struct

from svc.errors import Fault, SvcError

_PREFIX = Struct("!BI")
PREFIX_BYTES = _PREFIX.size
_SMALL = 2048
_IDENTITY = "identity"


prefix = partial(_PREFIX.pack, 0)
"""``prefix(length)``: the bytes before a message of *length* bytes."""


class Inbox:
    """Bytes received and not yet read.

    Attributes:
        held: How many.
        limit: Bytes of the longest message.
        need: Size of the message that has begun; -1 where none has, or its prefix has not come.
        encoding: How compressed messages would be, as the peer named it; empty where it did not.
    """

    __slots__ = ("_chunks", "_flag", "_refusal", "encoding", "held", "limit", "need")

    def __init__(self, limit: int) -> None:
        # None while nothing is held: even an empty deque takes 760 bytes.
        self._chunks: deque[bytes | memoryview] | None = None
        self.limit = limit
        self.need = -1
        self._refusal: SvcError | None = None
        self._flag = 0
        self.encoding = ""
        self.held = 0

    def add(self, data: bytes | memoryview) -> None:
        """Keep *data*; the caller limits it by the stream's window."""
        size = len(data)
        self.held += size
        chunks = self._chunks
        if chunks is None:
            if not size:
                return
            chunks = self._chunks = deque()
        if size >= _SMALL:
            if isinstance(data, memoryview) and 2 * size < memoryview(data.obj).nbytes:
                # A part of a larger read would keep all of it for as long as it waits.
                data = bytes(data)
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
            SvcError: ``EXHAUSTED`` for a message past the limit, ``UNIMPLEMENTED`` or
                ``INTERNAL`` for a compressed one; the stream's remaining bytes mean nothing then.
        """
        if not self.is_whole:
            return None
        if self.need < 0 and self._chunks is not None:  # it is all that is held
            whole, self._chunks, self.held = self._chunks[0], None, 0
            return memoryview(whole)[PREFIX_BYTES:]
        if self._refusal is not None:
            raise self._refusal
        size, self.need = self.need, -1
        return self._cut(size)

    def peek(self, most: int) -> bytes:
        """The next message if it is there whole and no longer than *most*, or nothing; it stays."""
        if not self.is_whole or self._refusal is not None or self.need > most:
            return b""
        if self.need < 0 and self._chunks is not None:  # it is all that is held
            return b"" if self.held - PREFIX_BYTES > most else bytes(self._chunks[0][PREFIX_BYTES:])
        found = bytearray()
        for chunk in self._chunks or ():
            found += chunk[: self.need - len(found)]
        return bytes(found)

    def take_raw(self) -> list[bytes | memoryview]:
        """Everything held, uncut.  Only between two messages."""
        chunks = list(self._chunks or ())
        if self.need >= 0:
            # Whether a message is whole was asked before: its prefix is off already.
            chunks.insert(0, _PREFIX.pack(self._flag, self.need))
            self.need, self._refusal = -1, None
        self._chunks = None
        self.held = 0
        return chunks

    @property
    def is_whole(self) -> bool:
        """Whether :meth:`take` would give a message, or refuse one.

        The prefix is taken off, but of a message that is all that is held, in one piece, as most
        are.
        """
        if self.need < 0:
            size, chunks = self.held - PREFIX_BYTES, self._chunks
            if size < 0 or chunks is None:
                return False
            may_be_all = len(chunks) == 1 and 0 < size <= self.limit
            if may_be_all and _PREFIX.unpack_from(chunks[0]) == (0, size):
                return True
            self.need = self._cut_prefix()
        return self._refusal is not None or self.held >= self.need

    @property
    def is_partial(self) -> bool:
        """Whether a message was begun and is not whole."""
        return self.need >= 0 or self.held > 0

    def _cut_prefix(self) -> int:
        self._flag, length = _PREFIX.unpack(self._cut(PREFIX_BYTES))
        if self._flag:
            self._refusal = self._compressed()
        elif length > self.limit:
            self._refusal = SvcError(
                "a message is longer than the limit",
                reason="message_too_long",
                fault=Fault.EXHAUSTED,
            )
        return int(length)

    def _compressed(self) -> SvcError:
        """Why a message with a flag is not taken, as gRPC's page on compression says it."""
        if self._flag == 1 and self.encoding not in ("", _IDENTITY):
            return SvcError(
                f"messages compressed with {self.encoding} are not accepted here; {_IDENTITY} is",
                reason="compressed",
                fault=Fault.UNIMPLEMENTED,
            )
        return SvcError(
            f"a message has a Compressed-Flag that was not negotiated; {_IDENTITY} is accepted "
            "here",
            reason="compressed",
            fault=Fault.INTERNAL,
        )

    def _cut(self, size: int) -> bytes | memoryview:
        chunks = self._chunks
        if not size or chunks is None:
            return b""
        self.held -= size
        if not self.held:
            self._chunks = None
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
