"""What a Connector tells of its sessions, to whoever counts them."""

from __future__ import annotations

from attrs import frozen


@frozen
class SessionOpened:
    """A session began: its target answered and its person was seen."""

    session_uid: str
    resource: str
    kind: str


@frozen
class SessionEnded:
    """A session that had opened is over.

    Attributes:
        bytes_up: From the person to the target; ``bytes_down`` the other way.
        reason: A word of :mod:`svc.model.session.ending`.
    """

    session_uid: str
    resource: str
    kind: str
    seconds: float
    bytes_up: int
    bytes_down: int
    reason: str


@frozen
class SessionRefused:
    """A session did not open; ``reason`` is a stable word."""

    session_uid: str
    reason: str


SessionEvent = SessionOpened | SessionEnded | SessionRefused
