"""Compares the clocks of two machines, and says how far they are apart.

What another machine says of its time is never believed: it can only lead to a
refusal, and to the words of one.
"""

from __future__ import annotations

from datetime import UTC, datetime

from svc.errors import Fault, SvcError

MAX_APART_SECS = 30.0
"""Clocks further apart serve nobody: what a person signs is refused as too old past it (R1)."""


class ClockWrong(SvcError):
    """This machine's clock and Authority's are too far apart; nothing was used up."""

    fault = Fault.PRECONDITION
    reason = "clock_wrong"


def check_clock(theirs: float, ours: float, then: str) -> None:
    """Refuse a caller whose clock is too far from ours.

    Args:
        theirs: The caller's Unix time, as it said.
        then: What the caller is to do once the clock is right.

    Raises:
        ClockWrong: with both times, in words for the caller.
    """
    if abs(theirs - ours) <= MAX_APART_SECS:
        return
    raise ClockWrong(
        f"this machine's clock is {apart(theirs, ours)}: it says {utc(theirs)} where Authority's "
        f"says {utc(ours)}; {then}"
    )


def apart(theirs: float, ours: float) -> str:
    """How far a clock that says *theirs* is off where the right time is *ours*."""
    return f"{since(abs(theirs - ours))} {'behind' if theirs < ours else 'ahead'}"


def since(seconds: float) -> str:
    """A length of time: in seconds, and from ten minutes on in minutes, hours or days."""
    whole = max(0, round(seconds))
    if whole < 600:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def typed_duration(seconds: int) -> str:
    """A length of time as a person types it in an option: ``8h``, ``90m``."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def utc(unix_time: float) -> str:
    """A moment in UTC, to the second; of a time that no calendar knows, its number."""
    try:
        return datetime.fromtimestamp(unix_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(unix_time)
