"""The engines that were in force a moment ago: what a Proxy may still have decided by.

A Proxy decides by the newest snapshot that it has, which may be a minute old (rule R15), and its
records take a moment more.  So whoever decides a request again has to ask the engines of then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field, frozen

from svc.interfaces.policy import IPolicyEngine

LAG_SECS = 120.0
"""A snapshot is valid for 60 s, clocks are up to 30 s apart, and some for the way of a snapshot."""

_KEEP_SECS = 300.0
_MOST = 4
"""Each holds all entities."""


@frozen
class _Replaced:
    engine: IPolicyEngine
    at: float


@define
class RecentEngines:
    """Remembers each engine for a while after it was replaced."""

    now: Callable[[], float]
    _current: IPolicyEngine | None = field(default=None, init=False)
    _replaced: deque[_Replaced] = field(factory=deque, init=False)
    _forgotten_at: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        # What was in force before this process began is not known.
        self._forgotten_at = self.now()

    def came(self, engine: IPolicyEngine) -> None:
        """This engine is in force from now on."""
        now = self.now()
        if self._current is not None:
            self._replaced.append(_Replaced(self._current, now))
        self._current = engine
        while self._replaced and (
            len(self._replaced) > _MOST or self._replaced[0].at < now - _KEEP_SECS
        ):
            self._forgotten_at = self._replaced.popleft().at

    def at(self, time: float) -> tuple[IPolicyEngine, ...]:
        """All engines that a Proxy may have decided by at *time*, newest first."""
        since = time - LAG_SECS
        found = [] if self._current is None else [self._current]
        found += [one.engine for one in reversed(self._replaced) if one.at >= since]
        return tuple(found)

    def are_all_known(self, time: float) -> bool:
        """Whether :meth:`at` leaves none out."""
        return self._forgotten_at < time - LAG_SECS
