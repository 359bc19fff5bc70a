"""``gate.v1.Session``: what a person signs, what Authority grants, what may be listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attrs import evolve, field, frozen

from svc.messages.forms import (
    DIGEST,
    HEAD,
    HEADS,
    MAX_HEAD_BYTES,
    MAX_SIGNED_BYTES,
    NAME,
    NAME_OR_EMPTY,
    PAIRS,
    PARAMETERS,
    PLAIN,
    THE_SIGNATURE,
    UID,
    WORD,
    WORD_OR_EMPTY,
    FieldForm,
    FieldTable,
    MessageForm,
    SignedForm,
    bounded,
    chain,
    flag,
    octets,
    parse,
    part,
    parts,
    signed_part,
    words,
)
from svc.messages.gated import SIGNED_ANSWER, SIGNED_GRANT
from svc.model.session.ending import known_ending
from svc.model.session.grant import RECORDING_KEY_BYTES, Grant
from svc.model.session.halves import HALF_BYTES
from svc.model.session.lacking import LACKING
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Signed
from svc.proto.gate.v1 import session_pb2 as pb

OPEN_METHOD = "/gate.v1.Session/Open"
LIST_METHOD = "/gate.v1.Session/List"
WHY_METHOD = "/gate.v1.Session/Why"
LANE_METHOD = "/gate.v1.Session/Lane"

LANE_TOKEN_BYTES = 32
LANE_TOKEN = octets(LANE_TOKEN_BYTES)
MAX_OPERATIONS = 64
MAX_ONWARD_CERTIFICATE = 2048
"""Bytes; ours have about 500."""


@frozen
class Explanation:
    """The explanation of one decision that the caller may see.

    ``explained`` is False for a stranger's decision, for an unknown id and for
    a resource the asker may not view alike: nothing but the id is said then.
    ``why`` is the ``@reason`` of each such policy that has one.  ``session_*`` tell how the session
    that the decision opened has ended: when (RFC 3339), why, and on which lane.
    ``request_hint`` is what to type to ask for what was denied; empty where no approval would turn
    it.  ``rights`` and ``rights_denied`` are of a session that ends at its Connector.
    ``reason_text`` is the reason in plain words, and ``hint`` who can mend it and how; both are
    empty for what was allowed.  ``policies`` names those that decided, and none where the policy
    allowed what came to nothing for another reason.
    """

    decision_id: str
    explained: bool = False
    decision: str = ""
    reason: str = ""
    policies: tuple[str, ...] = ()
    action: str = ""
    resource: str = ""
    policy_version: int = 0
    time: str = ""
    why: Mapping[str, str] = field(factory=dict)
    session_ended: str = ""
    session_reason: str = ""
    session_lane: str = ""
    request_hint: str = ""
    rights: tuple[str, ...] = ()
    rights_denied: tuple[str, ...] = ()
    reason_text: str = ""
    hint: str = ""


@frozen
class Listed:
    """One resource a person may view."""

    id: str
    kind: str
    labels: Mapping[str, str] = field(factory=dict)
    served: bool = False


@frozen
class Listing:
    """A change of what a person may view; ``complete`` replaces all that was known.

    ``heads`` are lines of signed heads of the audit log, the newest last.  ``lacking`` says why the
    Proxy opens no session now, in words of :data:`svc.model.session.lacking.LACKING`.
    """

    complete: bool
    upsert: tuple[Listed, ...] = ()
    removed: tuple[str, ...] = ()
    heads: tuple[bytes, ...] = ()
    lacking: tuple[str, ...] = ()


_REQUEST = SignedForm(
    pb.SessionRequest,
    SessionRequest,
    "session request",
    beyond_0=["parameters"],
    cluster=NAME,
    session_uid=UID,
    resource=NAME,
    kind=WORD,
    action=WORD,
    proxy_id=WORD,
    issued_at_ms=PLAIN,
    certificate_sha256=DIGEST,
    parameters=PARAMETERS,
    half=octets(HALF_BYTES, empty=True),
)
encode_request, decode_request = _REQUEST.encode, _REQUEST.decode
"""What a person signs."""


class SignedBytes(NamedTuple):
    """Bytes and their signature, by whoever a chain beside them names."""

    payload: bytes
    signature: bytes


_OPEN = MessageForm(
    pb.SessionOpen,
    SignedBytes,
    "session open",
    max_bytes=2 * MAX_SIGNED_BYTES,
    payload=signed_part().named("request"),
    signature=THE_SIGNATURE,
)
decode_open = _OPEN.decode
"""The signed bytes and the signature of a client's first frame."""


