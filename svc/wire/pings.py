"""Limits the pings that a server accepts: enough for a keepalive, and no more.

The rule is gRPC's (proposal A8), with a shorter time than its five minutes because our own roles
look for signs of life every few seconds, with and without calls.
"""

from __future__ import annotations

from math import inf

from attrs import define

from svc.wire.errors import WireError

TOO_MANY_PINGS = "too_many_pings"
"""The reason, and what the GOAWAY says to the peer."""

_STRIKES = 2


@define
class PingGuard:
    """Ends a connection whose peer pings sooner than it may, a third time.

    A frame of ours that a ping may be measured against (HEADERS, DATA) wipes the slate: callers
    ping to learn the delay of what they receive.
    """

    least_secs: float
    _good_at: float = -inf
    _strikes: int = 0

    def sent(self) -> None:
        """HEADERS or DATA were written to the peer."""
        self._good_at, self._strikes = -inf, 0

    def came(self, now: float) -> None:
        """A ping came.

        Raises:
            WireError: with reason ``too_many_pings``.
        """
        if now - self._good_at >= self.least_secs:
            self._good_at = now
            return
        self._strikes += 1
        if self._strikes > _STRIKES:
            raise WireError("pings arrive more often than is allowed here", reason=TOO_MANY_PINGS)
