"""The end of a session as a Proxy reports it to Authority."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from svc.errors import Malformed
from svc.messages.forms import WORD, FieldForm, MessageForm
from svc.model.session.session import DIRECT, IN_TUNNEL
from svc.proto.gate.v1 import control_pb2 as pb

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
    return [_ENDED.message(one) for one in sessions]


def read_ended_messages(messages: Iterable[pb.EndedSession]) -> tuple[CountedEnd, ...]:
    """Ends as they came; how many is the caller's matter."""
    return tuple(map(_ENDED.read, messages))


def _lane(came: str, what: str) -> str:
    # An older Proxy does not tell it.
    if came not in ("", IN_TUNNEL, DIRECT):
        raise Malformed(f"{what}: neither in_tunnel nor direct")
    return came or IN_TUNNEL


_COUNT = FieldForm(read=lambda came, what: min(came, _LARGEST))
_ENDED = MessageForm(
    pb.EndedSession,
    CountedEnd,
    "ended session",
    session_uid=WORD,
    reason=WORD,
    bytes_up=_COUNT,
    bytes_down=_COUNT,
    lane=FieldForm(read=_lane),
)
