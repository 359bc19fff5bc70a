"""The end of a session as a Proxy reports it to Authority."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from svc.errors import Malformed
from svc.messages.checks import text
from svc.model.session.session import DIRECT, IN_TUNNEL
from svc.proto.gate.v1 import control_pb2 as pb

_WORD = 63
_LARGEST = 2**53
"""Numbers that enter a record stay within what every JSON reader keeps."""


@frozen
class CountedEnd:
    """One session's end as the Proxy counted it."""

    session_uid: str
    reason: str
    bytes_up: int = 0
    bytes_down: int = 0
    lane: str = IN_TUNNEL


def ended_messages(sessions: Iterable[CountedEnd]) -> list[pb.EndedSession]:
    """Ends as they travel."""
    return [
        pb.EndedSession(
            session_uid=one.session_uid,
            reason=one.reason,
            bytes_up=one.bytes_up,
            bytes_down=one.bytes_down,
            lane=one.lane,
        )
        for one in sessions
    ]


def read_ended_messages(messages: Iterable[pb.EndedSession]) -> tuple[CountedEnd, ...]:
    """Ends as they came; how many is the caller's matter."""
    return tuple(
        CountedEnd(
            session_uid=text(one.session_uid, _WORD, "ended session: uid"),
            reason=text(one.reason, _WORD, "ended session: reason"),
            bytes_up=min(one.bytes_up, _LARGEST),
            bytes_down=min(one.bytes_down, _LARGEST),
            lane=_lane(one.lane),
        )
        for one in messages
    )


def _lane(word: str) -> str:
    # An older Proxy does not tell it.
    if word not in ("", IN_TUNNEL, DIRECT):
        raise Malformed("ended session: lane: neither in_tunnel nor direct")
    return word or IN_TUNNEL
