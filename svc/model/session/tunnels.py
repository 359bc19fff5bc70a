"""Events in the life of a tunnel, as its Proxy reports them.

The words here are those of document 1; no room spells them again.  Whoever
counts, logs or sends notices receives these values through a callable.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class EndReason(Enum):
    """Why a registered tunnel ended; exactly one reason is reported for each tunnel."""

    CLOSED = "closed"
    TRANSPORT_ERROR = "transport_error"
    KEEPALIVE_FAILED = "keepalive_failed"
    EVICTED = "evicted"
    SUPERSEDED = "superseded"
    LEASE_EXPIRED = "lease_expired"


class Miss(Enum):
    """Why no tunnel serves a resource: a Connector served it before, or none ever did."""

    DEPARTED = "departed"
    UNKNOWN = "unknown"


@frozen
class TunnelRegistered:
    """A tunnel was accepted: one more is active."""

    node_id: str
    resources: tuple[str, ...]


@frozen
class TunnelRefused:
    """A registration was refused before it counted; ``reason`` is the stable word."""

    node_id: str
    reason: str


@frozen
class TunnelEnded:
    """A registered tunnel is over: one fewer is active.

    Attributes:
        seconds: How long it was registered.
        session_uids: The sessions it still carried, which nobody carries now:
            the matter of one departure notice.  Empty: there is none to send.
    """

    node_id: str
    reason: EndReason
    seconds: float
    session_uids: tuple[str, ...] = ()


@frozen
class SessionsLeft:
    """Sessions of a tunnel that had handed over were ended for this reason.

    They outlived their own tunnel's end, and are the matter of one departure notice now.
    """

    node_id: str
    reason: EndReason
    session_uids: tuple[str, ...]


@frozen
class TunnelChanged:
    """A registered tunnel serves other resources now; nothing is counted."""

    node_id: str
    resources: tuple[str, ...]


TunnelEvent = TunnelRegistered | TunnelChanged | TunnelRefused | TunnelEnded | SessionsLeft
