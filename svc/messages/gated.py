"""``gate.v1``: what is signed about gated sessions, by their Connectors and by Authority."""

from __future__ import annotations

from attrs import frozen

from svc.errors import Malformed
from svc.messages.checks import (
    DIGEST_BYTES,
    FORMAT,
    MAX_SIGNED_BYTES,
    certificates,
    check_form,
    check_format,
    exactly,
    parse,
    signed_part,
    text,
    uid,
)
from svc.model.session.checkpoint import GrantExtension, SessionCheckpoint
from svc.model.session.halves import HALF_BYTES, SessionAnswer
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2
from svc.proto.gate.v1 import session_pb2 as pb

CHECKPOINT_METHOD = "/gate.v1.Tunnel/Checkpoint"
AUTHORITY_CHECKPOINT_METHOD = "/gate.v1.Control/Checkpoint"

_NAME = 253
_WORD = 63


def encode_answer(answer: SessionAnswer) -> bytes:
    """The bytes a Connector signs as it opens a gated session."""
    return pb.SessionAnswer(
        cluster=answer.cluster,
        session_uid=bytes.fromhex(answer.session_uid),
        connector_id=answer.connector_id,
        request_sha256=answer.request_sha256,
        half=answer.half,
        format=FORMAT,
    ).SerializeToString()


def decode_answer(data: bytes) -> SessionAnswer:
    """A Connector's answer as it came; its signature is checked by the caller.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.SessionAnswer, data, MAX_SIGNED_BYTES, "session answer")
    answer = SessionAnswer(
        cluster=text(message.cluster, _NAME, "session answer: cluster"),
        session_uid=uid(message.session_uid, "session answer: session_uid"),
        connector_id=text(message.connector_id, _WORD, "session answer: connector_id"),
        request_sha256=exactly(
            message.request_sha256, DIGEST_BYTES, "session answer: request_sha256"
        ),
        half=exactly(message.half, HALF_BYTES, "session answer: half"),
    )
    check_format(message.format, "session answer")
    check_form(data, encode_answer(answer), "session answer")
    return answer


def signed_answer_message(answer: Signed) -> pb.SignedAnswer:
    """A signed answer as it travels inside other messages."""
    return pb.SignedAnswer(answer=answer.payload, signature=answer.signature, chain=answer.chain)


def signed_answer(message: pb.SignedAnswer) -> Signed:
    """A signed answer as it came, unverified."""
    payload, signature = signed_part(message.answer, message.signature, "session answer")
    return Signed(payload, signature, certificates(message.chain, "session answer: chain"))


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


def encode_checkpoint(one: SessionCheckpoint) -> bytes:
    """The bytes a Connector signs about a session's decisions."""
    return pb.SessionCheckpoint(
        cluster=one.cluster,
        session_uid=bytes.fromhex(one.session_uid),
        connector_id=one.connector_id,
        n=one.n,
        decisions=one.decisions,
        head=one.head,
        last=one.is_last,
        whole=one.is_whole,
        reason=one.reason,
        format=FORMAT,
    ).SerializeToString()


def decode_checkpoint(data: bytes, *, relayed: bool = False) -> SessionCheckpoint:
    """A checkpoint as it came; its signature is checked by the caller.

    Args:
        relayed: For whoever passes it on: what a newer Connector adds is let through.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.SessionCheckpoint, data, MAX_SIGNED_BYTES, "session checkpoint")
    one = SessionCheckpoint(
        cluster=text(message.cluster, _NAME, "session checkpoint: cluster"),
        session_uid=uid(message.session_uid, "session checkpoint: session_uid"),
        connector_id=text(message.connector_id, _WORD, "session checkpoint: connector_id"),
        n=message.n,
        decisions=message.decisions,
        head=exactly(message.head, DIGEST_BYTES, "session checkpoint: head"),
        is_last=message.last,
        is_whole=message.whole,
        reason=text(message.reason, _WORD, "session checkpoint: reason", empty=True),
    )
    if not relayed:
        check_format(message.format, "session checkpoint")
        check_form(data, encode_checkpoint(one), "session checkpoint")
    return one


def encode_extension(one: GrantExtension) -> bytes:
    """The bytes Authority's grant key signs so that a session goes on."""
    return pb.GrantExtension(
        cluster=one.cluster,
        session_uid=bytes.fromhex(one.session_uid),
        n=one.n,
        end_before_ms=one.end_before_ms,
        policy_version=one.policy_version,
        format=FORMAT,
    ).SerializeToString()


