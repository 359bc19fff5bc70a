"""Writes recorded requests as lines for the process that decides them again.

A question that was sent is not sent again, as long as that process has it: a request then is the
question's number, and what it covers is counted by that number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import define, field

from svc.ops.replay.coverage import Covered, ReplayCoverage
from svc.policy.replay.lines import (
    QuestionWindow,
    ReplayQuestion,
    SliceWindow,
    requests_line,
    slice_line,
)

QuestionKey = tuple[str, str]
"""Who asks of what and over which entities; and the rest of a question."""


@define
class QuestionWriter:
    """Keeps what was sent, and what is to be sent next."""

    _slices: SliceWindow = field(factory=SliceWindow, init=False)
    _questions: QuestionWindow[QuestionKey, str] = field(factory=QuestionWindow, init=False)
    _covered: dict[str, Covered] = field(factory=dict, init=False)
    _counts: Counter[str] = field(factory=Counter, init=False)
    _coverage: ReplayCoverage = field(factory=ReplayCoverage, init=False)
    _last: int = field(default=0, init=False)
    _lines: list[bytes] = field(factory=list, init=False)
    _seq: int = field(default=0, init=False)
    _numbers: list[str] = field(factory=list, init=False)
    _nows: list[str] = field(factory=list, init=False)

    def begin(self, seq: int) -> None:
        """What follows is of that record."""
        self._end_run()
        self._seq = seq

    def slice_text(self, digest: str) -> str | None:
        """The text of a slice that was sent and is still there."""
        return self._slices.get(digest)

    def give_slice(self, digest: str, text: str | None) -> None:
        """Send a slice, unless it is there or not known."""
        if text is not None and self._slices.get(digest) is None:
            self._end_run()  # its questions may be over a slice that is let go
            self._slices.add(digest, text)
            self._lines.append(slice_line(digest, text))

    def known(self, keys: Sequence[QuestionKey]) -> list[str | None]:
        """The numbers of questions; None for one that has to be asked."""
        return list(map(self._questions.kept.get, keys))

    def ask(self, key: QuestionKey, question: ReplayQuestion, covered: Covered) -> str:
        """Send a question; its number."""
        self._last += 1
        number = str(self._last)
        gone = self._questions.add(key, number, len(question.text))
        if gone:
            self._end_run()  # it may name one of them
            for each in gone:
                self._coverage.count(self._covered.pop(each), self._counts.pop(each, 0))
        self._covered[number] = covered
        self._lines.append(question.line(number))
        return number

    def request(self, numbers: Sequence[str], nows: Sequence[str]) -> None:
        """Requests that ask the questions of these numbers, with the volatile fact of each."""
        self._numbers += numbers
        self._nows += nows

    def taken(self) -> bytes:
        """The lines since this was last asked."""
        self._end_run()
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def covered(self) -> ReplayCoverage:
        """What was written covers, since this was last asked."""
        found, self._coverage = self._coverage, ReplayCoverage()
        for number, times in self._counts.items():
            found.count(self._covered[number], times)
        self._counts.clear()
        return found

    def _end_run(self) -> None:
        if self._numbers:
            self._counts.update(self._numbers)
            self._lines.append(requests_line(self._seq, self._numbers, self._nows))
            self._numbers, self._nows = [], []
