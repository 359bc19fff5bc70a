"""``gate.v1.Session``: what a person signs, what Authority grants, what may be listed."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from svc.messages.checks import (
    DIGEST_BYTES,
    FORMAT,
    MAX_HEAD_BYTES,
    MAX_SIGNED_BYTES,
    UID_BYTES,
    MessageForm,
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
from svc.messages.gated import signed_answer, signed_answer_message
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

_NAME = 253
_WORD = 63
_REQUEST = MessageForm(
    "session request",
    texts={
        "cluster": _NAME,
        "resource": _NAME,
        "kind": _WORD,
        "action": _WORD,
        "proxy_id": _WORD,
    },
    sizes={"session_uid": UID_BYTES, "certificate_sha256": DIGEST_BYTES},
)
_GRANT = MessageForm(
    "grant",
    texts={
        "cluster": _NAME,
        "person_id": _WORD,
        "resource": _NAME,
        "kind": _WORD,
        "connector_id": _WORD,
        "proxy_id": _WORD,
    },
    optional={"resource_identity": _NAME},
    sizes={
        "session_uid": UID_BYTES,
        "request_sha256": DIGEST_BYTES,
        "person_certificate_sha256": DIGEST_BYTES,
        "audit_hash": DIGEST_BYTES,
    },
)
_WHY = MessageForm(
    "why request",
    texts={"cluster": _NAME, "decision_id": _WORD, "proxy_id": _WORD},
    sizes={"certificate_sha256": DIGEST_BYTES},
)
_POLICY = 256


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


def encode_request(request: SessionRequest, format: int = FORMAT) -> bytes:
    """The bytes a person signs."""
    return pb.SessionRequest(
        cluster=request.cluster,
        session_uid=bytes.fromhex(request.session_uid),
        resource=request.resource,
        kind=request.kind,
        action=request.action,
        proxy_id=request.proxy_id,
        issued_at_ms=request.issued_at_ms,
        certificate_sha256=request.certificate_sha256,
        parameters=_pairs(request.parameters) if format else (),
        format=format,
        half=request.half,
    ).SerializeToString()


def decode_request(data: bytes, *, relayed: bool = False) -> SessionRequest:
    """A session request as it came; its signature is checked by the caller.

    Args:
        relayed: For whoever passes it on: what a newer client adds is let through.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.SessionRequest, data, MAX_SIGNED_BYTES, "session request")
    fields = _REQUEST.read(message)
    request = SessionRequest(
        **fields | {"session_uid": fields["session_uid"].hex()},
        issued_at_ms=message.issued_at_ms,
        parameters=read_pairs(
            [(one.name, one.value) for one in message.parameters], "session request: parameters"
        ),
        half=exactly(message.half, HALF_BYTES, "session request: half") if message.half else b"",
    )
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
    message = pb.SessionOpened(grant=signed_grant_message(grant), decision_id=decision_id)
    if answer is not None:
        message.answer.CopyFrom(signed_answer_message(answer))
    return message.SerializeToString()


def decode_opened(data: bytes) -> tuple[Signed, str]:
    """The grant and the decision id of an opened session."""
    message = parse(pb.SessionOpened, data, 4 * MAX_SIGNED_BYTES, "session opened")
    return signed_grant(message.grant), text(message.decision_id, _WORD, "decision id")


def decode_opened_answer(data: bytes) -> Signed | None:
    """The Connector's answer in an opened session, unverified; None: there is none."""
    message = parse(pb.SessionOpened, data, 4 * MAX_SIGNED_BYTES, "session opened")
    return signed_answer(message.answer) if message.HasField("answer") else None


def encode_grant(grant: Grant, format: int = FORMAT) -> bytes:
    """The bytes Authority's grant key signs."""
    carriage = pb.CARRIAGE_GATED if grant.is_gated else pb.CARRIAGE_END_TO_END
    return pb.Grant(
        cluster=grant.cluster,
        session_uid=bytes.fromhex(grant.session_uid),
        request_sha256=grant.request_sha256,
        person_id=grant.person_id,
        person_certificate_sha256=grant.person_certificate_sha256,
        resource=grant.resource,
        resource_revision=grant.resource_revision,
        kind=grant.kind,
        connector_id=grant.connector_id,
        proxy_id=grant.proxy_id,
        ceiling=pb.Ceiling(values=_pairs(grant.ceiling) if format else ()),
        policy_version=grant.policy_version,
        audit_hash=grant.audit_hash,
        issued_at_ms=grant.issued_at_ms,
        open_before_ms=grant.open_before_ms,
        end_before_ms=grant.end_before_ms,
        resource_identity=grant.resource_identity,
        assignment_revision=grant.assignment_revision,
        format=format,
        carriage=carriage if format else pb.CARRIAGE_UNSPECIFIED,
        operations=_operations_message(grant.operations) if format else None,
    ).SerializeToString()


