"""Sessions as the Authority stores them: who reached what, when, how much."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

IN_TUNNEL = "in_tunnel"
DIRECT = "direct"
"""The lanes that carry a session's bytes."""

UNKNOWN_LANE = "unknown"
"""Of a session whose Proxy was lost before this Authority heard of its lane."""


class SessionState(Enum):
    """Where a session is in its life."""

    OPEN = "open"
    ENDED = "ended"
    ABANDONED = "abandoned"


@frozen
class Session:
    """One session row; times are seconds since the epoch, bytes are payload.

    ``end_reason`` of an open session is why an operator ends it; empty: nobody does.
    """

    uid: str
    person_id: str
    resource_id: str
    kind: str
    connector_id: str
    proxy_id: str
    decision_id: str
    started_at: float
    state: SessionState = SessionState.OPEN
    ended_at: float | None = None
    end_reason: str = ""
    bytes_up: int = 0
    bytes_down: int = 0


@frozen
class SessionEnd:
    """How a session ended; ``state`` is ``ENDED`` or ``ABANDONED``."""

    at: float
    reason: str
    bytes_up: int = 0
    bytes_down: int = 0
    state: SessionState = SessionState.ENDED


class ReportedEnd(Enum):
    """What the store knew of a session that is reported as ended."""

    WAS_OPEN = "was_open"
    ALREADY_ENDED = "already_ended"
    UNKNOWN = "unknown"
