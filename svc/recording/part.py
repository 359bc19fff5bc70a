"""``gate.v1.Recordings``: the bytes of a recording's file, from its Connector to Authority."""

from __future__ import annotations

from attrs import frozen

from svc.errors import Malformed
from svc.messages.forms import FieldForm, MessageForm, part
from svc.messages.gated import SIGNED_GRANT
from svc.model.recording import MOST_CHANNELS, is_reason
from svc.model.signing import Signed
from svc.proto.gate.v1 import recording_pb2 as pb

PUT_METHOD = "/gate.v1.Recordings/Put"
MOST_PART = 1 << 18
"""Bytes of a file in one message."""

MOST_FILE = 1 << 40


@frozen
class RecordingPart:
    """The next bytes of a recording's file.

    Attributes:
        signed: The grant of the session, as Authority signed it; as it comes it is unverified.
        is_last: The file ends with them.
        reason: Why it was cut short, where the file does not say so itself.
    """

    signed: Signed
    channel: int
    offset: int
    data: bytes = b""
    is_last: bool = False
    reason: str = ""


_PART = MessageForm(
    pb.PutRecordingRequest,
    RecordingPart,
    "recording",
    signed=part(SIGNED_GRANT).named("grant"),
    channel=FieldForm(fits=lambda came: came < MOST_CHANNELS),
    offset=FieldForm(fits=lambda came: came < MOST_FILE),
    data=FieldForm(sizes=(0, MOST_PART)),
    is_last=FieldForm().named("last"),
    reason=FieldForm(fits=is_reason),
)


def put_request(one: RecordingPart) -> pb.PutRecordingRequest:
    """As it travels."""
    return pb.PutRecordingRequest(
        grant=SIGNED_GRANT.written(one.signed),
        channel=one.channel,
        offset=one.offset,
        data=one.data,
        last=one.is_last,
        reason=one.reason,
    )


def read_put(message: pb.PutRecordingRequest) -> RecordingPart:
    """As it came.

    Raises:
        Malformed: it is none.
    """
    found: RecordingPart = _PART.read(message)
    if found.reason and not found.is_last:
        raise Malformed("recording: a reason comes with the last bytes")
    return found
