"""What one address may ask of the public listener without showing who it is.

A token bucket an address, in a table of bounded size; the key is the TCP
peer's address, never a header (rule R18).  Health is not counted at all.
"""

from __future__ import annotations

from attrs import define, field

from svc.model.source import source_of

_MAX_SOURCES = 65_536


@define
class AddressBudget:
    """Buckets by address.

    Attributes:
        per_minute: Calls that come back to a bucket each minute.
        burst: Calls a full bucket holds.
    """

    per_minute: float = 60.0
    burst: float = 20.0
    _buckets: dict[str, tuple[float, float]] = field(factory=dict)

    def take(self, host: str, now: float) -> bool:
        """Take one call of *host*; False where none is left.  *now* is of a steady clock."""
        key = source_of(host)
        left, then = self._buckets.pop(key, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.per_minute / 60)
        allowed = left >= 1
        # Last in the table: those that asked longest ago are forgotten first.
        self._buckets[key] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _MAX_SOURCES:
            del self._buckets[next(iter(self._buckets))]
        return allowed
