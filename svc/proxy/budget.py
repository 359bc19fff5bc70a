"""What one address may ask of the public listener without showing who it is.

A token bucket an address, in a table of bounded size; the key is the TCP
peer's address, never a header (rule R18).  Health is not counted at all.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.errors import Fault, SvcError
from svc.model.source import source_of

MAX_SOURCES = 65_536
IDLE_SECS = 600.0
"""An address that has asked nothing for so long is forgotten."""


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

    def take(self, host: str, now: float) -> float:
        """Take one call of *host*.

        Args:
            now: Seconds of a steady clock.

        Returns:
            0 where one was left and is taken; else in how many seconds there is one.
        """
        self._forget(now)
        key = source_of(host)
        left, then = self._buckets.pop(key, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.per_minute / 60)
        allowed = left >= 1
        # Last in the table: those that asked longest ago are forgotten first.
        self._buckets[key] = (left - 1 if allowed else left, now)
        if len(self._buckets) > MAX_SOURCES:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if allowed else (1 - left) * 60 / self.per_minute

    def sources(self, now: float) -> int:
        """How many addresses are remembered."""
        self._forget(now)
        return len(self._buckets)

    def _forget(self, now: float) -> None:
        while self._buckets:
            oldest = next(iter(self._buckets))
            if now - self._buckets[oldest][1] < IDLE_SECS:
                return
            del self._buckets[oldest]


@define
class AnonymousCalls:
    """Charges calls to the budget of the address they come from.

    Attributes:
        refused: Told the name of each method that was refused, ``Service/Method`` without the
            package; a name that a caller made up reaches it as ``other``.
    """

    clock: IReactorTime
    budget: AddressBudget = field(factory=AddressBudget)
    refused: Callable[[str], object] = lambda rpc: None

    def charge(self, rpc: str, host: str) -> None:
        """Count one call of *host*.

        Raises:
            SvcError: ``anonymous_budget``, with the seconds after which the next may pass.
        """
        wait = self.budget.take(host, self.clock.seconds())
        if not wait:
            return
        self.refused(rpc)
        raise SvcError(
            f"too many calls without a certificate from one address; try again in {ceil(wait)} s",
            reason="anonymous_budget",
            fault=Fault.EXHAUSTED,
            retry_after=wait,
        )
