"""What another Proxy may say of a session: why it is not opened, and why it ends.

It is another machine, and may be taken over; what it says is recorded, and shown to the person.  So
it is believed in what only it can know, its tunnel and its Connector's words, and in nothing that
this Proxy decides, or can see in its own snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from svc.errors import Denied, Fault, SvcError
from svc.messages.snapshot import REVOCATIONS
from svc.model.session.ending import (
    APPROVER_GONE,
    ASSIGNMENT_CHANGED,
    DRAINING,
    ENDED_BY_OPERATOR,
    ENDED_BY_PERSON,
    ENDINGS,
    PEER_PROXY_LOST,
    PEER_PROXY_REFUSED,
    PEER_PROXY_REVOKED,
    PEER_PROXY_UNREACHABLE,
    PROXY_REVOKED,
    SESSION_MISMATCH,
)
from svc.model.session.tunnels import EndReason
from svc.proxy.sessions.ending import CONNECTORS_OWN
from svc.proxy.sessions.granted import MISSES
from svc.tunnel.refusals import CONNECTOR_WORDS, received_refusal
from svc.tunnel.transport import TUNNEL_WORD

_OF_THE_SNAPSHOT = frozenset(REVOCATIONS) | {
    APPROVER_GONE,
    ENDED_BY_OPERATOR,
    ENDED_BY_PERSON,
    SESSION_MISMATCH,
}
"""What the Authority says to both Proxies."""

_TUNNEL_WORDS = frozenset(TUNNEL_WORD + one.value for one in EndReason)

_ENDS = (CONNECTORS_OWN - _OF_THE_SNAPSHOT) | _TUNNEL_WORDS
_ENDS |= {"carry_ended", ASSIGNMENT_CHANGED, DRAINING, PEER_PROXY_REVOKED}

_REFUSALS = MappingProxyType(
    {
        **MISSES,
        **dict.fromkeys(_TUNNEL_WORDS, Fault.UNAVAILABLE),
        DRAINING: Fault.UNAVAILABLE,
        "open_deadline": Fault.DEADLINE,
        PEER_PROXY_LOST: Fault.UNAVAILABLE,
        PEER_PROXY_REFUSED: Fault.UNAVAILABLE,
        PEER_PROXY_REVOKED: Fault.DENIED,
        PEER_PROXY_UNREACHABLE: Fault.UNAVAILABLE,
    }
)
"""Beside the Connector's: why a session is not opened, and the sort of refusal that is."""

_GONE = frozenset({Fault.UNAVAILABLE, Fault.DEADLINE, Fault.UNKNOWN})
"""How a call fails that nobody has answered."""


def believed_ending(word: str, check: Callable[[], object]) -> str:
    """How a session ends whose stream the other Proxy ended with this word.

    Args:
        check: Raises Denied where our own snapshot ends the session.

    Returns:
        One of ``ENDINGS``; empty: it is our own snapshot's to say, which has not come yet.
    """
    if word in _OF_THE_SNAPSHOT:
        return word if word == _own_word(check) else ""
    word = PEER_PROXY_REVOKED if word == PROXY_REVOKED else word
    return word if word in _ENDS else PEER_PROXY_LOST


def believed_refusal(refusal: SvcError, check: Callable[[], object]) -> SvcError:
    """Why a session is not opened, in our words and of a sort that we say.

    Args:
        refusal: The other Proxy's, or one of our own way to it.
        check: Raises Denied where our own snapshot refuses the session.
    """
    word = PEER_PROXY_REVOKED if refusal.reason == PROXY_REVOKED else refusal.reason
    if word in CONNECTOR_WORDS:
        return received_refusal(word)
    if word in _OF_THE_SNAPSHOT and word == _own_word(check):
        return Denied(ENDINGS[word], reason=word)
    if word not in _REFUSALS:
        word = PEER_PROXY_UNREACHABLE if refusal.fault in _GONE else PEER_PROXY_REFUSED
    return SvcError(ENDINGS[word], reason=word, fault=_REFUSALS[word])


def _own_word(check: Callable[[], object]) -> str:
    try:
        check()
    except Denied as ours:
        return ours.reason
    return ""
