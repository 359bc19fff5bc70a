r"""Which bytes of a session each decision was about, as Proxy and Connector state it (rule R25).

Pure.  A decision has the next number of its session, ``session_n`` from 1, and a range of the
person's bytes.  The Proxy writes both into its record, with a digest of the tags of the frames in
that range.  The Connector sees the frames, is told the numbers and ranges, and chains::

    head = SHA-256("svc-request-chain-v1\0" ‖ head before ‖ entry)
    entry = n (8) ‖ offset (8) ‖ size (4) ‖ tags (32) ‖ allowed (1)

from SHA-256("svc-request-chain-v1\0" ‖ session_uid (16)).  Whoever has the records makes the same
chain of them, or one of the two is not true.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from attrs import define, field

from svc.errors import Malformed
from svc.model.session.ending import DECISION_MISSING, DECISION_REFUSED, EDIT_REFUSED
from svc.model.session.frames import FrameMarks

MAX_RANGE = 256 * 1024
"""Bytes of one request: a gate holds no more."""

MAX_PENDING = 1024
"""Decisions whose bytes have not all come."""

_CHAIN = b"svc-request-chain-v1\0"
_ENTRY = struct.Struct(">QQI32sB")


class RequestRange(NamedTuple):
    """The bytes that one decision is about, as its record states them.

    Attributes:
        n: Which decision of its session, from 1, without gaps.
        offset: Of the first byte, counted from the person's first.
        size: How many bytes.
        tags: Digest of the tags of the frames that have them, 32 bytes.
    """

    n: int
    offset: int
    size: int
    tags: bytes


@define
class RangeDecision:
    """A decision as the Proxy announces it to the Connector, before the bytes it is about.

    Nobody changes one; a frozen one would take twice as long to make, for each request.
    """

    n: int
    offset: int
    size: int
    allowed: bool


def first_head(session_uid: str) -> bytes:
    """The head of a session's chain before its first decision."""
    return sha256(_CHAIN + bytes.fromhex(session_uid)).digest()


entry_of = _ENTRY.pack
"""``entry_of(n, offset, size, tags, allowed)``: one decision as it is chained."""


def next_head(head: bytes, range_: RequestRange, allowed: bool) -> bytes:
    """The head after one more decision."""
    entry = entry_of(range_.n, range_.offset, range_.size, range_.tags, allowed)
    return heads_after(head, (entry,))[0]


def heads_after(head: bytes, entries: Iterable[bytes]) -> list[bytes]:
    """The head after each of some more decisions."""
    found = []
    for entry in entries:
        head = sha256(_CHAIN + head + entry).digest()
        found.append(head)
    return found


Request = tuple[int, bool, int]
"""Where a message begins; whether it needs a decision; and where the part of it ends that its
decision is about at least, counted from the person's first byte too.  0: that shows later."""


class RequestReader(Protocol):
    """A kind's own reading of the person's bytes, at the Connector: where its messages begin.

    A Proxy's word cannot lead it astray: it sees the bytes as the person tagged them.
    """

    def feed(self, data: bytes, is_denied: Callable[[int], bool]) -> Iterable[Request]:
        """Read the next bytes.

        Args:
            data: As the person sent them.
            is_denied: Whether the message at an offset was denied, so the target never has it.

        Returns:
            In order: what begins, with its first byte.  One whose need, or whose decided part,
            shows later is said again, no later than with its last byte.

        Raises:
            Malformed: it is no message of the kind.
        """


