"""Places that anybody may take, so shared out that nobody can keep all of them (rule R18).

When all are taken one is given up: of the sources whose oldest place has been held for long
enough, the one that holds the most loses it.  Whoever floods loses their own, and somebody who
comes properly finds room meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen


@frozen
class _Held:
    since: float
    give_up: Callable[[], object]


@define
class Places:
    """The places of one listener, or of one lane.

    Attributes:
        most: How many there are.
        share: How many of them one source may hold.
        least_secs: A place taken so recently is not given up for another one.
    """

    most: int
    share: int | None = None
    least_secs: float = 0.0
    count: int = field(default=0, init=False)
    _of: dict[str, dict[object, _Held]] = field(factory=dict, init=False)

    def take(
        self, key: object, source: str, give_up: Callable[[], object], now: float = 0.0
    ) -> bool:
        """Take a place, perhaps another caller's; return whether there was one.

        Args:
            key: Names it in :meth:`leave`.
            source: Whose it is.
            give_up: Called at most once, when it is given up for another one.
            now: Seconds of any steady clock.
        """
        own = self._of.get(source, {})
        if self.share is not None and len(own) >= self.share:
            return False
        if self.count >= self.most and not self._free_one(now):
            return False
        self._of.setdefault(source, {})[key] = _Held(now, give_up)
        self.count += 1
        return True

    def leave(self, key: object, source: str) -> None:
        """It is free again; saying so twice, or of one that was given up, changes nothing."""
        of_source = self._of.get(source)
        if of_source is None or of_source.pop(key, None) is None:
            return
        self.count -= 1
        if not of_source:
            del self._of[source]

    def _free_one(self, now: float) -> bool:
        # One that has just taken the most keeps nobody's old places.
        since = {each: self._oldest(each)[1].since for each in self._of}
        able = [each for each in since if now - since[each] >= self.least_secs]
        if not able:
            return False
        # By age among equals: who has the most is the first of them whose oldest place is older.
        source = max(able, key=lambda each: (len(self._of[each]), -since[each]))
        key, held = self._oldest(source)
        self.leave(key, source)
        held.give_up()
        return True

    def _oldest(self, source: str) -> tuple[object, _Held]:
        return next(iter(self._of[source].items()))
