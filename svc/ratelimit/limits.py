"""Budgets of authenticated callers: asked before anything is decided (rules R12, R16).

Pure; both the Proxy and Authority hold their own, because neither takes the
other's word.  A refusal costs little: it is counted, and nothing is written
down for it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import define, field

from svc.errors import TooMany
from svc.model.audit.record import Actor
from svc.ratelimit.bucket import Buckets, Rate, Spacer
from svc.ratelimit.counter import RefusalCounter

BUDGETS = (
    "opens",
    "denials",
    "requests",
    "sessions",
    "admin",
    "registrations",
    "carries",
    "messages",
    "renewals",
    "identities",
    "asks",
    "reports",
    "greetings",
    "rows",
    "unproven",
)
"""Every budget's word: a metric's label and a summary's reason."""

_REFUSED_SECS = 0.005
"""What one refusal costs its caller: so long nothing more of it is read."""

_MOST_SECS = 5.0
"""Shorter than a ping's answer may take: a caller that is held is not taken for dead."""


@define
class RefusalPolicy:
    """What happens to a request over budget.

    Attributes:
        refusal_counter: Counts it for the summary.
        seconds: A steady clock.
        on_refused: Told the budget's word.
    """

    refusal_counter: RefusalCounter
    seconds: Callable[[], float]
    on_refused: Callable[[str], object]
    _turns: Spacer = field(factory=lambda: Spacer(_REFUSED_SECS, _MOST_SECS))

    def count(self, budget: str, caller: Actor) -> None:
        """Count one refusal."""
        self.on_refused(budget)
        self.refusal_counter.add(caller, budget)

    def refusal(self, budget: str, caller: Actor, wait: float) -> TooMany:
        """Count one refusal, and what to raise for it."""
        self.count(budget, caller)
        text = f"too many requests ({budget}); try again in {max(1, ceil(wait))} s"
        # Over whichever of its connections it came: they share the caller's turns.
        hold = self._turns.next(caller.id, self.seconds())
        return TooMany(text, retry_after=wait, hold=hold)


@define
class Budget:
    """One budget, with a bucket for each caller.

    Attributes:
        word: What metrics, records and refusals call it.
    """

    word: str
    refusals: RefusalPolicy
    buckets: Buckets

    @classmethod
    def of(cls, word: str, refusals: RefusalPolicy, per_minute: float, burst: float) -> Budget:
        """A budget of a rate."""
        return cls(word, refusals, Buckets(Rate(per_minute, burst)))

    def spend(self, caller: Actor, cost: float = 1.0) -> None:
        """Take what one call costs.

        Raises:
            TooMany: it is not there; then nothing is taken.
        """
        wait = self.buckets.take(caller.id, self._now, cost)
        if wait:
            raise self.refusals.refusal(self.word, caller, wait)

    def check(self, caller: Actor, others: int = 0) -> None:
        """Take nothing.

        Args:
            others: Calls of the caller that were let pass and may be charged yet; for as many
                something must be left as well, if only a full bucket.

        Raises:
            TooMany: nothing is left, or not enough.
        """
        cost = max(1.0, min(self.buckets.rate.burst, 1.0 + others))
        wait = self.buckets.wait(caller.id, self._now, cost)
        if wait:
            raise self.refusals.refusal(self.word, caller, wait)

    def is_spent(self, caller: Actor) -> bool:
        """Whether nothing is left; takes nothing and counts nothing."""
        return self.buckets.wait(caller.id, self._now) > 0

    def charge(self, caller: Actor) -> None:
        """Take for what has happened, whether it is there or not."""
        self.buckets.charge(caller.id, self._now)

    def give_back(self, caller: Actor, cost: float = 1.0) -> None:
        """Undo a :meth:`spend`, or a part of it: it was not the caller's doing."""
        self.buckets.give_back(caller.id, self._now, cost)

    @property
    def _now(self) -> float:
        return self.refusals.seconds()