def decode_extension(data: bytes, *, relayed: bool = False) -> GrantExtension:
    """An extension as it came; its signature is checked by the caller.

    Args:
        relayed: For whoever passes it on.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.GrantExtension, data, MAX_SIGNED_BYTES, "grant extension")
    one = GrantExtension(
        cluster=text(message.cluster, _NAME, "grant extension: cluster"),
        session_uid=uid(message.session_uid, "grant extension: session_uid"),
        n=message.n,
        end_before_ms=message.end_before_ms,
        policy_version=message.policy_version,
    )
    if not relayed:
        check_format(message.format, "grant extension")
        check_form(data, encode_extension(one), "grant extension")
    return one


def checkpoint_message(signed: Signed) -> pb.SignedCheckpoint:
    """A signed checkpoint as it travels."""
    return pb.SignedCheckpoint(
        checkpoint=signed.payload, signature=signed.signature, chain=signed.chain
    )


def read_checkpoint(message: pb.SignedCheckpoint) -> Signed:
    """A signed checkpoint as it came, unverified."""
    payload, signature = signed_part(message.checkpoint, message.signature, "session checkpoint")
    chain = certificates(message.chain, "session checkpoint: chain")
    return Signed(payload, signature, chain)


def checkpoint_answer_message(answer: CheckpointAnswer) -> pb.CheckpointAnswer:
    """What comes of a checkpoint, as it travels."""
    message = pb.CheckpointAnswer(reason=answer.reason)
    if answer.extension is not None:
        signed = answer.extension
        message.extension.extension = signed.payload
        message.extension.signature = signed.signature
        message.extension.chain.extend(signed.chain)
    return message


def read_checkpoint_answer(message: pb.CheckpointAnswer) -> CheckpointAnswer:
    """What came of a checkpoint; its extension is unverified."""
    reason = text(message.reason, _WORD, "checkpoint answer: reason", empty=True)
    if not message.HasField("extension"):
        return CheckpointAnswer(reason=reason)
    said = message.extension
    payload, signature = signed_part(said.extension, said.signature, "grant extension")
    chain = certificates(said.chain, "grant extension: chain")
    return CheckpointAnswer(Signed(payload, signature, chain), reason)


def checkpoint_ask_message(ask: CheckpointAsk) -> control_pb2.CheckpointRequest:
    """A checkpoint with what its Proxy adds, as it travels."""
    message = control_pb2.CheckpointRequest(
        checkpoint=checkpoint_message(ask.checkpoint),
        request=ask.request,
        person_chain=ask.person_chain,
        source_address=ask.source_address,
    )
    if ask.grant is not None:
        grant = ask.grant
        message.grant.CopyFrom(
            pb.SignedGrant(grant=grant.payload, signature=grant.signature, chain=grant.chain)
        )
    return message


def read_checkpoint_ask(message: control_pb2.CheckpointRequest) -> CheckpointAsk:
    """A checkpoint as a Proxy brought it; nothing of it is verified."""
    checkpoint = read_checkpoint(message.checkpoint)
    if not message.HasField("grant"):
        return CheckpointAsk(checkpoint)
    grant = message.grant
    payload, signature = signed_part(grant.grant, grant.signature, "grant")
    if len(message.request) > MAX_SIGNED_BYTES:
        raise Malformed("checkpoint: the session request is too long")
    return CheckpointAsk(
        checkpoint=checkpoint,
        grant=Signed(payload, signature, certificates(grant.chain, "grant: chain")),
        request=message.request,
        person_chain=certificates(message.person_chain, "checkpoint: person_chain"),
        source_address=text(
            message.source_address, _NAME, "checkpoint: source_address", empty=True
        ),
    )
