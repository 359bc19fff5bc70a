"""The places of a bounded queue, divided so that nobody can take them all (rule R12).

Pure.  One holder has at most an eighth of the places, and all holders together
three quarters: the rest stays for what must never be turned away, which takes
its places without asking here.
"""

from __future__ import annotations

from attrs import define, field

EACH = 8
"""One holder has at most one part in so many."""

KEPT = 4
"""One part in so many is kept."""


@define
class FairQuota:
    """How many places each caller holds.

    Attributes:
        places: Of the whole queue.
        most: Places of one holder; an eighth where nothing is said.
    """

    places: int
    most: int = field()
    _held: dict[str, int] = field(factory=dict)
    _total: int = 0

    @most.default
    def _eighth(self) -> int:
        return max(1, self.places // EACH)

    def resize(self, places: int) -> None:
        """Divide so many from now on; what is held stays held."""
        self.places = places
        self.most = self._eighth()

    @property
    def held(self) -> int:
        """Places that all holders have together."""
        return self._total

    def take(self, holder: str, count: int = 1) -> bool:
        """Take places; False where the holder has its share, or only what is kept is left."""
        held = self._held.get(holder, 0) + count
        if held > self.most or self._total + count > self.places - self.places // KEPT:
            return False
        self._held[holder] = held
        self._total += count
        return True

    def give_back(self, holder: str, count: int = 1) -> None:
        """Give places back that :meth:`take` gave."""
        self._total -= count
        left = self._held[holder] - count
        if left:
            self._held[holder] = left
        else:
            del self._held[holder]
