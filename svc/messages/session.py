"""``gate.v1.Session``: what a person signs, what Authority grants, what may be listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from svc.messages.checks import (
    FORMAT,
    MAX_HEAD_BYTES,
    MAX_SIGNED_BYTES,
    certificates,
    check_form,
    check_format,
    exactly,
    head,
    heads,
    parse,
    signed_part,
    text,
    texts,
    uid,
)
from svc.messages.forms import (
    DIGEST,
    MAX_NAME,
    MAX_WORD,
    NAME,
    PAIRS,
    PLAIN,
    UID,
    WORD,
    FieldForm,
    MessageForm,
    parts,
    word,
    words,
)
from svc.messages.gated import SIGNED_ANSWER, SIGNED_GRANT
from svc.model.session.ending import known_ending
from svc.model.session.grant import Grant
from svc.model.session.halves import HALF_BYTES
from svc.model.session.lacking import LACKING
from svc.model.session.parameters import read_pairs
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Signed
from svc.proto.gate.v1 import session_pb2 as pb

OPEN_METHOD = "/gate.v1.Session/Open"
LIST_METHOD = "/gate.v1.Session/List"
WHY_METHOD = "/gate.v1.Session/Why"
LANE_METHOD = "/gate.v1.Session/Lane"

LANE_TOKEN_BYTES = 32
MAX_OPERATIONS = 64


@frozen
class Explanation:
    """The explanation of one decision that the caller may see.

    ``explained`` is False for a stranger's decision, for an unknown id and for
    a resource the asker may not view alike: nothing but the id is said then.
    ``why`` is the ``@reason`` of each such policy that has one.  ``session_*`` tell how the session
    that the decision opened has ended: when (RFC 3339), why, and on which lane.
    ``request_hint`` is what to type to ask for what was denied; empty where no approval would turn
    it.
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


def _pairs(values: Mapping[str, str]) -> list[pb.Parameter]:
    """In the one order that is signed, whatever order they were put in."""
    return [pb.Parameter(name=name, value=value) for name, value in sorted(values.items())]


def _read_pairs(came: Iterable[pb.Parameter], what: str) -> dict[str, str]:
    return read_pairs([(one.name, one.value) for one in came], what)


PARAMETERS = FieldForm(write=_pairs, read=_read_pairs)
"""Names and values, in ascending order."""

_REQUEST = MessageForm(
    pb.SessionRequest,
    SessionRequest,
    "session request",
    cluster=NAME,
    session_uid=UID,
    resource=NAME,
    kind=WORD,
    action=WORD,
    proxy_id=WORD,
    issued_at_ms=PLAIN,
    certificate_sha256=DIGEST,
    parameters=PARAMETERS,
    half=FieldForm(read=lambda came, what: exactly(came, HALF_BYTES, what) if came else b""),
)


def encode_request(request: SessionRequest, format: int = FORMAT) -> bytes:
    """The bytes a person signs."""
    message = _REQUEST.message(request)
    message.format = format
    if not format:
        message.ClearField("parameters")
    return message.SerializeToString()


def decode_request(data: bytes, *, relayed: bool = False) -> SessionRequest:
    """A session request as it came; its signature is checked by the caller.

    Args:
        relayed: For whoever passes it on: what a newer client adds is let through.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.SessionRequest, data, MAX_SIGNED_BYTES, "session request")
    request = _REQUEST.read(message)
    if not relayed:
        check_format(message.format, "session request")
        check_form(data, encode_request(request, message.format), "session request")
    return request


def encode_open(request: bytes, signature: bytes) -> bytes:
    """The first frame a client sends."""
    return pb.SessionOpen(request=request, signature=signature).SerializeToString()


def decode_open(data: bytes) -> tuple[bytes, bytes]:
    """The signed bytes and the signature of a client's first frame."""
    message = parse(pb.SessionOpen, data, 2 * MAX_SIGNED_BYTES, "session open")
    return signed_part(message.request, message.signature, "session open")


def encode_opened(grant: Signed, decision_id: str, answer: Signed | None = None) -> bytes:
    """The first frame a client gets: its grant, checked again by itself.

    Args:
        answer: Of the Connector, where the session is gated.
    """
    message = pb.SessionOpened(grant=SIGNED_GRANT.message(grant), decision_id=decision_id)
    if answer is not None:
        message.answer.CopyFrom(SIGNED_ANSWER.message(answer))
    return message.SerializeToString()


def decode_opened(data: bytes) -> tuple[Signed, str]:
    """The grant and the decision id of an opened session."""
    message = parse(pb.SessionOpened, data, 4 * MAX_SIGNED_BYTES, "session opened")
    return SIGNED_GRANT.read(message.grant), text(message.decision_id, MAX_WORD, "decision id")