def encode_open(request: bytes, signature: bytes) -> bytes:
    """The first frame a client sends."""
    return pb.SessionOpen(request=request, signature=signature).SerializeToString()


class Opened(NamedTuple):
    """What a client is told as its session opens; its grant is unverified."""

    grant: Signed
    decision_id: str


_OPENED = MessageForm(
    pb.SessionOpened,
    Opened,
    "session opened",
    max_bytes=4 * MAX_SIGNED_BYTES,
    grant=part(SIGNED_GRANT),
    decision_id=WORD,
)
decode_opened = _OPENED.decode
"""The grant and the decision id of an opened session."""


def encode_opened(grant: Signed, decision_id: str, answer: Signed | None = None) -> bytes:
    """The first frame a client gets: its grant, checked again by itself.

    Args:
        answer: Of the Connector, where the session is gated.
    """
    message = pb.SessionOpened(grant=SIGNED_GRANT.written(grant), decision_id=decision_id)
    if answer is not None:
        message.answer.CopyFrom(SIGNED_ANSWER.message(answer))
    return message.SerializeToString()


def decode_opened_answer(data: bytes) -> Signed | None:
    """The Connector's answer in an opened session, unverified; None: there is none."""
    message = parse(pb.SessionOpened, data, 4 * MAX_SIGNED_BYTES, "session opened")
    return SIGNED_ANSWER.read(message.answer) if message.HasField("answer") else None


_GRANT = SignedForm(
    pb.Grant,
    Grant,
    "grant",
    beyond_0=[
        "ceiling.values",
        "carriage",
        "operations",
        "decision_id",
        "onward_certificate",
        "recording_key",
        "egress_proxy_id",
    ],
    cluster=NAME,
    session_uid=UID,
    request_sha256=DIGEST,
    person_id=WORD,
    person_certificate_sha256=DIGEST,
    resource=NAME,
    resource_revision=PLAIN,
    kind=WORD,
    connector_id=WORD,
    proxy_id=WORD,
    policy_version=PLAIN,
    audit_hash=DIGEST,
    issued_at_ms=PLAIN,
    open_before_ms=PLAIN,
    end_before_ms=PLAIN,
    resource_identity=NAME_OR_EMPTY,
    assignment_revision=PLAIN,
    ceiling=evolve(PARAMETERS, wraps="values"),
    is_gated=flag(pb.CARRIAGE_END_TO_END, pb.CARRIAGE_GATED).named("carriage"),
    operations=evolve(
        words(MAX_OPERATIONS),
        write=sorted,
        read=frozenset,
        wraps="names",
        is_optional=True,
    ),
    decision_id=WORD_OR_EMPTY,
    recording_key=octets(RECORDING_KEY_BYTES, empty=True),
    onward_certificate=bounded(MAX_ONWARD_CERTIFICATE),
    egress_proxy_id=WORD_OR_EMPTY,
)
encode_grant, decode_grant = _GRANT.encode, _GRANT.decode
"""What Authority's grant key signs."""

_WHY = MessageForm(
    pb.WhyRequest,
    WhyRequest,
    "why request",
    cluster=NAME,
    decision_id=WORD,
    proxy_id=WORD,
    issued_at_ms=PLAIN,
    certificate_sha256=DIGEST,
)
encode_why_request, decode_why_request = _WHY.encode, _WHY.decode
"""What a person signs to ask about one decision; its signature is checked by the caller."""


