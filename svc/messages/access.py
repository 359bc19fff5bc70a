"""``Session/Access`` and ``Control/Access``: requests for access, asked for and decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.checks import (
    DIGEST_BYTES,
    MAX_SIGNED_BYTES,
    certificates,
    exactly,
    parse,
    signed_part,
    text,
)
from svc.messages.control import approved_message, read_approved
from svc.messages.session import signed_grant, signed_grant_message
from svc.model.canonical import Json, decode
from svc.model.policy.requested import (
    MAX_REASON,
    AccessAsk,
    ApprovedAccess,
    check_text,
    text_digest,
)
from svc.model.session.parameters import read_pairs
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as control_pb
from svc.proto.gate.v1 import session_pb2 as pb

SESSION_ACCESS_METHOD = "/gate.v1.Session/Access"
CONTROL_ACCESS_METHOD = "/gate.v1.Control/Access"

SESSION_DENIED_METHOD = "/gate.v1.Session/Denied"
USE_APPROVAL_METHOD = "/gate.v1.Control/UseApproval"

NONCE_BYTES = 16
_NAME = 253
_WORD = 63
_DOCUMENT = 16 * 1024
_ENTRIES = 1_000


@frozen
class ApprovalForRequests:
    """An approval that covers one request inside a session, or all of its action (``lasting``).

    Attributes:
        approved: None: none covers it.
        exact: Without one: another exact text is approved, so a next request may be covered.
    """

    approved: ApprovedAccess | None
    lasting: bool = False
    exact: bool = False


@frozen(kw_only=True)
class ApprovalAsk:
    """What a Proxy asks for before it passes a request.

    Attributes:
        grant: Of the session, as Authority signed it.
        action: The request's Cedar action.
        text_sha256: In hex, of the request's exact text; empty: it has none.
        only_exact: An approval of the action would not turn the denial.
    """

    grant: Signed
    action: str
    text_sha256: str = ""
    only_exact: bool = False


@frozen
class DeniedRequest:
    """A request that was denied, as far as one needs it to ask for exactly that one.

    Attributes:
        parameters: Of its session.
        text: Exactly what would have passed.
    """

    resource: str
    action: str
    parameters: Mapping[str, str]
    text: bytes = field(repr=False)


@frozen
class AccessList:
    """One's own requests; or, with ``to_decide``, those one may decide about."""

    to_decide: bool = False


@frozen
class AccessShow:
    """One request: one's own, or one that one may decide about."""

    request_id: str


@frozen
class AccessDecide:
    """A decision, signed by the key of the certificate that signs the call."""

    request_id: str
    approval: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@frozen
class AccessWithdraw:
    """A request of one's own is to open nothing any more."""

    request_id: str


AnyAccessCall = AccessAsk | AccessList | AccessShow | AccessDecide | AccessWithdraw


@frozen(kw_only=True)
class AccessCall:
    """What a person signs to ask for access, or to look at or decide about requests."""

    cluster: str
    proxy_id: str
    issued_at_ms: int
    certificate_sha256: bytes
    nonce: bytes
    call: AnyAccessCall


@frozen(kw_only=True)
class SignedAccessCall:
    """A call as it travels: from a client without chain and address, which the Proxy adds."""

    call: bytes
    signature: bytes
    chain: tuple[bytes, ...] = ()
    source_address: str = ""


@frozen(kw_only=True)
class AccessEntry:
    """One request as a person sees it.

    Attributes:
        document: Canonical JSON: exactly what an approval allows.
        decided_by: Name of the approver; empty while nobody decided.
        text: The exact text that the document names by its SHA-256; empty in lists, and once it
            can be used no more.
    """

    document: bytes
    state: str
    ends_at: int
    used: int = 0
    decided_by: str = ""
    text: bytes = field(default=b"", repr=False)

    @property
    def document_sha256(self) -> bytes:
        """What an approval binds."""
        return sha256(self.document).digest()

    @property
    def terms(self) -> dict[str, Json]:
        """What the document says.  Raises Malformed: it is no canonical JSON object."""
        value = decode(self.document, max_bytes=_DOCUMENT)
        if not isinstance(value, dict):
            raise Malformed("request for access: the document is not an object")
        return value

    @property
    def is_exact(self) -> bool:
        """Whether it is for one exact text."""
        return bool(self.terms.get("text_sha256"))

    @property
    def exact_text(self) -> bytes:
        """The text that the document binds; empty of a request for no exact text.

        Raises:
            Malformed: what came is not that text, or did not come.
        """
        bound = self.terms.get("text_sha256") or ""
        if text_digest(self.text) != bound:
            raise Malformed(
                "request for access: its text is not the one that an approval would bind"
                if self.text
                else "request for access: its text is not kept any more"
            )
        return self.text


