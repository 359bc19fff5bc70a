"""Measures how late a process's reactor runs its timers.

A timer on the reactor's own clock is due every 100 ms; how much later than
that it comes is what any other event had to wait for its turn.  A reactor that
is held for two seconds has kept twenty timers waiting, each a tenth of a second
less than the one before, and all twenty are told: one long hold among a
thousand short turns is then seen as large as it was to those who came meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime

EVERY_SECS = 0.1
MOST_SAMPLES = 100
"""Of one hold, the longest waits first: a process stopped for a day tells no more at a time."""


@define(slots=False, eq=False)
class ReactorLag(Service):
    """Tells the lateness of each timer, in seconds.

    Attributes:
        clock: The reactor whose turns are measured.
        on_sample: Called ten times a second; must not block.
    """

    clock: IReactorTime
    on_sample: Callable[[float], object]
    _due: float = field(default=0.0, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)

    def startService(self) -> None:
        """The first timer is due from now on."""
        Service.startService(self)
        self._due = self.clock.seconds()
        self._await(1)

    def stopService(self) -> None:
        """Cancel the timer."""
        Service.stopService(self)
        waiting, self._next = self._next, None
        if waiting is not None:
            waiting.cancel()

    def _look(self) -> None:
        late = max(0.0, self.clock.seconds() - self._due)
        missed = int(late / EVERY_SECS)
        for number in range(min(missed + 1, MOST_SAMPLES)):
            self.on_sample(late - number * EVERY_SECS)
        self._await(missed + 1)

    def _await(self, timers: int) -> None:
        """The next is due so many timers after the one before: a late one delays no other."""
        self._due += timers * EVERY_SECS
        self._next = self.clock.callLater(max(0.0, self._due - self.clock.seconds()), self._look)
