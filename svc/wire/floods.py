"""Limits how much useless work a peer may cause before its connection is ended.

Each useless kind of frame has a budget in a span of time.  What a peer of good will must send in
answer to us (a window update for our data, frames that were under way when we ended a call) is
earned by what we did, so that no honest load is ever counted against it.
"""

from __future__ import annotations

from enum import Enum

from attrs import define, field

from svc.wire.errors import WireError
from svc.wire.limits import WireLimits

YOUNG_SECS = 1.0
"""Resetting an older call brings no more calls than the limit of open ones allows anyway; nor does
resetting one that was answered, as a session is that ends abruptly."""

_UPDATES_A_FRAME = 10
_UPDATES_A_CALL = 5
_LATE_A_CALL = 100
"""Frames that may be under way when we end a call: a window of 1 MiB in frames of 16 KiB, twice."""


class Nuisance(Enum):
    """Things a peer may do that cost us and do no work."""

    RESET = "reset"
    PING = "ping"
    SETTINGS = "settings"
    EMPTY_DATA = "empty_data"
    PRIORITY = "priority"
    WINDOW_UPDATE = "window_update"
    ACKNOWLEDGEMENT = "acknowledgement"
    UNKNOWN = "unknown_frame"
    CLOSED_STREAM = "closed_stream"
    GOAWAY = "goaway"
    INFORMATIONAL = "informational"


@define
class ReplyAllowance:
    """What we did in a span of time that its peer may answer.

    Attributes:
        sent: DATA frames we sent.
        opened: Calls that began, on either side.
        cut: Calls we ended while the peer still sent.
        ended: Calls that are over: of each, one more reset may be under way (RFC 9113 8.1).
    """

    sent: int = 0
    opened: int = 0
    cut: int = 0
    ended: int = 0


_NOTHING = ReplyAllowance()
"""Of the span before the first: counted up by nobody."""


@define
class FloodGuard:
    """Counts nuisances in fixed spans of time and ends a connection that has too many.

    Attributes:
        limits: The budgets.
        allowance: Counted up by the connection.
    """

    limits: WireLimits
    allowance: ReplyAllowance = field(factory=ReplyAllowance)
    _before: ReplyAllowance = field(default=_NOTHING)
    _began: float = 0.0
    _counts: dict[Nuisance, int] = field(factory=dict)

    def count(self, what: Nuisance, now: float) -> None:
        """Note one.

        Raises:
            WireError: with reason ``<nuisance>_flood`` when this span holds too many.
        """
        if now - self._began >= self.limits.nuisance_seconds:
            self._began = now
            self._counts.clear()
            # The peer may still be answering what the last span earned it.
            self._before, self.allowance = self.allowance, ReplyAllowance()
        seen = self._counts.get(what, 0) + 1
        self._counts[what] = seen
        if seen > self._budget(what):
            raise WireError(f"too many frames of kind {what.value}", reason=f"{what.value}_flood")

    def _budget(self, what: Nuisance) -> int:
        if what is Nuisance.RESET:
            return self.limits.resets
        return self.limits.nuisances + self._earned_for(what)

    def _earned_for(self, what: Nuisance) -> int:
        now, before = self.allowance, self._before
        if what is Nuisance.WINDOW_UPDATE:
            opened = now.opened + before.opened
            return _UPDATES_A_FRAME * (now.sent + before.sent) + _UPDATES_A_CALL * opened
        if what is Nuisance.PING:
            # Some measure the path by pings among the data they receive.
            return now.sent + before.sent
        if what is Nuisance.CLOSED_STREAM:
            return _LATE_A_CALL * (now.cut + before.cut) + now.ended + before.ended
        return 0
