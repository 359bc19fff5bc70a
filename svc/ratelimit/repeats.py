"""The same thing told again and again: counted, and said once in a while.

Pure.  What somebody tries again every second would fill a log and hide all
else in it; the first time is said at once, and those after it together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from attrs import define, field

EVERY_SECS = 60.0
KEPT = 256


@define
class RepeatSeries:
    """What happened several times.

    Attributes:
        first: When it happened first, in Unix seconds.
        last: When it happened last.
        count: How often, in all.
        unreported: How often since it was last reported.
    """

    first: float
    last: float
    count: int = 0
    unreported: int = 0
    reported: float = 0.0


@define
class RepeatCounter:
    """Counts what is noted.

    Attributes:
        now: Unix seconds.
        every: Seconds between two sayings of the same; after as long a silence it is new.
    """

    now: Callable[[], float]
    every: float = EVERY_SECS
    _series: OrderedDict[Hashable, RepeatSeries] = field(factory=OrderedDict, init=False)

    def note(self, key: Hashable) -> RepeatSeries | None:
        """Count one event; return what to log now, or None. ``unreported`` includes this one."""
        now = self.now()
        found = self._series.pop(key, None)
        if found is None or not 0 <= now - found.last < self.every:
            found = RepeatSeries(now, now, unreported=0 if found is None else found.unreported)
        self._series[key] = found
        if len(self._series) > KEPT:
            self._series.popitem(last=False)
        found.last, found.count, found.unreported = now, found.count + 1, found.unreported + 1
        if found.count > 1 and now - found.reported < self.every:
            return None
        reported = RepeatSeries(
            first=found.first,
            last=now,
            count=found.count,
            unreported=found.unreported,
            reported=now,
        )
        found.reported, found.unreported = now, 0
        return reported
