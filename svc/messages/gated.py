"""``gate.v1``: what is signed about gated sessions, by their Connectors and by Authority."""

from __future__ import annotations

from attrs import frozen

from svc.messages.forms import (
    DIGEST,
    MAX_SIGNED_BYTES,
    NAME,
    NAME_OR_EMPTY,
    PLAIN,
    UID,
    WORD,
    WORD_OR_EMPTY,
    MessageForm,
    SignedForm,
    bounded,
    chain,
    octets,
    part,
    signature_form,
)
from svc.model.session.checkpoint import GrantExtension, SessionCheckpoint
from svc.model.session.halves import HALF_BYTES, SessionAnswer
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2
from svc.proto.gate.v1 import session_pb2 as pb

CHECKPOINT_METHOD = "/gate.v1.Tunnel/Checkpoint"
AUTHORITY_CHECKPOINT_METHOD = "/gate.v1.Control/Checkpoint"


_ANSWER = SignedForm(
    pb.SessionAnswer,
    SessionAnswer,
    "session answer",
    cluster=NAME,
    session_uid=UID,
    connector_id=WORD,
    request_sha256=DIGEST,
    half=octets(HALF_BYTES),
)
encode_answer, decode_answer = _ANSWER.encode, _ANSWER.decode
"""What a Connector signs as it opens a gated session."""

SIGNED_ANSWER = signature_form(pb.SignedAnswer, "answer", "session answer")
"""A signed answer inside other messages; as it comes it is unverified."""

SIGNED_GRANT = signature_form(pb.SignedGrant, "grant", "grant")
"""A signed grant inside other messages; as it comes it is unverified."""


@frozen
class CheckpointAnswer:
    """What comes of a checkpoint: an extension of the grant, or why there is none."""

    extension: Signed | None = None
    reason: str = ""


@frozen
class CheckpointAsk:
    """A checkpoint as a Proxy brings it to Authority.

    Attributes:
        grant: And all that follows: of the session, as it was granted; None where it is over.
        source_address: Of the person, as the Proxy saw it.
    """

    checkpoint: Signed
    grant: Signed | None = None
    request: bytes = b""
    person_chain: tuple[bytes, ...] = ()
    source_address: str = ""


_CHECKPOINT = SignedForm(
    pb.SessionCheckpoint,
    SessionCheckpoint,
    "session checkpoint",
    cluster=NAME,
    session_uid=UID,
    connector_id=WORD,
    n=PLAIN,
    decisions=PLAIN,
    head=DIGEST,
    is_last=PLAIN.named("last"),
    is_whole=PLAIN.named("whole"),
    reason=WORD_OR_EMPTY,
)
encode_checkpoint, decode_checkpoint = _CHECKPOINT.encode, _CHECKPOINT.decode
"""What a Connector signs about a session's decisions."""

_EXTENSION = SignedForm(
    pb.GrantExtension,
    GrantExtension,
    "grant extension",
    cluster=NAME,
    session_uid=UID,
    n=PLAIN,
    end_before_ms=PLAIN,
    policy_version=PLAIN,
)
encode_extension, decode_extension = _EXTENSION.encode, _EXTENSION.decode
"""What Authority's grant key signs so that a session goes on."""

_SIGNED_CHECKPOINT = signature_form(pb.SignedCheckpoint, "checkpoint", "session checkpoint")
checkpoint_message, read_checkpoint = _SIGNED_CHECKPOINT.message, _SIGNED_CHECKPOINT.read
"""A signed checkpoint inside other messages; as it comes it is unverified."""

_CHECKPOINT_ANSWER = MessageForm(
    pb.CheckpointAnswer,
    CheckpointAnswer,
    "checkpoint answer",
    extension=part(
        signature_form(pb.SignedExtension, "extension", "grant extension"), optional=True
    ),
    reason=WORD_OR_EMPTY,
)
checkpoint_answer_message = _CHECKPOINT_ANSWER.message
read_checkpoint_answer = _CHECKPOINT_ANSWER.read
"""What comes of a checkpoint; its extension is unverified."""

_CHECKPOINT_ASK = MessageForm(
    control_pb2.CheckpointRequest,
    CheckpointAsk,
    "checkpoint",
    checkpoint=part(_SIGNED_CHECKPOINT),
    grant=part(SIGNED_GRANT),
    request=bounded(MAX_SIGNED_BYTES),
    person_chain=chain(),
    source_address=NAME_OR_EMPTY,
)
checkpoint_ask_message = _CHECKPOINT_ASK.message


def read_checkpoint_ask(message: control_pb2.CheckpointRequest) -> CheckpointAsk:
    """A checkpoint as a Proxy brought it; nothing of it is verified."""
    if not message.HasField("grant"):
        return CheckpointAsk(read_checkpoint(message.checkpoint))
    return _CHECKPOINT_ASK.read(message)
