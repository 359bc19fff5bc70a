"""Counts failed sign-ins, and makes whoever failed often wait; pure.

By account and source together, so that nobody who fails makes somebody else
wait.  A machine on which the person has signed in before is a source of its own;
all others are known by the address that Authority sees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from attrs import define, field

FREE_TRIES = 5
MOST_SECS = 900.0
_MOST_DOUBLINGS = 10
"""Past these the wait is the longest; the power of a count without an end overflows."""

_FORGET_SECS = 3600.0
_MOST_SOURCES = 10_000
"""Past these the one that failed longest ago is forgotten; each try costs its source a budget."""


@define
class _Failures:
    count: int
    until: float
    at: float


@define
class Lockouts:
    """Those that failed.

    Attributes:
        seconds: A steady clock.
    """

    seconds: Callable[[], float]
    _known: OrderedDict[tuple[str, str], _Failures] = field(factory=OrderedDict, init=False)

    def begin(self, account: str, source: str) -> bool:
        """Count a try as failed before it is judged, as many may come at once.

        Returns:
            Whether it may be judged; False while the source has to wait for this account.
        """
        now, key = self.seconds(), (account, source)
        known = self._known.get(key)
        if known is not None and now < known.until:
            return False
        if known is None or now >= known.at + _FORGET_SECS:
            known = _Failures(0, now, now)
        known.count, known.at = known.count + 1, now
        if known.count >= FREE_TRIES:
            doublings = min(known.count - FREE_TRIES + 1, _MOST_DOUBLINGS)
            known.until = now + min(2.0**doublings, MOST_SECS)
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > _MOST_SOURCES:
            self._known.popitem(last=False)
        return True

    def succeeded(self, account: str, source: str) -> None:
        """The try was good after all; those before it are forgotten."""
        self._known.pop((account, source), None)

    def take_back(self, account: str, source: str) -> None:
        """The try that was begun last got no answer: it does not count."""
        known = self._known.get((account, source))
        if known is not None:
            known.count, known.until = known.count - 1, self.seconds()
