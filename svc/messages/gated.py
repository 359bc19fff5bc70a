"""``gate.v1``: what the Connector of a gated session signs."""

from __future__ import annotations

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
from svc.model.session.halves import HALF_BYTES, SessionAnswer
from svc.model.signing import Signed
from svc.proto.gate.v1 import session_pb2 as pb

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
