"""The end of a session as a Proxy reports it to Authority."""

from __future__ import annotations

from attrs import frozen

from svc.messages.forms import WORD, MessageForm, cut_to, one_of
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


_COUNT = cut_to(_LARGEST)
_LANES = {IN_TUNNEL: IN_TUNNEL, DIRECT: DIRECT, "": IN_TUNNEL}  # an older Proxy does not tell it
ENDED = MessageForm(
    pb.EndedSession,
    CountedEnd,
    "ended session",
    session_uid=WORD,
    reason=WORD,
    bytes_up=_COUNT,
    bytes_down=_COUNT,
    lane=one_of(_LANES, "neither in_tunnel nor direct"),
)
"""One end; how many may come at once is the matter of who takes them."""
