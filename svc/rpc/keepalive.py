"""When a silent connection is asked for a sign of life.

Many callers ask at common times, so that what they send arrives together.

Whoever serves thousands of idle connections is woken for each word on one of them, and finds its
code and memory gone from the processor's caches each time.  Words that come together cost it a
third less.  Callers whose wait may be a little shorter therefore end it at a tenth of a second of
the wall clock: machines whose clocks agree to some milliseconds then speak at the same times, and
those whose clocks do not lose nothing.  A tenth is short enough for what comes in it to delay
nobody (15 words of 2,000 tunnels, 1 to 2 ms).

Linux does so with timers within one machine (``round_jiffies``).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, frozen

PERMITTED_SECONDS = 300.0
"""Pings so far apart are borne by every gRPC server that is left as it comes."""

DIALER_SILENCE = 0.9
"""Of its interval, until the end that dialed pings."""

TICK_SECS = 0.1
"""How much shorter a wait becomes at most."""


@frozen
class CommonTicks:
    """Shortens waits.

    Attributes:
        now: Seconds since the epoch.
    """

    now: Callable[[], float]

    def shortened(self, seconds: float) -> float:
        """The wait that ends with the last tick of the next so many seconds.

        Args:
            seconds: More than a tick.
        """
        return seconds - (self.now() + seconds) % TICK_SECS


@define
class Keepalive:
    """When a silent connection is asked for a sign of life, and how long it has to give one.

    Whoever dials the same server again and again keeps one of these for it.

    Attributes:
        interval: Seconds of silence before a ping.  Where both ends ask, the one that dialed pings
            a little earlier: the other hears that, and need not ping.
        timeout: Seconds from a ping to its answer.
        ticks: Where those who dial ping at common times; None: each at its own.
    """

    interval: float
    timeout: float
    ticks: CommonTicks | None = None

    def slow_down(self) -> None:
        """The server finds that too often: the next connection's pings come half as often.

        Never further apart than what every gRPC server permits unasked.
        """
        self.interval = max(self.interval, min(2 * self.interval, PERMITTED_SECONDS))
