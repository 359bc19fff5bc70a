"""``gate.v1.Relay``: which lane a relayed connection asks for."""

from __future__ import annotations

from enum import Enum

from svc.errors import Malformed
from svc.messages.forms import parse
from svc.proto.gate.v1 import relay_pb2 as pb

OPEN_METHOD = "/gate.v1.Relay/Open"


class Lane(Enum):
    """One way to one Authority listener (rule R18)."""

    JOIN = "join"
    RENEWAL = "renewal"
    ADMIN = "admin"


def encode_relay_open(lane: Lane) -> bytes:
    """The first frame of a relayed connection."""
    return pb.RelayOpen(lane=lane.value).SerializeToString()


def decode_relay_open(data: bytes) -> Lane:
    """The lane a caller asks for."""
    message = parse(pb.RelayOpen, data, 256, "relay open")
    try:
        return Lane(message.lane)
    except ValueError:
        raise Malformed("relay open: unknown lane") from None