def encode_access_call(call: AccessCall) -> bytes:
    """The bytes a person signs."""
    message = pb.AccessCall(
        cluster=call.cluster,
        proxy_id=call.proxy_id,
        issued_at_ms=call.issued_at_ms,
        certificate_sha256=call.certificate_sha256,
        nonce=call.nonce,
    )
    match call.call:
        case AccessAsk() as ask:
            message.ask.CopyFrom(_ask_message(ask))
        case AccessList(to_decide=to_decide):
            message.list.CopyFrom(pb.AccessList(to_decide=to_decide))
        case AccessShow(request_id=request_id):
            message.show.CopyFrom(pb.AccessShow(id=request_id))
        case AccessDecide() as one:
            decide = pb.AccessDecide(
                id=one.request_id, approval=one.approval, signature=one.signature
            )
            message.decide.CopyFrom(decide)
        case AccessWithdraw(request_id=request_id):
            message.withdraw.CopyFrom(pb.AccessWithdraw(id=request_id))
    return message.SerializeToString()


def decode_access_call(data: bytes) -> AccessCall:
    """A call as it came; its signature is checked by the caller.

    Raises:
        Malformed: it is none, or asks for what this build does not know.
    """
    message = parse(pb.AccessCall, data, MAX_SIGNED_BYTES, "access call")
    return AccessCall(
        cluster=text(message.cluster, _NAME, "access call: cluster"),
        proxy_id=text(message.proxy_id, _WORD, "access call: proxy_id"),
        issued_at_ms=message.issued_at_ms,
        certificate_sha256=exactly(
            message.certificate_sha256, DIGEST_BYTES, "access call: certificate_sha256"
        ),
        nonce=exactly(message.nonce, NONCE_BYTES, "access call: nonce"),
        call=_call_of(message),
    )


def _call_of(message: pb.AccessCall) -> AnyAccessCall:
    match message.WhichOneof("call"):
        case "ask":
            return _read_ask(message.ask)
        case "list":
            return AccessList(message.list.to_decide)
        case "show":
            return AccessShow(_id(message.show.id))
        case "decide":
            one = message.decide
            approval, signature = signed_part(one.approval, one.signature, "access call: approval")
            return AccessDecide(_id(one.id), approval, signature)
        case "withdraw":
            return AccessWithdraw(_id(message.withdraw.id))
    raise Malformed("access call: it asks for nothing that this build knows")


def _id(value: str) -> str:
    return text(value, _WORD, "access call: id")


def _ask_message(ask: AccessAsk) -> pb.AccessAsk:
    return pb.AccessAsk(
        resource=ask.resource,
        action=ask.action,
        parameters=[
            pb.Parameter(name=name, value=value) for name, value in sorted(ask.parameters.items())
        ],
        reason=ask.reason,
        secs=ask.secs,
        uses=ask.uses or 0,
        text=ask.text,
    )


def _read_ask(message: pb.AccessAsk) -> AccessAsk:
    return AccessAsk(
        resource=text(message.resource, _NAME, "access call: resource"),
        action=text(message.action, _WORD, "access call: action", empty=True),
        parameters=read_pairs(
            [(one.name, one.value) for one in message.parameters], "access call: parameters"
        ),
        reason=text(message.reason, MAX_REASON, "access call: reason", empty=True),
        secs=message.secs,
        uses=message.uses or None,
        text=_exact_text(message.text),
    )


def access_message(signed: SignedAccessCall) -> pb.SessionAccessRequest:
    """A call as it travels."""
    return pb.SessionAccessRequest(
        call=signed.call,
        signature=signed.signature,
        chain=signed.chain,
        source_address=signed.source_address,
    )


