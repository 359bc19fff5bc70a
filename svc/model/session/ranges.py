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
from collections import deque
from hashlib import sha256

from attrs import define, field, frozen

from svc.errors import Malformed
from svc.model.session.ending import DECISION_REFUSED
from svc.model.session.frames import FrameMarks

MAX_RANGE = 256 * 1024
"""Bytes of one request: a gate holds no more."""

MAX_PENDING = 1024
"""Decisions whose bytes have not all come."""

_CHAIN = b"svc-request-chain-v1\0"
_ENTRY = struct.Struct(">QQI32sB")


@frozen
class RequestRange:
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


@frozen
class RangeDecision:
    """A decision as the Proxy announces it to the Connector, before the bytes it is about."""

    n: int
    offset: int
    size: int
    allowed: bool


def first_head(session_uid: str) -> bytes:
    """The head of a session's chain before its first decision."""
    return sha256(_CHAIN + bytes.fromhex(session_uid)).digest()


def next_head(head: bytes, range_: RequestRange, allowed: bool) -> bytes:
    """The head after one more decision."""
    entry = _ENTRY.pack(range_.n, range_.offset, range_.size, range_.tags, allowed)
    return sha256(_CHAIN + head + entry).digest()


@define
class _Denied:
    """A range of which nothing may pass unedited."""

    covered: int
    end: int


@define
class RequestChain:
    """The decisions of one session at its Connector, held against the frames that came.

    Attributes:
        head: Of the chain, over the decisions whose bytes have all come.
        count: How many those are.
        marks: Of the frames; whoever verifies them adds them.
    """

    session_uid: str
    head: bytes = field(init=False)
    count: int = field(default=0, init=False)
    marks: FrameMarks = field(factory=FrameMarks, init=False)
    _announced: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)
    _pending: deque[RangeDecision] = field(factory=deque, init=False)
    _denied: deque[_Denied] = field(factory=deque, init=False)

    @head.default
    def _first(self) -> bytes:
        return first_head(self.session_uid)

    def announce(self, decision: RangeDecision, received: int) -> None:
        """Take the next decision.

        Args:
            decision: As the Proxy sent it.
            received: Bytes that have come.

        Raises:
            Malformed: its number is not the next, or its bytes have passed or are too many.
        """
        if decision.n != self._announced + 1:
            raise _refused("the decisions of a gated session are not numbered without gaps")
        end = decision.offset + decision.size
        is_near = end <= received + 2 * MAX_RANGE and len(self._pending) < MAX_PENDING
        if decision.offset < self._passed or decision.size > MAX_RANGE or not is_near:
            raise _refused("a decision of a gated session is about bytes out of its reach")
        self._announced = decision.n
        self._pending.append(decision)
        if not decision.allowed and decision.size:
            self._denied.append(_Denied(decision.offset, end))

    def edited(self, offset: int, size: int) -> None:
        """These bytes, and no earlier ones from now on, are replaced."""
        end = offset + size
        for denied in self._denied:
            if offset <= denied.covered < end:
                denied.covered = end

    def passing(self, to: int) -> None:
        """Bytes before this offset are passed on now.

        Raises:
            Malformed: some of them were denied, and no edit replaces them.
        """
        for denied in self._denied:
            if denied.covered < min(to, denied.end):
                raise _refused("the Proxy passed a request on that it had denied")
        while self._denied and self._denied[0].covered >= self._denied[0].end:
            self._denied.popleft()
        self._passed = max(self._passed, to)

    def settle(self, received: int) -> None:
        """Chain the decisions whose bytes have all come."""
        pending = self._pending
        while pending and pending[0].offset + pending[0].size <= received:
            one = pending.popleft()
            tags = self.marks.digest(one.offset, one.size)
            range_ = RequestRange(n=one.n, offset=one.offset, size=one.size, tags=tags)
            self.head = next_head(self.head, range_, one.allowed)
            self.count = one.n
        first = min(self._passed, received)
        self.marks.drop(min(first, pending[0].offset) if pending else first)


def _refused(text: str) -> Malformed:
    return Malformed(text, reason=DECISION_REFUSED)
