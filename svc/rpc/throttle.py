"""Reads slowly from a peer that asks too much: a little at a time, with pauses.

What it sends meanwhile waits in its own sockets, so that a flood of calls that
are refused leaves the reactor's time to everybody else.  A peer that has been
quiet for a while is read as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime

_PIECE = 256
"""Bytes read at once: the beginnings of a few calls.  More of them would be refused in one turn."""

_CALM_SECS = 10.0


class ReadThrottle:
    """The pauses of one connection.

    Args:
        clock: Times them.
        transport: Is paused; what it had read before is kept here, at most one read of it.
        feed: Takes the bytes; may call :meth:`hold`.
    """

    def __init__(
        self, clock: IReactorTime, transport: Any, feed: Callable[[bytes], object]
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._feed = feed
        self._later = bytearray()
        self._until = 0.0
        self._is_feeding = False
        self._timer: IDelayedCall | None = None

    def hold(self, seconds: float) -> None:
        """Feed nothing more for so long, counted from now; the longest of several holds counts."""
        self._until = max(self._until, self._clock.seconds() + seconds)
        if self._timer is None and seconds > 0:
            self._transport.pauseProducing()
            self._timer = self._clock.callLater(seconds, self._go_on)

    def received(self, data: bytes) -> None:
        """The transport has read *data*."""
        is_calm = self._clock.seconds() - self._until >= _CALM_SECS
        if is_calm and not self._later and not self._is_feeding:
            self._feed(data)
            return
        self._later += data
        self._feed_some()

    def stop(self) -> None:
        """The connection is gone.  Idempotent."""
        self._later.clear()
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _go_on(self) -> None:
        left = self._until - self._clock.seconds()
        if left > 0:
            self._timer = self._clock.callLater(left, self._go_on)
            return
        self._timer = None
        self._feed_some()
        if self._timer is None:
            self._transport.resumeProducing()

    def _feed_some(self) -> None:
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._later and self._timer is None:
                piece = bytes(self._later[:_PIECE])
                del self._later[:_PIECE]
                self._feed(piece)
        finally:
            self._is_feeding = False