def read_access(message: pb.SessionAccessRequest) -> SignedAccessCall:
    """A call as it came; nothing of it is believed yet."""
    call, signature = signed_part(message.call, message.signature, "access call")
    return SignedAccessCall(
        call=call,
        signature=signature,
        chain=certificates(message.chain, "access call: chain", empty=True),
        source_address=text(
            message.source_address, _WORD, "access call: source_address", empty=True
        ),
    )


def entries_message(entries: Iterable[AccessEntry]) -> pb.SessionAccessResponse:
    """Requests as they travel."""
    return pb.SessionAccessResponse(
        requests=[
            pb.AccessEntry(
                document=one.document,
                state=one.state,
                ends_at=one.ends_at,
                used=one.used,
                decided_by=one.decided_by,
                text=one.text,
            )
            for one in entries
        ]
    )


def read_entries(message: pb.SessionAccessResponse) -> tuple[AccessEntry, ...]:
    """Requests as they came.  Raises Malformed: too many, or a document too long."""
    if len(message.requests) > _ENTRIES:
        raise Malformed(f"requests for access: more than {_ENTRIES}")
    if any(len(one.document) > _DOCUMENT for one in message.requests):
        raise Malformed(f"requests for access: a document has more than {_DOCUMENT} bytes")
    return tuple(
        AccessEntry(
            document=one.document,
            state=text(one.state, _WORD, "requests for access: state"),
            ends_at=one.ends_at,
            used=one.used,
            decided_by=text(one.decided_by, _NAME, "requests for access: decided_by", empty=True),
            text=_exact_text(one.text),
        )
        for one in message.requests
    )


def _exact_text(value: bytes) -> bytes:
    check_text(value)
    return value


def use_approval_request(ask: ApprovalAsk) -> control_pb.UseApprovalRequest:
    """The question whether an approval covers a request in a session, as it travels."""
    return control_pb.UseApprovalRequest(
        grant=signed_grant_message(ask.grant),
        action=ask.action,
        text_sha256=bytes.fromhex(ask.text_sha256),
        only_exact=ask.only_exact,
    )


def read_use_approval(message: control_pb.UseApprovalRequest) -> ApprovalAsk:
    """The question as it came; the grant is unverified."""
    digest = message.text_sha256
    if digest:
        exactly(digest, DIGEST_BYTES, "approval: text_sha256")
    return ApprovalAsk(
        grant=signed_grant(message.grant),
        action=text(message.action, _WORD, "approval: action"),
        text_sha256=digest.hex(),
        only_exact=message.only_exact,
    )


def use_approval_response(found: ApprovalForRequests) -> control_pb.UseApprovalResponse:
    """The answer as it travels."""
    return control_pb.UseApprovalResponse(
        approved=None if found.approved is None else approved_message(found.approved),
        lasting=found.lasting,
        exact=found.exact,
    )


def read_use_approval_response(message: control_pb.UseApprovalResponse) -> ApprovalForRequests:
    """The answer as it came."""
    return ApprovalForRequests(
        approved=read_approved(message.approved) if message.HasField("approved") else None,
        lasting=message.lasting,
        exact=message.exact,
    )


def denied_request(decision_id: str) -> pb.SessionDeniedRequest:
    """The question what was denied."""
    return pb.SessionDeniedRequest(decision_id=decision_id)


def read_denied_request(message: pb.SessionDeniedRequest) -> str:
    """The id of the decision."""
    return text(message.decision_id, _WORD, "denied request: decision_id")


def denied_message(denied: DeniedRequest) -> pb.SessionDeniedResponse:
    """What was denied, as it travels."""
    return pb.SessionDeniedResponse(
        resource=denied.resource,
        action=denied.action,
        parameters=[
            pb.Parameter(name=name, value=value)
            for name, value in sorted(denied.parameters.items())
        ],
        text=denied.text,
    )


def read_denied(message: pb.SessionDeniedResponse) -> DeniedRequest:
    """What was denied, as it came."""
    return DeniedRequest(
        resource=text(message.resource, _NAME, "denied request: resource"),
        action=text(message.action, _WORD, "denied request: action"),
        parameters=read_pairs(
            [(one.name, one.value) for one in message.parameters], "denied request: parameters"
        ),
        text=_exact_text(message.text),
    )
