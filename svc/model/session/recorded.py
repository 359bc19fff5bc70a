"""The records of one session's requests, held against the checkpoints of its Connector (rule R25).

Pure.  Records come in the order of their numbers, checkpoints in theirs, and neither waits for the
other: a checkpoint is settled once all records up to it have come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from attrs import define, field

from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.session.ranges import first_head, heads_after

MISSING = "missing_record"
EXTRA = "extra_record"
DIFFERENT = "different_record"
"""What a mismatch is."""

MAX_UNSETTLED = 400_000
"""Records of one session that no checkpoint has settled; of more, none is settled any more."""

MAX_CLAIMS = 64

_HEAD = 32


class RangedRecords(NamedTuple):
    """What the records of requests that follow one another say of their session.

    Attributes:
        first: The number of the first one in its session.
        entries: Of each, what it says of its decision: see ``svc.model.session.ranges.entry_of``.
    """

    session_uid: str
    first: int
    entries: Sequence[bytes]


@define
class RecordedChain:
    """One session's.

    Attributes:
        is_adopted: It was open before this Authority led: its first checkpoint is believed.
        is_ended: Its last checkpoint came.
        settled_at: When the newest settled checkpoint came, or the session was granted.
        touched_at: When anything of it came.
    """

    session_uid: str
    settled_at: float
    is_adopted: bool = False
    is_ended: bool = field(default=False, init=False)
    touched_at: float = field(init=False)
    _settled: int = field(default=0, init=False)
    _recorded: int = field(default=0, init=False)
    _adopted_at: int = field(default=0, init=False)
    _head: bytes = field(init=False)
    _heads: bytearray = field(factory=bytearray, init=False)
    _early: deque[tuple[int, Sequence[bytes]]] = field(factory=deque, init=False)
    _early_count: int = field(default=0, init=False)
    _claims: deque[tuple[SessionCheckpoint, float]] = field(factory=deque, init=False)
    _last_n: int = field(default=0, init=False)
    _whole: int | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.touched_at = self.settled_at
        self._head = first_head(self.session_uid)

    @property
    def owed_since(self) -> float | None:
        """When the oldest checkpoint came that waits for records; None: none does."""
        return self._claims[0][1] if self._claims else None

    def record(self, first: int, entries: Sequence[bytes], now: float) -> str:
        """Take the next records; a word where they cannot be true.

        Args:
            first: The number of the first one.
            entries: As :class:`RangedRecords` has them.
            now: When they came.
        """
        self.touched_at = now
        if self.is_adopted:
            if self._early_count < MAX_UNSETTLED:
                self._early.append((first, entries))
                self._early_count += len(entries)
            return ""
        if first <= self._adopted_at:
            # Their checkpoint was believed before they came from the spool.
            entries = entries[self._adopted_at + 1 - first :]
            first = self._adopted_at + 1
        if not entries:
            return ""
        if first != self._recorded + 1:
            return MISSING if first > self._recorded else EXTRA
        last = self._recorded + len(entries)
        if self._whole is not None and last > self._whole:
            return EXTRA
        room = MAX_UNSETTLED - len(self._heads) // _HEAD
        newest = bytes(self._heads[-_HEAD:]) or self._head
        self._heads += b"".join(heads_after(newest, entries[:room]))
        self._recorded = last
        return self._settle()

    def checkpoint(self, one: SessionCheckpoint, now: float) -> str:
        """Take the next checkpoint; a word where the records are not what it says."""
        self.touched_at = now
        if one.n <= self._last_n or len(self._claims) >= MAX_CLAIMS:
            return ""  # said before, or of a Connector that says too much
        self._last_n = one.n
        self.is_ended = self.is_ended or one.is_last
        if self.is_adopted:
            return self._adopt(one, now)
        if one.is_last and one.is_whole:
            self._whole = one.decisions
            if self._recorded > one.decisions:
                return EXTRA
        self._claims.append((one, now))
        return self._settle()

    def _adopt(self, one: SessionCheckpoint, now: float) -> str:
        self.is_adopted = False
        self._settled = self._recorded = self._adopted_at = one.decisions
        self._head, self.settled_at = one.head, now
        early, self._early, self._early_count = self._early, deque(), 0
        for first, entries in early:
            word = self.record(first, entries, now)
            if word:
                return word
        return ""

    def _settle(self) -> str:
        while self._claims and self._claims[0][0].decisions <= self._recorded:
            one, came = self._claims.popleft()
            past = one.decisions - self._settled
            if past < 0 or past * _HEAD > len(self._heads):
                return DIFFERENT if past < 0 else ""
            if past:
                self._head = bytes(self._heads[(past - 1) * _HEAD : past * _HEAD])
                del self._heads[: past * _HEAD]
                self._settled = one.decisions
            if self._head != one.head:
                return DIFFERENT
            self.settled_at = came
        return ""
