"""The lease of a registration: it ends unless it is renewed in time."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime


class TunnelLease:
    """Runs from the start on.

    Args:
        clock: Where it is measured.
        seconds: How long it holds after the start and after each renewal.
        expired: Called once, if it runs out.
    """

    def __init__(self, clock: IReactorTime, seconds: float, expired: Callable[[], object]) -> None:
        self._seconds = seconds
        self._running = clock.callLater(seconds, expired)

    def renew(self) -> None:
        """Begin it again.  An ended lease stays ended."""
        if self._running.active():
            self._running.reset(self._seconds)

    def stop(self) -> None:
        """End it without a word.  Idempotent."""
        if self._running.active():
            self._running.cancel()
