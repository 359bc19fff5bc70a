"""The first bytes of a connection that is one half of a direct lane, and their answer.

A preface is told from TLS by its first byte.  It is of fixed length and carries
nothing but a one-use token; whoever sent it waits for the answer before it sends
more, so a half that finds no other has lost nothing.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.session import LANE_TOKEN_BYTES

GO = b"svc-lane-v1 go\n"
"""Said to both halves at once: from here on it is the other one that answers."""

_MAGIC = b"svc-lane-v1 "
FIRST = _MAGIC[:1]
"""No TLS record begins with it."""

PREFACE_BYTES = len(_MAGIC) + 1 + LANE_TOKEN_BYTES


class Side(Enum):
    """Whose half it is."""

    PERSON = b"p"
    CONNECTOR = b"c"


@frozen
class Preface:
    """What a half says of itself."""

    side: Side
    token: bytes = field(repr=False)

    def encode(self) -> bytes:
        """As it travels."""
        return _MAGIC + self.side.value + self.token


def parse_preface(data: bytes) -> Preface:
    """A whole preface, of :data:`PREFACE_BYTES`.

    Raises:
        Malformed: it is none.
    """
    at = len(_MAGIC)
    if len(data) != PREFACE_BYTES or not data.startswith(_MAGIC):
        raise Malformed("a connection began with neither TLS nor a lane's preface")
    for side in Side:
        if data[at : at + 1] == side.value:
            return Preface(side, data[at + 1 :])
    raise Malformed("a lane's preface names neither side")
