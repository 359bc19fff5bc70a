"""``Session/Access`` and ``Control/Access``: requests for access, asked for and decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from attrs import evolve, field, frozen

from svc.errors import Malformed
from svc.messages.control import APPROVED
from svc.messages.forms import (
    DIGEST,
    DIGEST_BYTES,
    MAX_SIGNED_BYTES,
    NAME,
    NAME_OR_EMPTY,
    PARAMETERS,
    PAYLOAD,
    PLAIN,
    SIGNATURE,
    WORD,
    WORD_OR_EMPTY,
    FieldForm,
    FieldTable,
    MessageForm,
    bounded,
    chain,
    octets,
    parse,
    part,
    word,
)
from svc.messages.gated import SIGNED_GRANT
from svc.model.canonical import Json, decode
from svc.model.policy.requested import (
    MAX_REASON,
    AccessAsk,
    ApprovedAccess,
    check_text,
    text_digest,
)
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as control_pb
from svc.proto.gate.v1 import session_pb2 as pb

SESSION_ACCESS_METHOD = "/gate.v1.Session/Access"
CONTROL_ACCESS_METHOD = "/gate.v1.Control/Access"

SESSION_DENIED_METHOD = "/gate.v1.Session/Denied"
USE_APPROVAL_METHOD = "/gate.v1.Control/UseApproval"

NO_DENIED_TEXT = "unknown_decision"
"""The reason of a refusal: this Proxy has no text of the denied request that is asked about."""

NONCE_BYTES = 16
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


_REQUEST_ID = WORD.named("id")


def _exact_text(came: bytes) -> bytes:
    check_text(came)
    return came


_EXACT_TEXT = FieldForm(read=_exact_text)
_ASK = MessageForm(
    pb.AccessAsk,
    AccessAsk,
    "access call",
    resource=NAME,
    action=WORD_OR_EMPTY,
    parameters=PARAMETERS,
    reason=word(MAX_REASON, empty=True),
    secs=PLAIN,
    uses=FieldForm(read=lambda came: came or None),
    text=_EXACT_TEXT,
)
_CALLS: Mapping[str, MessageForm[Any, Any]] = {
    "ask": _ASK,
    "list": MessageForm(pb.AccessList, AccessList, "access call", to_decide=PLAIN),
    "show": MessageForm(pb.AccessShow, AccessShow, "access call", request_id=_REQUEST_ID),
    "decide": MessageForm(
        pb.AccessDecide,
        AccessDecide,
        "access call",
        request_id=_REQUEST_ID,
        approval=PAYLOAD,
        signature=SIGNATURE,
    ),
    "withdraw": MessageForm(
        pb.AccessWithdraw, AccessWithdraw, "access call", request_id=_REQUEST_ID
    ),
}
_NAMES: Mapping[type[AnyAccessCall], str] = {
    AccessAsk: "ask",
    AccessList: "list",
    AccessShow: "show",
    AccessDecide: "decide",
    AccessWithdraw: "withdraw",
}


_CALL = FieldTable(
    "access call",
    cluster=NAME,
    proxy_id=WORD,
    issued_at_ms=PLAIN,
    certificate_sha256=DIGEST,
    nonce=octets(NONCE_BYTES),
)


def encode_access_call(call: AccessCall) -> bytes:
    """The bytes a person signs."""
    name = _NAMES[type(call.call)]
    return pb.AccessCall(
        cluster=call.cluster,
        proxy_id=call.proxy_id,
        issued_at_ms=call.issued_at_ms,
        certificate_sha256=call.certificate_sha256,
        nonce=call.nonce,
        **{name: _CALLS[name].message(call.call)},
    ).SerializeToString()


def decode_access_call(data: bytes) -> AccessCall:
    """A call as it came; its signature is checked by the caller.

    Raises:
        Malformed: it is none, or asks for what this build does not know.
    """
    message = parse(pb.AccessCall, data, MAX_SIGNED_BYTES, "access call")
    name = message.WhichOneof("call")
    if name is None:
        raise Malformed("access call: it asks for nothing that this build knows")
    return AccessCall(
        **_CALL.read_fields(message),
        call=_CALLS[name].read(getattr(message, name)),
    )


_SIGNED_CALL = MessageForm(
    pb.SessionAccessRequest,
    SignedAccessCall,
    "access call",
    call=PAYLOAD,
    signature=SIGNATURE,
    chain=chain(empty=True),
    source_address=WORD_OR_EMPTY,
)
access_message, read_access = _SIGNED_CALL.message, _SIGNED_CALL.read
"""A call as it travels; nothing of it is believed as it comes."""

_ENTRY = MessageForm(
    pb.AccessEntry,
    AccessEntry,
    "requests for access",
    document=bounded(_DOCUMENT),
    state=WORD,
    ends_at=PLAIN,
    used=PLAIN,
    decided_by=NAME_OR_EMPTY,
    text=_EXACT_TEXT,
)


def entries_message(entries: Iterable[AccessEntry]) -> pb.SessionAccessResponse:
    """Requests as they travel."""
    return pb.SessionAccessResponse(requests=map(_ENTRY.message, entries))


def read_entries(message: pb.SessionAccessResponse) -> tuple[AccessEntry, ...]:
    """Requests as they came.  Raises Malformed: too many, or a document too long."""
    if len(message.requests) > _ENTRIES:
        raise Malformed(f"requests for access: more than {_ENTRIES}")
    return tuple(map(_ENTRY.read, message.requests))


_APPROVAL_ASK = MessageForm(
    control_pb.UseApprovalRequest,
    ApprovalAsk,
    "approval",
    grant=part(SIGNED_GRANT),
    action=WORD,
    text_sha256=evolve(octets(DIGEST_BYTES, empty=True), write=bytes.fromhex, read=bytes.hex),
    only_exact=PLAIN,
)
use_approval_request, read_use_approval = _APPROVAL_ASK.message, _APPROVAL_ASK.read
"""The question whether an approval covers a request in a session; the grant is unverified."""

_APPROVAL = MessageForm(
    control_pb.UseApprovalResponse,
    ApprovalForRequests,
    "approval",
    approved=part(APPROVED, optional=True),
    lasting=PLAIN,
    exact=PLAIN,
)
use_approval_response, read_use_approval_response = _APPROVAL.message, _APPROVAL.read
"""The answer whether an approval covers a request."""


def denied_request(decision_id: str) -> pb.SessionDeniedRequest:
    """The question what was denied."""
    return pb.SessionDeniedRequest(decision_id=decision_id)


_ASKED = FieldTable("denied request", decision_id=WORD)


def read_denied_request(message: pb.SessionDeniedRequest) -> str:
    """The id of the decision."""
    found: str = _ASKED.read_fields(message)["decision_id"]
    return found


_DENIED = MessageForm(
    pb.SessionDeniedResponse,
    DeniedRequest,
    "denied request",
    resource=NAME,
    action=WORD,
    parameters=PARAMETERS,
    text=_EXACT_TEXT,
)
denied_message, read_denied = _DENIED.message, _DENIED.read
"""What was denied."""