@define
class RequestChain:
    """The decisions of one session at its Connector, held against the frames that came.

    Without a reader a denied range itself is what edits replace.  With one, every range begins
    where a message does, reaches the end of what the kind decides of it, and holds no beginning of
    another; and a denied message is replaced or removed to its end.  What else is removed is the
    stream's last: nothing passes after it.

    Attributes:
        reader: The kind's, where it has one.
        head: Of the chain, over the decisions whose bytes have all come.
        count: How many those are.
        marks: Of the frames; whoever verifies them adds them.
    """

    session_uid: str
    reader: RequestReader | None = None
    head: bytes = field(init=False)
    count: int = field(default=0, init=False)
    marks: FrameMarks = field(factory=FrameMarks, init=False)
    _announced: int = field(default=0, init=False)
    _end: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)
    _pending: deque[RangeDecision] = field(factory=deque, init=False)
    _ranges: deque[RangeDecision] = field(factory=deque, init=False)
    _at: dict[int, RangeDecision] = field(factory=dict, init=False)
    _denied: int = field(default=0, init=False)
    _edits: deque[tuple[int, int]] = field(factory=deque, init=False)
    _unit: int = field(default=-1, init=False)
    _is_last: bool = field(default=False, init=False)

    @head.default
    def _first(self) -> bytes:
        return first_head(self.session_uid)

    def announce(self, decision: RangeDecision, received: int) -> None:
        """Take the next decision.

        Args:
            decision: As the Proxy sent it.
            received: Bytes that have come.

        Raises:
            Malformed: its number is not the next, it overlaps the one before, or its bytes have
                passed, are none or are too many.
        """
        if decision.n != self._announced + 1:
            raise _refused("the decisions of a gated session are not numbered without gaps")
        end = decision.offset + decision.size
        is_near = end <= received + 2 * MAX_RANGE
        is_sized = 0 < decision.size <= MAX_RANGE
        if decision.offset < self._passed or not is_sized or not is_near:
            raise _refused("a decision of a gated session is about bytes out of its reach")
        is_over = decision.offset < self._end or decision.offset in self._at
        if is_over or len(self._ranges) >= MAX_PENDING:
            raise _refused("decisions of a gated session overlap, or are too many")
        if len(self._pending) >= MAX_PENDING:
            raise _refused("decisions of a gated session are too far ahead of their bytes")
        self._announced, self._end = decision.n, end
        self._pending.append(decision)
        self._ranges.append(decision)
        self._at[decision.offset] = decision
        self._denied += not decision.allowed

    def edited(self, offset: int, size: int) -> bool:
        """These bytes, and no earlier ones from now on, are replaced.

        Returns:
            Whether something may take their place: they lie in one denied range.

        Raises:
            Malformed: they are none; nothing is added to what a person sent.
        """
        if not size:
            raise Malformed("the Proxy would add to requests", reason=EDIT_REFUSED)
        end = offset + size
        self._edits.append((offset, end))
        return any(
            one.offset <= offset and end <= one.offset + one.size
            for one in self._ranges
            if not one.allowed
        )

    def passing(self, data: bytes) -> None:
        """These bytes, the next of the stream, are passed on now, as their edits make them.

        Raises:
            Malformed: some of them were denied, and no edit replaces them; or no decision is
                about a request that needs one.
        """
        to, done = self._passed + len(data), self._passed
        if not self._edits and data:
            self._segment(done, data, is_edited=False)
            done = to
        while done < to:
            while self._edits and self._edits[0][1] <= done:
                self._edits.popleft()
            first, last = self._edits[0] if self._edits else (to, to)
            is_edited = first <= done
            end = min(to, last if is_edited else first)
            self._segment(done, data[done - self._passed : end - self._passed], is_edited)
            done = end
        self._passed = to
        while self._ranges and self._ranges[0].offset + self._ranges[0].size <= to:
            if self.reader is not None and self._ranges[0].offset == self._unit:
                break
            done_with = self._ranges.popleft()
            self._denied -= not done_with.allowed
            del self._at[done_with.offset]

    def _segment(self, offset: int, data: bytes, is_edited: bool) -> None:
        """One stretch that an edit is about, or none is."""
        if self._is_last:
            if not is_edited or self._is_touched(offset, offset + len(data)):
                raise _refused("the Proxy passed more after it had left something out")
        elif self.reader is not None:
            self._units(self.reader, offset, data, is_edited)
        else:
            end = offset + len(data)
            if not is_edited and self._is_touched(offset, end):
                raise _refused("the Proxy passed a request on that it had denied")
            is_inside = any(
                one.offset <= offset and end <= one.offset + one.size
                for one in self._ranges
                if not one.allowed
            )
            self._is_last = is_edited and not is_inside

    def _is_touched(self, first: int, end: int) -> bool:
        """Whether some of these bytes were denied."""
        return any(
            one.offset < end and first < one.offset + one.size
            for one in self._ranges
            if not one.allowed
        )

    def _units(self, reader: RequestReader, offset: int, data: bytes, is_edited: bool) -> None:
        before = self._unit
        if is_edited and not (self._is_denied(offset) or self._is_denied(before)):
            self._is_last = True
            return
        starts: list[int] = []
        try:
            found = list(reader.feed(data, self._is_denied))
        except Malformed:
            # Past the last message that anybody decided nothing can be read, and nothing passes.
            if not is_edited:
                raise
            self._is_last = True
            return
        at, unit = self._at, before
        for start, needs, end in found:
            if start != unit:
                starts.append(start)
                unit = start
            # Most messages need no decision, and none is about them.
            if is_edited or needs or start in at:
                self._needed(start, needs, end, is_edited)
        self._unit = unit
        if self._is_last:
            return
        if (
            not is_edited
            and self._denied
            and (
                any(self._is_denied(start) for start in starts)
                or (offset not in starts[:1] and self._is_denied(before))
            )
        ):
            raise _refused("the Proxy passed a request on that it had denied")
        self._placed(offset, offset + len(data), starts)

    def _needed(self, start: int, needs: bool, end: int, is_edited: bool) -> None:
        decided = self._at.get(start)
        if is_edited and not self._is_denied(start):
            self._is_last = True
        elif needs and decided is None:
            raise Malformed(
                "the Proxy passed a request on that it had not decided", reason=DECISION_MISSING
            )
        elif decided is not None and decided.offset + decided.size < end:
            raise _refused("a decision of a gated session is about a part of its request only")

    def _placed(self, first: int, end: int, starts: Sequence[int]) -> None:
        """Ranges begin where messages do, and none holds another's beginning."""
        for one in self._ranges:
            if one.offset >= end:
                break
            after = bisect_right(starts, one.offset)
            is_start = after > 0 and starts[after - 1] == one.offset
            holds = after < len(starts) and starts[after] < one.offset + one.size
            if holds or (first <= one.offset and not is_start):
                raise _refused("a decision of a gated session is not about one whole request")

    def _is_denied(self, start: int) -> bool:
        decided = self._at.get(start)
        return decided is not None and not decided.allowed

    def settle(self, received: int) -> None:
        """Chain the decisions whose bytes have all come."""
        pending = self._pending
        while pending and pending[0].offset + pending[0].size <= received:
            one = pending.popleft()
            tags = self.marks.digest(one.offset, one.size)
            entry = entry_of(one.n, one.offset, one.size, tags, one.allowed)
            self.head = sha256(_CHAIN + self.head + entry).digest()
            self.count = one.n
        first = min(self._passed, received)
        self.marks.drop(min(first, pending[0].offset) if pending else first)


def _refused(text: str) -> Malformed:
    return Malformed(text, reason=DECISION_REFUSED)
