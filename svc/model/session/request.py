"""What a person signs: a request to open one session to one resource through one Proxy now.

A Proxy is a courier (rule R1): it carries these values and cannot make them.
Authority and the Connector each verify the signature over the very bytes that
came, take a request once, and only while it is fresh.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from svc.model.clocks import MAX_APART_SECS, apart, utc

MAX_AGE_MS = int(MAX_APART_SECS * 1000)
"""A request older than this, or as far in the future, is refused (R1)."""


@frozen
class SessionRequest:
    """One request for one session.

    Attributes:
        session_uid: 32 hex digits, random, made by the client.
        action: The Cedar action asked for, such as ``sshConnect``.
        proxy_id: The node id of the Proxy the client speaks to.
        issued_at_ms: Unix time in milliseconds.
        certificate_sha256: Of the person's leaf certificate, 32 bytes.
        parameters: What is asked for beyond the resource, by names of the kind.
        half: Of a gated session: the person's half of the exchange of its frames' keys.
    """

    cluster: str
    session_uid: str
    resource: str
    kind: str
    action: str
    proxy_id: str
    issued_at_ms: int
    certificate_sha256: bytes
    parameters: Mapping[str, str] = field(factory=dict)
    half: bytes = b""


@frozen
class WhyRequest:
    """A person's question about one decision, signed like a session request."""

    cluster: str
    decision_id: str
    proxy_id: str
    issued_at_ms: int
    certificate_sha256: bytes


def is_fresh(issued_at_ms: int, now: float) -> bool:
    """Whether a request signed at this time may still be accepted at *now* (Unix seconds)."""
    return abs(now * 1000 - issued_at_ms) <= MAX_AGE_MS


def stale(issued_at_ms: int, now: float) -> str:
    """Why a request signed at this time is refused at *now*, for its signer."""
    signed = issued_at_ms / 1000
    hint = "set the clock"
    if signed <= now:
        hint = "set the clock; if it is right, the request was delayed on the way"
    return (
        f"this machine's clock is {apart(signed, now)}: it signed at {utc(signed)}, "
        f"and Authority's clock says {utc(now)}; {hint}"
    )
