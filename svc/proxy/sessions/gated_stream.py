"""One direction of a gated session: bytes wait until the gate has said what becomes of them.

Invariants: no byte passes that the gate did not name; a direction holds no more than a fixed
number of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from re import Pattern
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Malformed
from svc.interfaces.gating import IGatedStream
from svc.model.session.edits import MAX_EDIT_BYTES, MAX_VALUE_CHARACTERS, Edit
from svc.rpc.stream import StreamTransport

MAX_HELD = 256 * 1024
"""Bytes of one direction that may wait for the gate; no request of a kind is longer."""

_LONGEST_MARK = 16
"""So many bytes are searched again when more have come: a mark may lie on the border."""


@implementer(IGatedStream, IHalfCloseableProtocol, IPushProducer)
class GatedStream(Protocol):
    """One direction: reads one call and writes to the other, as the gate says.

    Attributes:
        lost: Called when the call that it reads is over, before the gate hears of it.
    """

    transport: Any

    def __init__(self) -> None:
        self.lost: Callable[[], object] = lambda: None
        self.passed = 0
        self.out: StreamTransport | None = None
        self._held = bytearray()
        self._ended = False
        self._is_moot = False
        self._is_full = False
        self._is_paused = False
        self._waiting: Deferred[None] | None = None

    @property
    def held(self) -> bytes:
        """See IGatedStream."""
        return bytes(self._held)

    async def until(self, mark: bytes | Pattern[bytes], most: int) -> bytes | None:
        """See IGatedStream."""
        most = min(most, MAX_HELD)  # past it nothing more is read, so no mark would come
        pattern = re.compile(re.escape(mark)) if isinstance(mark, bytes) else mark
        searched = 0
        if self._is_moot:
            return None
        while (found := pattern.search(self._held, searched, most)) is None:
            if len(self._held) >= most:
                raise Malformed(f"a request or an answer is longer than {most} bytes")
            searched = max(0, len(self._held) - _LONGEST_MARK)
            if not await self._more_of_it():
                return None
        return bytes(self._held[: found.end()])

    async def some(self) -> bytes | None:
        """See IGatedStream."""
        while not self._held and await self._more():
            pass
        return b"" if self._is_moot else self.held or None

    async def at_least(self, size: int) -> bytes | None:
        """See IGatedStream."""
        if size > MAX_HELD:
            raise Malformed(f"a request or an answer is longer than {MAX_HELD} bytes")
        while len(self._held) < size and not self._is_moot:
            if not await self._more_of_it():
                return None
        return None if self._is_moot else bytes(self._held[:size])

    async def pass_on(self, size: int) -> None:
        """See IGatedStream."""
        if size < 0:  # of a length that the peer wrote
            raise Malformed("a request or an answer says that it is shorter than nothing")
        while size:
            if not self._held and not await self._more():
                if self._is_moot:
                    return
                raise Malformed("the stream ended in the middle of a request or an answer")
            piece = bytes(self._held[:size])
            self._write(piece)
            size -= len(piece)

    def edit(self, size: int, name: str, values: Mapping[str, str]) -> None:
        """See IGatedStream."""
        if not 0 < size <= min(len(self._held), MAX_EDIT_BYTES):
            raise ValueError("an edit must concern bytes that are held")
        assert self.out is not None
        self._name(size, name, values)
        self._write(bytes(self._held[:size]))

    def insert(self, name: str, values: Mapping[str, str]) -> None:
        """See IGatedStream."""
        self._name(0, name, values)

    def _name(self, size: int, name: str, values: Mapping[str, str]) -> None:
        assert self.out is not None
        # What is longer would end the session at whoever makes the edit.
        short = {word: value[:MAX_VALUE_CHARACTERS] for word, value in values.items()}
        self.out.edit(Edit(offset=self.passed, size=size, name=name, values=short))

    def close(self) -> None:
        """See IGatedStream."""
        if self.out is not None:
            self.out.loseWriteConnection()

    def give_up(self) -> None:
        """Whoever it writes to is gone: no more is decided, and what is cut off is no fault."""
        self._is_moot = self._ended = True
        self._wake()

    # -- from the transport

    def dataReceived(self, data: bytes) -> None:
        self._held += data
        if len(self._held) >= MAX_HELD:
            self._is_full = True
            self._pace()
        self._wake()

    def readConnectionLost(self) -> None:
        """The peer writes no more."""
        self._ended = True
        self._wake()

    def writeConnectionLost(self) -> None:
        """We write no more."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The call is over."""
        self._ended = True
        self.lost()
        self._wake()

    # -- as the producer of the other side

    def pauseProducing(self) -> None:
        self._is_paused = True
        self._pace()

    def resumeProducing(self) -> None:
        self._is_paused = False
        self._pace()

    def stopProducing(self) -> None:
        """The other side has disconnected; its own transport reports that."""

    def _pace(self) -> None:
        if self.transport is None:
            return
        if self._is_full or self._is_paused:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    def _write(self, data: bytes) -> None:
        assert self.out is not None
        del self._held[: len(data)]
        self.passed += len(data)
        self.out.write(data)
        if self._is_full and len(self._held) < MAX_HELD:
            self._is_full = False
            self._pace()

    async def _more_of_it(self) -> bool:
        """Wait for more of what is held; False at the end, which is refused amid something."""
        if await self._more():
            return True
        if self._held and not self._is_moot:
            raise Malformed("the stream ended in the middle of a request or an answer")
        return False

    async def _more(self) -> bool:
        """Wait for bytes; False where none come any more."""
        if self._ended:
            return False
        before = len(self._held)
        self._waiting = Deferred()
        try:
            await self._waiting
        finally:
            self._waiting = None
        return len(self._held) > before or not self._ended

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)
