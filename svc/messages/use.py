"""``gate.v1.SessionUse``: what a session did with its rights, as its Connector counts it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from svc.errors import Malformed
from svc.messages.forms import MessageForm, part
from svc.messages.gated import SIGNED_GRANT
from svc.model.signing import Signed
from svc.proto.gate.v1 import identity_pb2 as pb

REPORT_METHOD = "/gate.v1.SessionUse/Report"
MAX_USED = 64
DENIED = "denied "
"""Before the name of a right that was asked for in vain."""

_MOST_NAME = 64
_GRANT = MessageForm(
    pb.SessionUseRequest, lambda grant: grant, "session use", grant=part(SIGNED_GRANT)
)


@frozen
class SessionUse:
    """What a Connector reports of a session that is over.

    Attributes:
        grant: Of the session, as Authority signed it; as it comes it is unverified.
        used: How often, by the name of a right; behind ``denied`` what was refused.
    """

    grant: Signed
    used: Mapping[str, int]


def use_request(use: SessionUse) -> pb.SessionUseRequest:
    """As it travels."""
    used = [pb.UsedRight(name=name, count=count) for name, count in sorted(use.used.items())]
    return pb.SessionUseRequest(grant=SIGNED_GRANT.written(use.grant), used=used)


def read_use(message: pb.SessionUseRequest) -> SessionUse:
    """As it came.

    Raises:
        Malformed: it is none.
    """
    grant: Signed = _GRANT.read(message)
    if len(message.used) > MAX_USED:
        raise Malformed("session use: too many names")
    used: dict[str, int] = {}
    last = ""
    for one in message.used:
        if not last < one.name <= "~" or len(one.name) > _MOST_NAME or not one.count:
            raise Malformed("session use: a name is out of order, too long or counts nothing")
        used[one.name], last = one.count, one.name
    return SessionUse(grant, used)
