"""``gate.v1.Control``: what a Proxy asks of Authority and tells it."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, field, frozen

from svc.errors import Malformed
from svc.messages.checks import exactly, head, parse, text, texts
from svc.messages.ended import CountedEnd as CountedEnd
from svc.messages.ended import ended_messages, read_ended_messages
from svc.messages.forms import (
    MAX_WORD,
    PAYLOAD,
    PLAIN,
    SIGNATURE,
    WORD,
    WORD_OR_EMPTY,
    FieldForm,
    MessageForm,
    chain,
    part,
    word,
    words,
)
from svc.messages.gated import SIGNED_GRANT
from svc.messages.tunnel import (
    INVENTORY,
    NONCE_BYTES,
    WITHHELD,
    Nonce,
    registration_message,
    signed_registration,
)
from svc.model.cluster.registration import NO_INVENTORY, Inventory, Withheld
from svc.model.ids import is_opaque_id, is_random_id
from svc.model.policy.access import LARGEST_INTEGER
from svc.model.policy.requested import ApprovedAccess
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as pb
from svc.proto.gate.v1 import tunnel_pb2 as tunnel_pb

HELLO_METHOD = "/gate.v1.Control/Hello"
AUTHORIZE_METHOD = "/gate.v1.Control/Authorize"
REGISTER_METHOD = "/gate.v1.Control/RegisterConnector"
END_METHOD = "/gate.v1.Control/EndSessions"
DEPARTED_METHOD = "/gate.v1.Control/Departed"
WHY_METHOD = "/gate.v1.Control/Why"

MAX_SESSIONS = 100_000
_NO_TEXT = word(1024, empty=True)
MAX_POLICIES = 256
_POLICY = 128
_LARGEST = 2**53
"""Numbers that enter a record stay within what every JSON reader keeps."""

_DECISIONS = frozenset({"allow", "deny", "error"})


@frozen
class AuthorityGreeting:
    """What an Authority says of itself when a Proxy greets it; a port of 0 is a lane not served."""

    cluster: str
    authority_id: str
    version: str
    join_port: int = 0
    renewal_port: int = 0
    admin_port: int = 0


@frozen
class ProxyDecision:
    """The decision of the Proxy's gate; recorded as the Proxy's, never as the Authority's."""

    decision_id: str
    decision: str
    reason: str = ""
    policies: tuple[str, ...] = ()
    policy_version: int = 0
    entities_digest: str = ""
    source_address: str = ""


@frozen
class Ask:
    """One session put before Authority: the person's signed request and the Proxy's decision.

    ``seen_at_ms`` is when the Proxy took the call; 0: by one of before, which does not tell.
    """

    request: bytes
    signature: bytes
    person_chain: tuple[bytes, ...]
    proxy_decision: ProxyDecision
    seen_at_ms: int = 0


@frozen
class AuthorizeAnswer:
    """Authority's answer: a grant, or a refusal with its reason.

    Attributes:
        request_hint: Of a refusal that an approved request would turn: what to type to ask.
        approved: With a grant: the approval that the session stands on.
    """

    decision_id: str
    grant: Signed | None = None
    reason: str = ""
    text: str = ""
    policies: tuple[str, ...] = ()
    may_view: bool = False
    request_hint: str = ""
    approved: ApprovedAccess | None = None


@frozen
class TunnelSeen:
    """A Proxy's first word about a tunnel: its own name for it, and who the TLS peer was."""

    tunnel_id: str
    peer_node_id: str


