"""Counting what was refused, by who asked and which budget, until it is summarised (rule R12).

Pure, and of bounded size: past its limit of names, what further callers are
refused is counted under one name for all of them.  What was asked for is not
kept: a summary must not tell a resource that exists from one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, evolve, field, frozen

from svc.model.audit.record import Actor

MAX_CALLERS = 64
OTHERS = Actor("anonymous", "-")
"""Stands for all callers past the limit of names."""


@frozen
class RefusedCount:
    """What one caller was refused by one budget.

    Attributes:
        first: When the first was refused, in seconds since the epoch.
        last: And the last.
    """

    caller: Actor
    budget: str
    count: int
    first: float
    last: float

    def plus(self, other: RefusedCount) -> RefusedCount:
        """Both as one; of the same caller and budget."""
        return evolve(
            self,
            count=self.count + other.count,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
        )


@define
class RefusalCounter:
    """The refusals since the last summary.

    Attributes:
        now: Seconds since the epoch.
    """

    now: Callable[[], float]
    max_callers: int = MAX_CALLERS
    _refused: dict[tuple[Actor, str], RefusedCount] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._refused)

    def add(self, caller: Actor, budget: str) -> None:
        """Count one."""
        now = self.now()
        self._enter(RefusedCount(caller=caller, budget=budget, count=1, first=now, last=now))

    def take(self) -> tuple[RefusedCount, ...]:
        """Hand over everything counted, and begin again."""
        refused, self._refused = self._refused, {}
        return tuple(refused.values())

    def put_back(self, refused: Iterable[RefusedCount]) -> None:
        """Count again what could not be written down."""
        for one in refused:
            self._enter(one)

    def _enter(self, refused: RefusedCount) -> None:
        key = (refused.caller, refused.budget)
        if key not in self._refused and len(self._refused) >= self.max_callers:
            key = (OTHERS, refused.budget)
            refused = evolve(refused, caller=OTHERS)
        known = self._refused.get(key)
        self._refused[key] = refused if known is None else known.plus(refused)
