"""What the receiving end of a gated session does with frames and with what the Proxy says of them.

Pure.  A frame is verified before anything else.  Its bytes wait until the Proxy has passed them,
by the offset up to which it did, and are then passed on with the edits that it named.
"""

from __future__ import annotations

from attrs import define, field

from svc.errors import Malformed
from svc.model.session.edits import Edit, StreamEdits
from svc.model.session.ending import DECISION_REFUSED
from svc.model.session.frames import (
    MAX_FRAME_DATA,
    FrameChecker,
    TaggedFrame,
    TaggedKind,
)
from svc.model.session.ranges import RangeDecision, RequestChain

MAX_NOTED = 256
"""Decisions, or edits, in one note of a Proxy's."""


@define
class GateNote:
    """What a Proxy says with a frame; as a :class:`RangeDecision`, nobody changes it.

    Attributes:
        pass_to: Bytes before this offset may be passed on; 0: as before.
        decisions: Of bytes that are not passed yet, in the order of their numbers.
        edits: Likewise, in the order of their offsets.
        closes: The Proxy passes nothing more of this direction.
    """

    pass_to: int = 0
    decisions: tuple[RangeDecision, ...] = ()
    edits: tuple[Edit, ...] = ()
    closes: bool = False

    def joined(self, later: GateNote) -> GateNote | None:
        """This note and a later one that comes without a frame, as one; None: they stay two.

        What is added or ends the stream has its place among the bytes, so it is said by itself.
        """
        decisions = self.decisions + later.decisions
        if later.edits or later.closes or self.closes or len(decisions) > MAX_NOTED:
            return None
        return GateNote(max(self.pass_to, later.pass_to), decisions, self.edits)


@define
class GatedReceiver:
    """One direction of a gated session, at the end that receives it.

    Attributes:
        edits: The closed list of this side of the kind.
        chain: Of the decisions; None where answers are received, about which none are made.
    """

    _checker: FrameChecker
    edits: StreamEdits
    chain: RequestChain | None = None
    _pass_to: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)
    _held: bytearray = field(factory=bytearray, init=False)
    _inserted: bytes = field(default=b"", init=False)

    @property
    def received(self) -> int:
        """Bytes of the frames that were verified."""
        return self._checker.received

    @property
    def has_ended(self) -> bool:
        """The other end writes no more, and all that it wrote was passed on."""
        return self._checker.has_ended

    @property
    def is_whole(self) -> bool:
        """Whether all that the other end wrote has come, to its end, and was passed on."""
        return self._checker.has_ended and not self._held

    def note(self, note: GateNote) -> None:
        """Take what the Proxy says of bytes that are not passed on yet.

        Raises:
            Malformed: it may not be said.
        """
        for decision in note.decisions:
            if self.chain is None:
                raise Malformed("a decision about answers", reason=DECISION_REFUSED)
            self.chain.announce(decision, self.received)
        for edit in note.edits:
            adds = self.chain is None or self.chain.edited(edit.offset, edit.size)
            self._inserted += self.edits.announce(edit, adds=adds)
        self._pass_to = max(self._pass_to, note.pass_to)

    def frame(self, frame: TaggedFrame) -> None:
        """Take the next frame.

        Raises:
            Malformed: it is not the other end's next frame, or too much waits.
        """
        self._checker.verify(frame)
        if frame.kind is not TaggedKind.DATA:
            return
        if len(self._held) + frame.size > 2 * MAX_FRAME_DATA:
            raise Malformed("the Proxy sent more frames than it passed", reason=DECISION_REFUSED)
        if self.chain is not None:
            self.chain.marks.add(frame)
        self._held += frame.data

    def released(self) -> bytes:
        """The bytes that are passed on now.

        Raises:
            Malformed: an edit fails, or what was denied would pass.
        """
        received, chain, held = self._checker.received, self.chain, self._held
        to = min(self._pass_to, received)
        size = to - self._passed
        if size > 0:
            data = bytes(held if size == len(held) else held[:size])
            if chain is not None:
                chain.passing(data)
            if size == len(held):
                held.clear()
            else:
                del held[:size]
            self._passed = to
            data = self.edits.apply(data)
        else:
            data = b""
        if chain is not None:
            chain.settle(received)
        if self._inserted:
            data, self._inserted = self._inserted + data, b""
        return data

    @property
    def may_be_closed(self) -> bool:
        """Whether the Proxy may end this direction: requests, or answers after words of the kind.

        Anything else would read as an answer's own end.
        """
        return self.chain is not None or self.edits.is_last_made

    def end(self) -> None:
        """The other end writes no more.

        Raises:
            Malformed: amid bytes that were not passed, or that were to be edited.
        """
        if self._held:
            raise Malformed(
                "a gated session's stream ended before all of it was passed",
                reason=DECISION_REFUSED,
            )
        self.edits.end()