@frozen
class RegistrationVerdict:
    """Authority's answer to a registration."""

    accepted: bool
    reason: str = ""
    text: str = ""
    lease_secs: int = 0
    served: tuple[str, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    inventory: Inventory = NO_INVENTORY


AGAIN = "again"
"""The word of an eviction that takes no tunnel away: what may be served changed."""


@frozen
class Evict:
    """Authority takes a registration back; with :data:`AGAIN`, only to have it made again."""

    reason: str


ConnectorUp = TunnelSeen | Signed
ConnectorDown = Nonce | RegistrationVerdict | Evict


@frozen
class Departure:
    """A tunnel that ended while these sessions relayed over it.

    Attributes:
        ended: Those of them whose bytes and lane are known.
    """

    tunnel_node_id: str
    reason: str
    session_uids: tuple[str, ...] = field(factory=tuple)
    ended: tuple[CountedEnd, ...] = ()


def hello_message(
    version: str, instance_id: str, open_sessions: Iterable[str], audit_head: bytes = b""
) -> pb.HelloRequest:
    """A Proxy's greeting: it claims the sessions it still carries, and shows the head it keeps."""
    return pb.HelloRequest(
        version=version,
        instance_id=instance_id,
        open_sessions=open_sessions,
        audit_head=audit_head,
    )


def read_hello(message: pb.HelloRequest) -> tuple[str, str, tuple[str, ...], bytes]:
    """Version, instance id, claimed session uids and the signed head's line of a greeting."""
    return (
        text(message.version, MAX_WORD, "hello: version"),
        text(message.instance_id, MAX_WORD, "hello: instance_id"),
        texts(message.open_sessions, MAX_SESSIONS, MAX_WORD, "hello: open_sessions"),
        head(message.audit_head, "hello: audit_head"),
    )


def _port(came: int, what: str) -> int:
    if came > 65535:
        raise Malformed(f"{what}: a port above 65535")
    return came


_PORT = FieldForm(read=_port)
_GREETING = MessageForm(
    pb.HelloResponse,
    AuthorityGreeting,
    "hello",
    cluster=PLAIN,
    authority_id=PLAIN,
    version=PLAIN,
    join_port=_PORT,
    renewal_port=_PORT,
    admin_port=_PORT,
)
lanes_message, read_lanes = _GREETING.message, _GREETING.read
"""Authority's word of itself."""


def _decision_id(came: str, what: str) -> str:
    if not is_random_id(came):
        raise Malformed(f"{what}: not 32 hex digits")
    return came


def _decision(came: str, what: str) -> str:
    if came not in _DECISIONS:
        raise Malformed(f"{what}: none of allow, deny, error")
    return came


def _version(came: int, what: str) -> int:
    if came > _LARGEST:
        raise Malformed(f"{what}: too large")
    return came


_POLICIES = words(MAX_POLICIES, _POLICY)
_PROXY_DECISION = MessageForm(
    pb.ProxyDecision,
    ProxyDecision,
    "authorize",
    decision_id=FieldForm(read=_decision_id),
    decision=FieldForm(read=_decision),
    reason=WORD_OR_EMPTY,
    # The rest of a long list is left out: a record names as many, and no more are taken.
    policies=evolve(_POLICIES, write=lambda policies: policies[:MAX_POLICIES]),
    policy_version=FieldForm(read=_version),
    entities_digest=word(128, empty=True),
    source_address=WORD_OR_EMPTY,
)
_ASK = MessageForm(
    pb.AuthorizeRequest,
    Ask,
    "authorize",
    request=PAYLOAD,
    signature=SIGNATURE,
    person_chain=chain(),
    proxy_decision=part(_PROXY_DECISION),
    seen_at_ms=PLAIN,
)
ask_message, read_ask = _ASK.message, _ASK.read
"""An Ask; nothing of it is believed as it comes."""


def _end_of_approval(came: int, what: str) -> int:
    if not 0 < came <= LARGEST_INTEGER:
        raise Malformed(f"{what} is no time")
    return came


APPROVED = MessageForm(
    pb.ApprovedAccess,
    ApprovedAccess,
    "answer: approved",
    request_id=WORD,
    approver=WORD,
    ends_at=FieldForm(read=_end_of_approval),
    exact=PLAIN,
)
"""An approval as Authority says it."""

_ANSWER = MessageForm(
    pb.AuthorizeResponse,
    AuthorizeAnswer,
    "answer",
    decision_id=WORD,
    grant=part(SIGNED_GRANT, optional=True),
    reason=WORD_OR_EMPTY,
    text=_NO_TEXT,
    policies=_POLICIES,
    may_view=PLAIN,
    request_hint=_NO_TEXT,
    approved=part(APPROVED, optional=True),
)
answer_message, read_answer = _ANSWER.message, _ANSWER.read
"""An Answer; the grant's signature is checked by who relies on it."""

_VERDICT = MessageForm(
    pb.RegistrationAnswer,
    RegistrationVerdict,
    "verdict",
    accepted=PLAIN,
    reason=WORD_OR_EMPTY,
    text=_NO_TEXT,
    lease_secs=PLAIN,
    served=words(10_000),
    withheld=WITHHELD,
    inventory=INVENTORY,
)


def encode_connector_up(value: ConnectorUp) -> bytes:
    """What a Proxy says about a tunnel, as one message."""
    if isinstance(value, TunnelSeen):
        seen = pb.ConnectorTunnel(tunnel_id=value.tunnel_id, peer_node_id=value.peer_node_id)
        return pb.ConnectorUp(tunnel=seen).SerializeToString()
    return pb.ConnectorUp(registration=registration_message(value)).SerializeToString()


def decode_connector_up(data: bytes) -> ConnectorUp:
    """One message of a Proxy about a tunnel."""
    message = parse(pb.ConnectorUp, data, 4 * 1024 * 1024, "connector")
    match message.WhichOneof("message"):
        case "tunnel":
            if not is_opaque_id(message.tunnel.peer_node_id):
                raise Malformed("connector: peer_node_id: not a node's id")
            return TunnelSeen(
                text(message.tunnel.tunnel_id, MAX_WORD, "connector: tunnel_id"),
                message.tunnel.peer_node_id,
            )
        case "registration":
            return signed_registration(message.registration)
    raise Malformed("connector: a message of an unknown type")


def encode_connector_down(value: ConnectorDown) -> bytes:
    """What Authority says about a tunnel, as one message."""
    match value:
        case Nonce():
            message = pb.ConnectorDown(nonce=tunnel_pb.Nonce(nonce=value.nonce))
        case RegistrationVerdict():
            message = pb.ConnectorDown(answer=_VERDICT.message(value))
        case Evict():
            message = pb.ConnectorDown(evict=pb.Evict(reason=value.reason))
    return message.SerializeToString()


def decode_connector_down(data: bytes) -> ConnectorDown:
    """One message of Authority about a tunnel."""
    message = parse(pb.ConnectorDown, data, 4 * 1024 * 1024, "connector")
    match message.WhichOneof("message"):
        case "nonce":
            return Nonce(exactly(message.nonce.nonce, NONCE_BYTES, "connector: nonce"))
        case "answer":
            return _VERDICT.read(message.answer)
        case "evict":
            return Evict(text(message.evict.reason, MAX_WORD, "evict: reason"))
    raise Malformed("connector: a message of an unknown type")


def ended_message(
    sessions: Iterable[CountedEnd], moved: Iterable[str] = ()
) -> pb.EndSessionsRequest:
    """Ends as they travel, with the sessions that have moved to a direct lane."""
    return pb.EndSessionsRequest(sessions=ended_messages(sessions), moved=moved)


def read_ended(message: pb.EndSessionsRequest) -> tuple[CountedEnd, ...]:
    """Ends as they came, bounded."""
    if len(message.sessions) > MAX_SESSIONS:
        raise Malformed(f"ended sessions: more than {MAX_SESSIONS}")
    return read_ended_messages(message.sessions)


def read_moved(message: pb.EndSessionsRequest) -> tuple[str, ...]:
    """The sessions that have moved, bounded."""
    return texts(message.moved, MAX_SESSIONS, MAX_WORD, "ended sessions: moved")


_DEPARTURE = MessageForm(
    pb.DepartureNotice,
    Departure,
    "departure",
    tunnel_node_id=WORD,
    reason=WORD,
    session_uids=words(MAX_SESSIONS),
    ended=FieldForm(
        write=ended_messages, read=lambda came, what: read_ended_messages(came[:MAX_SESSIONS])
    ),
)
departure_message, read_departure = _DEPARTURE.message, _DEPARTURE.read
"""A departure, bounded as it comes."""


def outcome_messages(outcomes: Iterable[tuple[str, str]]) -> list[pb.SessionOutcome]:
    """(session uid, outcome) pairs as they travel."""
    return [pb.SessionOutcome(session_uid=uid, outcome=outcome) for uid, outcome in outcomes]
