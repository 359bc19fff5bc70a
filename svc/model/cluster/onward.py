"""How a Connector signs on at a target on behalf of a session: the closed set of words."""

from __future__ import annotations

from enum import Enum

from svc.errors import Malformed

NEEDS_ONWARD_AUTH = frozenset({"ssh"})
"""The kinds whose targets are signed on to; discovery admits none of them without a way."""


class OnwardAuth(Enum):
    """One way to sign on at the target."""

    CERTIFICATE = "certificate"
    PASSTHROUGH = "passthrough"
    STORED_KEY = "stored_key"


def ends_at_connector(mode: OnwardAuth | None) -> bool:
    """Whether the protocol of such a resource's sessions ends at its Connector."""
    return mode not in (None, OnwardAuth.PASSTHROUGH)


def read_onward_auth(word: str) -> OnwardAuth:
    """The way that a word names.

    Raises:
        Malformed: it names none; the text lists those there are.
    """
    try:
        return OnwardAuth(word)
    except ValueError:
        known = ", ".join(one.value for one in OnwardAuth)
        raise Malformed(f"onward_auth: must be one of {known}") from None