class SignedQuestion(NamedTuple):
    """A question as it travels."""

    request: bytes
    signature: bytes
    chain: tuple[bytes, ...]


_QUESTION = MessageForm(
    pb.SessionWhyRequest,
    SignedQuestion,
    "why request",
    request=signed_part(),
    signature=THE_SIGNATURE,
    chain=chain(empty=True),
)
read_why = _QUESTION.read
"""The signed bytes of a question, the signature, and the chain where there is one."""


def why_message(
    request: bytes, signature: bytes, chain: tuple[bytes, ...] = ()
) -> pb.SessionWhyRequest:
    """The question as it travels; a Proxy adds the chain its TLS peer showed."""
    return pb.SessionWhyRequest(request=request, signature=signature, chain=chain)


_LANE_REQUEST = FieldTable("lane request", session_uid=UID)
_LANE_RESPONSE = FieldTable("lane response", token=LANE_TOKEN)


def lane_request(session_uid: str) -> pb.SessionLaneRequest:
    """The question for a direct lane."""
    return pb.SessionLaneRequest(session_uid=bytes.fromhex(session_uid))


def read_lane_request(message: pb.SessionLaneRequest) -> str:
    """The session that is to move."""
    found: str = _LANE_REQUEST.read_fields(message)["session_uid"]
    return found


def read_lane_response(message: pb.SessionLaneResponse) -> bytes:
    """The token of the person's half."""
    found: bytes = _LANE_RESPONSE.read_fields(message)["token"]
    return found


_EXPLANATION = MessageForm(
    pb.SessionWhyResponse,
    Explanation,
    "explanation",
    decision_id=PLAIN,
    explained=PLAIN,
    decision=PLAIN,
    reason=PLAIN,
    policies=FieldForm(read=tuple),
    action=PLAIN,
    resource=PLAIN,
    policy_version=PLAIN,
    time=PLAIN,
    why=PAIRS,
    session_ended=PLAIN,
    session_reason=FieldForm(read=known_ending),
    session_lane=PLAIN,
    request_hint=PLAIN,
    rights=FieldForm(read=tuple),
    rights_denied=FieldForm(read=tuple),
    reason_text=PLAIN,
    hint=PLAIN,
)
explanation_message = _EXPLANATION.message


def read_explanation(message: pb.SessionWhyResponse) -> Explanation:
    """An explanation as it came."""
    found = _EXPLANATION.read(message)
    return found if found.session_ended else evolve(found, session_reason="")


_LISTED = MessageForm(
    pb.ListedResource, Listed, "listing", id=WORD, kind=WORD, labels=PAIRS, served=PLAIN
)
_LISTING = MessageForm(
    pb.SessionListing,
    Listing,
    "listing",
    max_bytes=4 * 1024 * 1024,
    complete=PLAIN,
    upsert=parts(_LISTED),
    removed=words(100_000),
    heads=HEADS.named("audit_heads"),
    lacking=FieldForm(read=lambda came: tuple(word for word in LACKING if word in came)),
)
encode_listing, decode_listing = _LISTING.encode, _LISTING.decode


_LIST_REQUEST = FieldTable("list request", audit_head=HEAD)


def encode_list_request(audit_head: bytes) -> bytes:
    """What a client asks for a list with: the signed head's line that it keeps, if any."""
    return pb.SessionListRequest(audit_head=audit_head).SerializeToString()


def decode_list_request(data: bytes) -> bytes:
    """The signed head's line of a client that asks for a list; empty where it keeps none."""
    message = parse(pb.SessionListRequest, data, 2 * MAX_HEAD_BYTES, "list request")
    found: bytes = _LIST_REQUEST.read_fields(message)["audit_head"]
    return found
