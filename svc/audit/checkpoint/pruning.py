"""Which signed heads are kept: the newest, and of the older ones the last of each day (UTC).

Every head covers all records before it, so an older one is needed only to be
compared with a copy that somebody took.  Where heads are left out, the next
one says how many; verifying then judges the one before by its own signature.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from attrs import define, evolve, field

from svc.audit.checkpoint.head import from_line, to_line
from svc.errors import Malformed

# A quote inside a string is escaped, so these match members of the line only.
_DAY = re.compile(rb',"time":"(\d{4}-\d\d-\d\d)T')
_PRUNED = re.compile(rb',"pruned":(\d+)')
_WITH_CHAIN = b'{"chain":'


def pruned(lines: Iterable[bytes], newest: int) -> list[bytes]:
    """The lines that are left, each with its end; the *newest* and a last one a day.

    Args:
        lines: Of ``heads.jsonl``, each with its end.
        newest: How many are kept whatever their day.

    Raises:
        Malformed: a line is not a head; nothing may be left out of such a file.
    """
    kept, recent, last = _Kept(), deque[bytes](), b""
    for line in lines:
        kept.learn(line)
        recent.append(line)
        if len(recent) > newest:
            if last:
                kept.choose(last, recent[0])
            last = recent.popleft()
    if last and recent:
        kept.choose(last, recent[0])
    if recent and kept.left_out:
        kept.keep(recent.popleft())
    return [*kept.lines, *recent]


@define
class _Kept:
    lines: list[bytes] = field(factory=list)
    left_out: int = 0
    _chains: dict[str, tuple[bytes, ...]] = field(factory=dict)

    def learn(self, line: bytes) -> None:
        """Remember certificates, because the line that contained them may be pruned."""
        if line.startswith(_WITH_CHAIN):
            from_line(line.removesuffix(b"\n"), self._chains)

    def choose(self, line: bytes, following: bytes) -> None:
        """Keep *line* if it is the last of its day."""
        if _day(line) != _day(following):
            self.keep(line)
        else:
            before = _PRUNED.search(line)
            self.left_out += 1 + (int(before[1]) if before else 0)

    def keep(self, line: bytes) -> None:
        """Keep *line*, saying what is left out before it."""
        head = from_line(line.removesuffix(b"\n"), self._chains)
        pruned_head = evolve(head, pruned=head.pruned + self.left_out)
        self.lines.append(to_line(pruned_head) + b"\n")
        self.left_out = 0


def _day(line: bytes) -> bytes:
    found = _DAY.search(line)
    if found is None:
        raise Malformed("audit head: its line has no time")
    return found[1]
