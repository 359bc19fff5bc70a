"""Token buckets by name, in a table of bounded size: how often somebody may do something.

Pure: the time is passed in, seconds of any steady clock.  The names must be
those of authenticated principals; a name that its bearer may choose would let
him begin with a full bucket again and again.
"""

from __future__ import annotations

from attrs import define, field, frozen

MAX_NAMES = 65_536


@frozen
class Rate:
    """How often.

    Attributes:
        per_minute: Tokens that come back to a bucket each minute.
        burst: Tokens that a full bucket holds.
    """

    per_minute: float
    burst: float


@define
class Buckets:
    """A bucket a name; one that is not in the table is full.

    Attributes:
        max_names: How many names are remembered; past it, the one that was
            used longest ago is forgotten.
        idle_secs: After how long without use a name is forgotten; None: once
            its bucket must be full again.
    """

    rate: Rate
    max_names: int = MAX_NAMES
    idle_secs: float | None = None
    _buckets: dict[str, tuple[float, float]] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, name: str, now: float, cost: float = 1.0) -> float:
        """In how many seconds *cost* tokens are there; 0 where they are."""
        return self._until(self._left(name, now), cost)

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take *cost* tokens and return 0, or take none and return the seconds until they are."""
        left = self._left(name, now)
        wait = self._until(left, cost) if left < cost else 0.0
        self._keep(name, now, left if wait else left - cost)
        return wait

    def charge(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take *cost* tokens, also those that are not there; the seconds until none is owed.

        No more than a whole bucket is ever owed.
        """
        left = max(-self.rate.burst, self._left(name, now) - cost)
        self._keep(name, now, left)
        return self._until(left, 0.0)

    def give_back(self, name: str, now: float, cost: float = 1.0) -> None:
        """Undo a :meth:`take`."""
        self._keep(name, now, min(self.rate.burst, self._left(name, now) + cost))

    def _left(self, name: str, now: float) -> float:
        rate = self.rate
        left, then = self._buckets.get(name, (rate.burst, now))
        if now > then:
            left += (now - then) * rate.per_minute / 60
        return left if left < rate.burst else rate.burst

    def _until(self, left: float, cost: float) -> float:
        return max(0.0, cost - left) * 60 / self.rate.per_minute

    def _keep(self, name: str, now: float, left: float) -> None:
        # Last in the table: those used longest ago are forgotten first.
        self._buckets.pop(name, None)
        self._buckets[name] = (left, now)
        self.forget(now)

    def forget(self, now: float) -> None:
        """Drop the oldest while their time is over, or there are too many."""
        refilled = (self.rate.burst * 2) * 60 / self.rate.per_minute
        idle = refilled if self.idle_secs is None else self.idle_secs
        while self._buckets:
            oldest = next(iter(self._buckets))
            is_over = now - self._buckets[oldest][1] >= idle
            if not is_over and len(self._buckets) <= self.max_names:
                return
            del self._buckets[oldest]


@define
class Spacer:
    """Spaces what many calls of one name cost over time.

    Attributes:
        each: Seconds that one call takes.
        most: Seconds that are owed at most.
    """

    each: float
    most: float
    max_names: int = MAX_NAMES
    _free: dict[str, float] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._free)

    def next(self, name: str, now: float) -> float:
        """Count one call; the seconds until the next may have its turn."""
        free = max(now, self._free.pop(name, now)) + self.each
        self._free[name] = free = min(free, now + self.most)
        while len(self._free) > self.max_names or self._free[next(iter(self._free))] < now:
            del self._free[next(iter(self._free))]
        return free - now
