"""Limits how much of a spool each caller may use (rule R12).

Rows take of it in the thread that writes them, and sessions, for their ends, in
the reactor's: one may do so while the other does.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from attrs import define, field

from svc.ratelimit.quota import KEPT, FairQuota

SEGMENT_COST = 8192
"""Counted for each file beside what is in it: many small ones fill a disk too."""


@define
class SpoolQuota:
    """Bytes of all spools on a disk.

    Attributes:
        most: What they may take together.
        used: What they take.
    """

    most: int
    used: int = 0
    _quota: FairQuota = field(init=False)
    _lock: Lock = field(factory=Lock, init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._quota = FairQuota(self.most)

    @property
    def has_for_others(self) -> bool:
        """Whether there is room besides the part reserved for the origin itself."""
        return self.used < self.most - self.most // KEPT

    def has(self, size: int, holder: str | None) -> bool:
        """Whether a row of *size* bytes may be written.

        Args:
            holder: Who causes it: at most an eighth is one holder's, and a quarter is nobody's;
                None is the origin itself, which may use all.
        """
        if not self.take(size, holder):
            return False
        self.give_back(size, {} if holder is None else {holder: size})
        return True

    def take(self, size: int, holder: str | None = None) -> bool:
        """Reserve room for a row, if there is any."""
        kept = 0 if holder is None else self.most // KEPT
        with self._lock:
            if self.used + size > self.most - kept:
                return False
            if holder is not None and not self._quota.take(holder, size):
                return False
            self.used += size
            return True

    def found(self, size: int) -> None:
        """Account for rows from before this process, whose callers are no longer known."""
        with self._lock:
            self.used += size

    def give_back(self, size: int, held: Mapping[str, int]) -> None:
        """Give back what a file took: all of its bytes, and of these each holder's."""
        with self._lock:
            self.used -= size
            for holder, count in held.items():
                self._quota.give_back(holder, count)
