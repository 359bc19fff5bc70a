"""What one connection may hold, and how much useless work its peer may cause.

All sizes are bytes.  The defaults suit a public listener; a tunnel asks for more streams.
"""

from __future__ import annotations

from enum import Enum

from attrs import define, evolve, field, frozen

from svc.wire.errors import WireError

KIB = 1024
MIB = 1024 * KIB


class Nuisance(Enum):
    """Things a peer may do that cost us and bring nobody forward."""

    RESET = "reset"
    PING = "ping"
    SETTINGS = "settings"
    EMPTY_DATA = "empty_data"
    PRIORITY = "priority"


@frozen
class WireLimits:
    """Bounds of one connection.

    Attributes:
        max_streams: Calls a peer may have open; the next one is refused alone.
        max_frame: The longest frame we accept.
        small_window: What every stream may be sent at first.
        first_window: What it may be sent once it carries bulk data.
        full_window: What it grows to while its reader keeps up.
        crowded: Once the streams' windows add up to this, none is raised any more.
        connection_window: What may be under way to us over all streams.
        max_message: The longest message a reader takes.
        run_ahead: Bytes of unfinished messages longer than their windows, over all streams; the
            stream that would hold more is reset.
        max_header_list: The longest header list, counted as HTTP/2 counts.
        send_queue: Bytes a stream's writer may queue before it waits.
        held_control: Answers (acknowledgements, window updates) held for a peer that does not read.
        nuisances: How many of each :class:`Nuisance` in ``nuisance_seconds`` are borne.
    """

    max_streams: int = 1000
    max_frame: int = 256 * KIB
    small_window: int = 64 * KIB
    first_window: int = 256 * KIB
    full_window: int = MIB
    crowded: int = 64 * MIB
    connection_window: int = 16 * MIB
    max_message: int = 4 * MIB
    run_ahead: int = 64 * MIB
    max_header_list: int = 32 * KIB
    send_queue: int = 256 * KIB
    held_control: int = 64 * KIB
    nuisances: int = 500
    nuisance_seconds: float = 10.0


def anonymous(limits: WireLimits) -> WireLimits:
    """What is left of *limits* for a peer without a certificate.

    It asks for health or opens a lane: one call does, and its longest message is one frame of a
    byte stream.
    """
    return evolve(
        limits,
        max_streams=min(limits.max_streams, 32),
        max_message=min(limits.max_message, 257 * KIB),
    )


@define
class FloodGuard:
    """Counts nuisances in fixed spans of time and ends a connection that has too many."""

    _limits: WireLimits
    _began: float = 0.0
    _counts: dict[Nuisance, int] = field(factory=dict)

    def count(self, what: Nuisance, now: float) -> None:
        """Note one.

        Raises:
            WireError: with reason ``flood`` when this span holds too many.
        """
        if now - self._began >= self._limits.nuisance_seconds:
            self._began = now
            self._counts.clear()
        seen = self._counts.get(what, 0) + 1
        self._counts[what] = seen
        if seen > self._limits.nuisances:
            raise WireError(f"too many frames of kind {what.value}", reason="flood")