def decode_grant(data: bytes, *, relayed: bool = False) -> Grant:
    """A grant as it came; its signature is checked by the caller.

    Args:
        relayed: For whoever passes it on: what a newer Authority adds is let through.

    Raises:
        Malformed: it is none, or says what this build does not know.
    """
    message = parse(pb.Grant, data, MAX_SIGNED_BYTES, "grant")
    fields = _GRANT.read(message)
    grant = Grant(
        **fields | {"session_uid": fields["session_uid"].hex()},
        resource_revision=message.resource_revision,
        policy_version=message.policy_version,
        issued_at_ms=message.issued_at_ms,
        open_before_ms=message.open_before_ms,
        end_before_ms=message.end_before_ms,
        assignment_revision=message.assignment_revision,
        ceiling=read_pairs(
            [(one.name, one.value) for one in message.ceiling.values], "grant: ceiling"
        ),
        is_gated=message.carriage == pb.CARRIAGE_GATED,
        operations=_operations(message),
    )
    if not relayed:
        check_format(message.format, "grant")
        check_form(data, encode_grant(grant, message.format), "grant")
    return grant


def _operations_message(names: frozenset[str] | None) -> pb.Operations | None:
    return None if names is None else pb.Operations(names=sorted(names))


def _operations(message: pb.Grant) -> frozenset[str] | None:
    if not message.HasField("operations"):
        return None
    names = message.operations.names
    return frozenset(texts(names, MAX_OPERATIONS, _WORD, "grant: operations"))


def encode_why_request(request: WhyRequest) -> bytes:
    """The bytes a person signs to ask about one decision."""
    return pb.WhyRequest(
        cluster=request.cluster,
        decision_id=request.decision_id,
        proxy_id=request.proxy_id,
        issued_at_ms=request.issued_at_ms,
        certificate_sha256=request.certificate_sha256,
    ).SerializeToString()


def decode_why_request(data: bytes) -> WhyRequest:
    """A question about a decision; its signature is checked by the caller."""
    message = parse(pb.WhyRequest, data, MAX_SIGNED_BYTES, "why request")
    return WhyRequest(**_WHY.read(message), issued_at_ms=message.issued_at_ms)


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


def explanation_message(explanation: Explanation) -> pb.SessionWhyResponse:
    """An explanation as it travels."""
    return pb.SessionWhyResponse(
        decision_id=explanation.decision_id,
        decision=explanation.decision,
        reason=explanation.reason,
        policies=explanation.policies,
        action=explanation.action,
        resource=explanation.resource,
        policy_version=explanation.policy_version,
        time=explanation.time,
        explained=explanation.explained,
        why=dict(explanation.why),
        session_ended=explanation.session_ended,
        session_reason=explanation.session_reason,
        session_lane=explanation.session_lane,
        request_hint=explanation.request_hint,
    )


def read_explanation(message: pb.SessionWhyResponse) -> Explanation:
    """An explanation as it came."""
    return Explanation(
        decision_id=message.decision_id,
        explained=message.explained,
        decision=message.decision,
        reason=message.reason,
        policies=tuple(message.policies),
        action=message.action,
        resource=message.resource,
        policy_version=message.policy_version,
        time=message.time,
        why=dict(message.why),
        session_ended=message.session_ended,
        session_reason=known_ending(message.session_reason) if message.session_ended else "",
        session_lane=message.session_lane,
        request_hint=message.request_hint,
    )


def encode_listing(listing: Listing) -> bytes:
    """A listing as it travels."""
    return pb.SessionListing(
        complete=listing.complete,
        upsert=[
            pb.ListedResource(id=one.id, kind=one.kind, labels=dict(one.labels), served=one.served)
            for one in listing.upsert
        ],
        removed=listing.removed,
        audit_heads=listing.heads,
        lacking=listing.lacking,
    ).SerializeToString()


def decode_listing(data: bytes) -> Listing:
    """A listing as it came."""
    message = parse(pb.SessionListing, data, 4 * 1024 * 1024, "listing")
    return Listing(
        complete=message.complete,
        upsert=tuple(
            Listed(
                id=text(one.id, _WORD, "listing: id"),
                kind=text(one.kind, _WORD, "listing: kind"),
                labels=dict(one.labels),
                served=one.served,
            )
            for one in message.upsert
        ),
        removed=texts(message.removed, 100_000, _WORD, "listing: removed"),
        heads=heads(message.audit_heads, "listing: audit_heads"),
        lacking=tuple(word for word in LACKING if word in message.lacking),
    )


def encode_list_request(audit_head: bytes) -> bytes:
    """What a client asks for a list with: the signed head's line that it keeps, if any."""
    return pb.SessionListRequest(audit_head=audit_head).SerializeToString()


def decode_list_request(data: bytes) -> bytes:
    """The signed head's line of a client that asks for a list; empty where it keeps none."""
    message = parse(pb.SessionListRequest, data, 2 * MAX_HEAD_BYTES, "list request")
    return head(message.audit_head, "list request: audit_head")


def signed_grant_message(grant: Signed) -> pb.SignedGrant:
    """A signed grant as it travels inside other messages."""
    return pb.SignedGrant(grant=grant.payload, signature=grant.signature, chain=grant.chain)


def signed_grant(message: pb.SignedGrant) -> Signed:
    """A signed grant as it came, unverified."""
    payload, signature = signed_part(message.grant, message.signature, "grant")
    return Signed(payload, signature, certificates(message.chain, "grant: chain"))


def _pairs(values: Mapping[str, str]) -> list[pb.Parameter]:
    """In the one order that is signed, whatever order they were put in."""
    return [pb.Parameter(name=name, value=value) for name, value in sorted(values.items())]
