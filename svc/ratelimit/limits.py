"""Budgets of authenticated callers: asked before anything is decided (rules R12, R16).

Pure: the time is passed in, seconds of any steady clock.  Each budget is a table
of token buckets by name, bounded in size.  The names must be those of authenticated
principals; a name that its bearer may choose would let him begin with a full bucket
again and again.

Both the Proxy and Authority hold their own, because neither takes the other's
word.  A refusal costs little: it is counted, and nothing is written down for it
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import define, field, frozen

from svc.errors import TooMany
from svc.model.audit.record import Actor
from svc.ratelimit.counter import RefusalCounter

BUDGETS = (
    "opens",
    "denials",
    "requests",
    "sessions",
    "admin",
    "registrations",
    "peers",
    "carries",
    "messages",
    "renewals",
    "identities",
    "publications",
    "asks",
    "reports",
    "greetings",
    "rows",
    "unproven",
)
"""Every budget's word: a metric's label and a summary's reason."""

MAX_NAMES = 65_536

_REFUSED_SECS = 0.005
"""What one refusal costs its caller: so long nothing more of it is read."""

_MOST_SECS = 5.0
"""Shorter than a ping's answer may take: a caller that is held is not taken for dead."""


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
        known: By name: the tokens that were left in its bucket, and when.
    """

    rate: Rate
    max_names: int = MAX_NAMES
    idle_secs: float | None = None
    known: dict[str, tuple[float, float]] = field(factory=dict)

    def __len__(self) -> int:
        return len(self.known)

    def change(self, rate: Rate) -> None:
        """Go by another rate from now on; what is left in a bucket stays, up to a full one."""
        self.rate = rate

    def wait(self, name: str, now: float, cost: float = 1.0) -> float:
        """In how many seconds *cost* tokens are there; 0 where they are."""
        return self._until(self._left(name, now), cost)

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take *cost* tokens and return 0, or take none and return the seconds until they are."""
        known, rate = self.known, self.rate
        # As below, without a step of its own for each: it is asked for each request.
        left, then = known.pop(name, (rate.burst, now))
        if now > then:
            left += (now - then) * rate.per_minute / 60
        left = left if left < rate.burst else rate.burst
        wait = self._until(left, cost) if left < cost else 0.0
        known[name] = (left if wait else left - cost, now)
        if len(known) > 1:
            self.forget(now)
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
        left, then = self.known.get(name, (rate.burst, now))
        if now > then:
            left += (now - then) * rate.per_minute / 60
        return left if left < rate.burst else rate.burst

    def _until(self, left: float, cost: float) -> float:
        return max(0.0, cost - left) * 60 / self.rate.per_minute

    def _keep(self, name: str, now: float, left: float) -> None:
        # Last in the table: those used longest ago are forgotten first.
        self.known.pop(name, None)
        self.known[name] = (left, now)
        self.forget(now)

    def forget(self, now: float) -> None:
        """Drop the oldest while their time is over, or there are too many."""
        known, idle = self.known, self.idle_secs
        if idle is None:
            idle = (self.rate.burst * 2) * 60 / self.rate.per_minute
        while known:
            oldest = next(iter(known))
            if now - known[oldest][1] < idle and len(known) <= self.max_names:
                return
            del known[oldest]


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
        wait = self.buckets.take(caller.id, self.refusals.seconds(), cost)
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
        wait = self._wait(caller, cost)
        if wait:
            raise self.refusals.refusal(self.word, caller, wait)

    def is_spent(self, caller: Actor) -> bool:
        """Whether nothing is left; takes nothing and counts nothing."""
        return self._wait(caller, 1.0) > 0

    def _wait(self, caller: Actor, cost: float) -> float:
        """In how many seconds so much is there."""
        buckets = self.buckets
        if caller.id not in buckets.known and cost <= buckets.rate.burst:
            return 0.0  # as for nearly everybody who is asked about: nothing was ever charged
        return buckets.wait(caller.id, self.refusals.seconds(), cost)

    def charge(self, caller: Actor) -> None:
        """Take for what has happened, whether it is there or not."""
        self.buckets.charge(caller.id, self.refusals.seconds())

    def give_back(self, caller: Actor, cost: float = 1.0) -> None:
        """Undo a :meth:`spend`, or a part of it: it was not the caller's doing."""
        self.buckets.give_back(caller.id, self.refusals.seconds(), cost)