def decode_opened_answer(data: bytes) -> Signed | None:
    """The Connector's answer in an opened session, unverified; None: there is none."""
    message = parse(pb.SessionOpened, data, 4 * MAX_SIGNED_BYTES, "session opened")
    return SIGNED_ANSWER.read(message.answer) if message.HasField("answer") else None


def _operations(came: pb.Operations, what: str) -> frozenset[str]:
    return frozenset(texts(came.names, MAX_OPERATIONS, MAX_WORD, what))


_GRANT = MessageForm(
    pb.Grant,
    Grant,
    "grant",
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
    resource_identity=word(MAX_NAME, empty=True),
    assignment_revision=PLAIN,
    ceiling=FieldForm(
        write=lambda values: pb.Ceiling(values=_pairs(values)),
        read=lambda came, what: _read_pairs(came.values, what),
    ),
    is_gated=FieldForm(
        write=lambda gated: pb.CARRIAGE_GATED if gated else pb.CARRIAGE_END_TO_END,
        read=lambda came, what: came == pb.CARRIAGE_GATED,
        on_wire="carriage",
    ),
    operations=FieldForm(
        write=lambda names: pb.Operations(names=sorted(names)), read=_operations, is_optional=True
    ),
)


def encode_grant(grant: Grant, format: int = FORMAT) -> bytes:
    """The bytes Authority's grant key signs."""
    message = _GRANT.message(grant)
    message.format = format
    if not format:
        message.ceiling.ClearField("values")
        message.ClearField("carriage")
        message.ClearField("operations")
    return message.SerializeToString()


def decode_grant(data: bytes, *, relayed: bool = False) -> Grant:
    """A grant as it came; its signature is checked by the caller.

    Args:
        relayed: For whoever passes it on: what a newer Authority adds is let through.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.Grant, data, MAX_SIGNED_BYTES, "grant")
    grant = _GRANT.read(message)
    if not relayed:
        check_format(message.format, "grant")
        check_form(data, encode_grant(grant, message.format), "grant")
    return grant


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


def why_message(
    request: bytes, signature: bytes, chain: tuple[bytes, ...] = ()
) -> pb.SessionWhyRequest:
    """The question as it travels; a Proxy adds the chain its TLS peer showed."""
    return pb.SessionWhyRequest(request=request, signature=signature, chain=chain)


def read_why(message: pb.SessionWhyRequest) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """The signed bytes of a question, the signature, and the chain where there is one."""
    payload, signature = signed_part(message.request, message.signature, "why request")
    return payload, signature, certificates(message.chain, "why request: chain", empty=True)


def lane_request(session_uid: str) -> pb.SessionLaneRequest:
    """The question for a direct lane."""
    return pb.SessionLaneRequest(session_uid=bytes.fromhex(session_uid))


def read_lane_request(message: pb.SessionLaneRequest) -> str:
    """The session that is to move."""
    return uid(message.session_uid, "lane request: session_uid")


def read_lane_response(message: pb.SessionLaneResponse) -> bytes:
    """The token of the person's half."""
    return exactly(message.token, LANE_TOKEN_BYTES, "lane response: token")


_EXPLANATION = MessageForm(
    pb.SessionWhyResponse,
    Explanation,
    "explanation",
    decision_id=PLAIN,
    explained=PLAIN,
    decision=PLAIN,
    reason=PLAIN,
    policies=FieldForm(read=lambda came, what: tuple(came)),
    action=PLAIN,
    resource=PLAIN,
    policy_version=PLAIN,
    time=PLAIN,
    why=PAIRS,
    session_ended=PLAIN,
    session_reason=FieldForm(read=lambda came, what: known_ending(came)),
    session_lane=PLAIN,
    request_hint=PLAIN,
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
    complete=PLAIN,
    upsert=parts(_LISTED),
    removed=words(100_000),
    heads=FieldForm(read=heads, on_wire="audit_heads"),
    lacking=FieldForm(read=lambda came, what: tuple(word for word in LACKING if word in came)),
)
encode_listing = _LISTING.encode


def decode_listing(data: bytes) -> Listing:
    """A listing as it came."""
    return _LISTING.decode(data, 4 * 1024 * 1024)


def encode_list_request(audit_head: bytes) -> bytes:
    """What a client asks for a list with: the signed head's line that it keeps, if any."""
    return pb.SessionListRequest(audit_head=audit_head).SerializeToString()


def decode_list_request(data: bytes) -> bytes:
    """The signed head's line of a client that asks for a list; empty where it keeps none."""
    message = parse(pb.SessionListRequest, data, 2 * MAX_HEAD_BYTES, "list request")
    return head(message.audit_head, "list request: audit_head")
