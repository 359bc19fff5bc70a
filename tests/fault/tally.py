"""What a fault's tests report: how many were injected, how many survived, the worst time.

A module has one :class:`Tally`.  Its row is printed when the process ends, and added to the
file that ``SVC_FAULT_ROWS`` names, where ``python -m tests.fault`` finds it.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TypeVar, cast

from attrs import define, field

IS_LONG = os.environ.get("SVC_LONG") == "1"
SHARE = float(os.environ.get("SVC_FAULT_SHARE", "1"))
"""Of the full counts: less than 1 on a machine that has no time for all of them."""
_T = TypeVar("_T")


def counted(short: _T, full: _T) -> _T:
    """How much to do: *full* with ``SVC_LONG=1``, else *short*; of a number that share."""
    if IS_LONG and isinstance(full, int):
        return cast(_T, max(1, round(full * SHARE)))
    return full if IS_LONG else short


def lanes(count: int) -> int:
    """How many to do side by side: *count* in the long form, of which share so ever."""
    return count if IS_LONG else 1


def sampled(count: int) -> range:
    """The numbers from 1 to *count*, or that share of them."""
    return range(1, count + 1, max(1, round(1 / SHARE)))


def in_long_form(test: _T) -> _T:
    """A test that there is with ``SVC_LONG=1`` alone: the short form shows the same with less."""
    return test if IS_LONG else cast(_T, None)


@define(eq=False)
class Tally:
    """The row of one fault.

    Attributes:
        fault: As the fault matrix names it: ``F9``.
        worst: Of the times from a fault, or its end, until all was well again; seconds.
        note: What was done less of than the matrix says, or not at all.
    """

    fault: str
    note: str = ""
    injected: int = 0
    survived: int = 0
    worst: float = 0.0
    _more: list[str] = field(factory=list, init=False)
    _longest: dict[str, float] = field(factory=dict, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def __attrs_post_init__(self) -> None:
        atexit.register(self._report)

    @contextmanager
    def one(self) -> Iterator[None]:
        """One fault: survived if the block ends well."""
        self.many(1, 0)
        yield
        self.many(0, 1)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """A time that counts."""
        began = monotonic()
        yield
        self.worst = max(self.worst, monotonic() - began)

    def many(self, injected: int, survived: int | None = None) -> None:
        """So many more faults, all of them survived unless it is said how many."""
        with self._lock:
            self.injected += injected
            self.survived += injected if survived is None else survived

    def tell(self, text: str) -> None:
        """Something that belongs into the row."""
        if text not in self._more:
            self._more.append(text)

    def tell_longest(self, what: str, seconds: float) -> None:
        """Another time that counts; the longest of them belongs into the row."""
        with self._lock:
            self._longest[what] = max(seconds, self._longest.get(what, 0.0))

    @property
    def row(self) -> str:
        """As it is printed."""
        words = f"{self.fault:4} injected {self.injected:<6} survived {self.survived:<6}"
        share = "" if SHARE == 1 else f"{SHARE:g} of the full counts"
        longest = (f"{what} {seconds:.1f} s" for what, seconds in self._longest.items())
        said = "; ".join(filter(None, (share, self.note, *self._more, *longest)))
        return f"{words} worst {self.worst:.1f} s" + (f"  ({said})" if said else "")

    def _report(self) -> None:
        if not self.injected:
            return
        if IS_LONG:
            sys.stdout.write(f"{self.row}\n")
            sys.stdout.flush()
        path = os.environ.get("SVC_FAULT_ROWS")
        if path:
            with open(path, "a", encoding="utf-8") as rows:
                rows.write(f"{self.row}\n")
