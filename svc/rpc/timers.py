"""The timers of one connection, by name: of each name one runs at most."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class NamedTimers(dict[str, IDelayedCall]):
    """Those that run.  It is a dictionary itself, so that a connection keeps one object for it."""

    __slots__ = ("_clock",)

    def __init__(self, clock: IReactorTime) -> None:
        super().__init__()
        self._clock = clock

    def after(self, name: str, seconds: float, call: Callable[[], object]) -> None:
        """Run *call* after so many seconds, in the place of the timer of this name."""
        self.stop(name)
        self[name] = self._clock.callLater(seconds, self._due, name, call)

    def stop(self, name: str) -> None:
        """Stop the one of this name, if it runs."""
        if (timer := self.pop(name, None)) is not None and timer.active():
            timer.cancel()

    def stop_all(self) -> None:
        """Stop all of them."""
        for name in tuple(self):
            self.stop(name)

    def _due(self, name: str, call: Callable[[], object]) -> None:
        self.pop(name, None)
        call()
