"""One direction of a gated session at the Proxy: frames that wait until the gate has decided.

See ADR 35 for how bytes that a gate passes become frames that go on.
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
from svc.model.session.ending import FRAME_ORDER
from svc.model.session.frames import MAX_FRAMES_HELD, FrameMarks, TaggedFrame, TaggedKind
from svc.model.session.gated import MAX_NOTED, GateNote
from svc.model.session.ranges import MAX_RANGE, RangeDecision
from svc.proxy.sessions.directions import BytesAwaited
from svc.rpc.gated import PassingStream
from svc.wire.machine import Part

MAX_HELD = MAX_RANGE
"""Bytes of one direction that may wait for the gate; no request of a kind is longer."""

_MOST_UNSENT = MAX_FRAMES_HELD // 2
_DATA, _EOF = TaggedKind.DATA, TaggedKind.EOF
_LONGEST_MARK = 16
"""So many bytes are searched again when more have come: a mark may lie on the border."""


@implementer(IGatedStream, IHalfCloseableProtocol, IPushProducer)
class GatedStream(Protocol):
    """One direction: reads one call and passes its frames on to the other, as the gate says.

    A frame goes on, as it came, once the gate has passed its first byte; a note with it says up
    to which byte the other end may pass it on.

    Attributes:
        lost: Called when the call that it reads is over, before the gate hears of it.
        passed: Bytes that the gate has passed.
        finished: Fires when the end of writing was passed on, or none will be.
    """

    transport: Any

    def __init__(self) -> None:
        self.lost: Callable[[], object] = lambda: None
        self.passed = 0
        self.out: PassingStream | None = None
        self.finished: Deferred[None] = Deferred()
        self._held = bytearray()
        self._came = 0
        self._read = 0
        self._marks = FrameMarks()
        # Mostly empty, and as a deque it would take 760 bytes even then.
        self._unsent: list[tuple[int, bytes]] = []
        self._decided: list[RangeDecision] = []
        self._pass_to = 0
        self._eof = b""
        self._is_done = False
        self._ended = False
        self._is_moot = False
        self._is_full = False
        self._is_paused = False
        self._bytes = BytesAwaited()
        self._waiting: BytesAwaited | None = None
        self._room: list[Deferred[None]] | None = None

    @property
    def held(self) -> bytes:
        """See IGatedStream."""
        return bytes(self._held)

    def ahead(self, most: int) -> bytes:
        """See IGatedStream."""
        return bytes(self._held[:most])

    async def until(self, mark: bytes | Pattern[bytes], most: int) -> bytes | None:
        """See IGatedStream."""
        most = min(most, MAX_HELD)  # past it nothing more is read, so no mark would come
        pattern = re.compile(re.escape(mark)) if isinstance(mark, bytes) else mark
        held, searched = self._held, 0
        if self._is_moot:
            return None
        while not held or (found := pattern.search(held, searched, most)) is None:
            if len(held) >= most:
                raise Malformed(f"a request or an answer is longer than {most} bytes")
            searched = max(0, len(held) - _LONGEST_MARK)
            if not await self._more():
                self._check_between()
                return None
        self._read = found.end()
        return bytes(held[: self._read])

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
            if not await self._more():
                self._check_between()
                return None
        self._read = size
        return None if self._is_moot else bytes(self._held[:size])

    async def pass_on(self, size: int) -> None:
        """See IGatedStream."""
        if size < 0:  # of a length that the peer wrote
            raise Malformed("a request or an answer says that it is shorter than nothing")
        to = self.passed + size
        while self.passed < to:
            if not self._held and not await self._more():
                if self._is_moot:
                    return
                raise Malformed("the stream ended in the middle of a request or an answer")
            self._pass(to)

    def edit(self, size: int, name: str, values: Mapping[str, str]) -> None:
        """See IGatedStream."""
        if not 0 < size <= min(len(self._held), MAX_EDIT_BYTES):
            raise ValueError("an edit must concern bytes that are held")
        self._pass(self.passed + size, (self._edit(size, name, values),))

    def insert(self, name: str, values: Mapping[str, str]) -> None:
        """See IGatedStream."""
        self._say(self.passed, (self._edit(0, name, values),), None, is_said=False)

    async def room(self) -> None:
        """See IGatedStream."""
        while self._is_paused and not self._is_moot:
            waiting: Deferred[None] = Deferred()
            self._room = [*(self._room or ()), waiting]
            await waiting

    def _edit(self, size: int, name: str, values: Mapping[str, str]) -> Edit:
        # What is longer would end the session at whoever makes the edit.
        short = {word: value[:MAX_VALUE_CHARACTERS] for word, value in values.items()}
        return Edit(offset=self.passed, size=size, name=name, values=short)

    def request_range(self, size: int) -> tuple[tuple[int, int], bytes]:
        """Of a request that begins with the first byte held: its first byte and the one after it.

        Args:
            size: How many bytes it has; 0: those that ``until`` read last, or else the first.

        Returns:
            With the digest of the tags of the frames that have them.
        """
        size = min(size or self._read or 1, len(self._held))
        return (self.passed, self.passed + size), self._marks.digest(self.passed, size)

    def announce(self, decision: RangeDecision) -> None:
        """Tell the other end of a decision, before any byte that follows."""
        self._decided.append(decision)

    def close(self) -> None:
        """See IGatedStream.

        What ended by itself ends as it came; otherwise the other end is told that it is cut.
        """
        if self._is_done or self.finished.called:
            return
        self._is_done = True
        assert self.out is not None
        if self._eof and not self._held:
            if self._decided:
                self._say(0, (), None, is_said=False)
            self.out.pass_on(self._eof)
        else:
            self.out.note(GateNote(decisions=tuple(self._decided[:MAX_NOTED]), closes=True))
        self._finish()

    def give_up(self) -> None:
        """See IGatedStream; what is cut off is no fault."""
        self._is_moot = self._ended = True
        self._finish()
        self._wake()
        self._tell_room()

    # -- from the transport

    def frame_received(self, frame: TaggedFrame, message: Part) -> None:
        """See FrameReader."""
        kind = frame.kind
        if kind is _DATA:
            if frame.offset != self._came:
                # Its receiver would refuse it; until then we would tell wrong offsets of it.
                raise Malformed("a frame is not at the offset where it belongs", reason=FRAME_ORDER)
            if not self._is_done:
                self._take(frame, message if type(message) is bytes else bytes(message))
        elif kind is _EOF:
            self._eof = bytes(message)
            self.readConnectionLost()
        else:
            assert self.out is not None
            self.out.pass_on(message)

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
        self._finish()
        self._wake()

    # -- as the producer of the other side

    def pauseProducing(self) -> None:
        self._is_paused = True
        self._pace()

    def resumeProducing(self) -> None:
        self._is_paused = False
        self._pace()
        self._tell_room()

    def stopProducing(self) -> None:
        """The other side has disconnected; its own transport reports that."""

    def _pace(self) -> None:
        if self.transport is None:
            return
        if self._is_full or self._is_paused:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    def _take(self, frame: TaggedFrame, message: bytes) -> None:
        self._marks.add(frame)
        self._unsent.append((frame.offset, message))
        self._held += frame.data
        self._came += frame.size
        # Of frames that went on, none but the last can have bytes that are held.
        if len(self._held) >= MAX_HELD or len(self._unsent) >= _MOST_UNSENT:
            self._is_full = True
            self._pace()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.come()

    def _pass(self, to: int, edits: tuple[Edit, ...] = ()) -> None:
        """The other end may pass on what is before this offset; all of it that came goes on."""
        now, held, unsent = min(to, self._came), self._held, self._unsent
        if now == self._came:
            held.clear()
        else:
            del held[: now - self.passed]
        self.passed, self._read = now, 0
        self._marks.drop(now)
        is_said = to <= self._pass_to and not self._decided and not edits
        if len(unsent) == 1 and unsent[0][0] < to and not self._is_full:
            # As nearly always.
            self._say(to, edits, unsent.pop()[1], is_said=is_said)
            return
        while unsent and unsent[0][0] < to:
            self._say(to, edits, unsent.pop(0)[1], is_said=is_said)
            is_said = True
        if not is_said:
            self._say(to, edits, None, is_said=False)
        if self._is_full and len(held) < MAX_HELD and len(unsent) < _MOST_UNSENT:
            self._is_full = False
            self._pace()

    def _say(
        self, to: int, edits: tuple[Edit, ...], message: bytes | None, *, is_said: bool
    ) -> None:
        assert self.out is not None
        if is_said:
            if message is not None:
                self.out.pass_on(message)
            return
        if to > self._pass_to:
            self._pass_to = to
        decided = self._decided
        if not decided:
            self.out.note(GateNote(to, (), edits), message)
            return
        while len(decided) > MAX_NOTED:
            self.out.note(GateNote(decisions=tuple(decided[:MAX_NOTED])))
            del decided[:MAX_NOTED]
        self.out.note(GateNote(to, tuple(decided), edits), message)
        decided.clear()

    def _finish(self) -> None:
        if not self.finished.called:
            self.finished.callback(None)

    def _check_between(self) -> None:
        """No more comes, which is refused amid something."""
        if self._held and not self._is_moot:
            raise Malformed("the stream ended in the middle of a request or an answer")

    async def _more(self) -> bool:
        """Wait for bytes; False where none come any more."""
        if self._ended:
            return False
        if self._is_full:
            raise Malformed("a request or an answer comes in too many short frames")
        before = len(self._held)
        waiting = BytesAwaited() if self._bytes.called else self._bytes
        self._waiting = self._bytes = waiting
        try:
            await waiting
        finally:
            self._waiting = None
        return len(self._held) > before or not self._ended

    def _tell_room(self) -> None:
        waiting, self._room = self._room, None
        for one in waiting or ():
            if not one.called:  # its gate was broken off
                one.callback(None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.come()
