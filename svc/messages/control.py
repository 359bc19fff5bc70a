"""``gate.v1.Control``: what a Proxy asks of Authority and tells it."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.checks import (
    MessageForm,
    certificates,
    exactly,
    head,
    parse,
    signed_part,
    text,
    texts,
)
from svc.messages.ended import CountedEnd as CountedEnd
from svc.messages.ended import ended_messages, read_ended_messages
from svc.messages.session import signed_grant, signed_grant_message
from svc.messages.tunnel import (
    NONCE_BYTES,
    Nonce,
    inventory_message,
    read_inventory,
    read_withheld,
    registration_message,
    signed_registration,
    withheld_messages,
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
_WORD = 63
_TEXT = 1024
_POLICIES = 256
_POLICY = 128
_PROXY_DECISION = MessageForm(
    "authorize",
    optional={"reason": _WORD, "entities_digest": 128, "source_address": _WORD},
)
_ANSWER = MessageForm(
    "answer",
    texts={"decision_id": _WORD},
    optional={"reason": _WORD, "text": _TEXT, "request_hint": _TEXT},
)
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
        text(message.version, _WORD, "hello: version"),
        text(message.instance_id, _WORD, "hello: instance_id"),
        texts(message.open_sessions, MAX_SESSIONS, _WORD, "hello: open_sessions"),
        head(message.audit_head, "hello: audit_head"),
    )


def lanes_message(lanes: AuthorityGreeting) -> pb.HelloResponse:
    """Authority's word of itself, as it travels."""
    return pb.HelloResponse(
        cluster=lanes.cluster,
        authority_id=lanes.authority_id,
        version=lanes.version,
        join_port=lanes.join_port,
        renewal_port=lanes.renewal_port,
        admin_port=lanes.admin_port,
    )


def read_lanes(message: pb.HelloResponse) -> AuthorityGreeting:
    """Authority's word of itself, as it came."""
    ports = (message.join_port, message.renewal_port, message.admin_port)
    if any(port > 65535 for port in ports):
        raise Malformed("hello: a port above 65535")
    return AuthorityGreeting(message.cluster, message.authority_id, message.version, *ports)


def ask_message(ask: Ask) -> pb.AuthorizeRequest:
    """An Ask as it travels."""
    value = ask.proxy_decision
    # The rest of a long list is left out: a record names as many, and no more are taken.
    return pb.AuthorizeRequest(
        request=ask.request,
        signature=ask.signature,
        person_chain=ask.person_chain,
        seen_at_ms=ask.seen_at_ms,
        proxy_decision=pb.ProxyDecision(
            decision_id=value.decision_id,
            decision=value.decision,
            reason=value.reason,
            policies=value.policies[:_POLICIES],
            policy_version=value.policy_version,
            entities_digest=value.entities_digest,
            source_address=value.source_address,
        ),
    )


def read_ask(message: pb.AuthorizeRequest) -> Ask:
    """An Ask as it came; nothing of it is believed yet."""
    request, signature = signed_part(message.request, message.signature, "authorize")
    return Ask(
        request=request,
        signature=signature,
        person_chain=certificates(message.person_chain, "authorize: person_chain"),
        proxy_decision=_proxy_decision(message.proxy_decision),
        seen_at_ms=message.seen_at_ms,
    )


def _proxy_decision(value: pb.ProxyDecision) -> ProxyDecision:
    if not is_random_id(value.decision_id):
        raise Malformed("authorize: decision_id: not 32 hex digits")
    if value.decision not in _DECISIONS:
        raise Malformed("authorize: decision: none of allow, deny, error")
    if value.policy_version > _LARGEST:
        raise Malformed("authorize: policy_version: too large")
    return ProxyDecision(
        **_PROXY_DECISION.read(value),
        decision_id=value.decision_id,
        decision=value.decision,
        policies=texts(value.policies, _POLICIES, _POLICY, "authorize: policies"),
        policy_version=value.policy_version,
    )


def answer_message(answer: AuthorizeAnswer) -> pb.AuthorizeResponse:
    """An Answer as it travels."""
    return pb.AuthorizeResponse(
        grant=None if answer.grant is None else signed_grant_message(answer.grant),
        decision_id=answer.decision_id,
        reason=answer.reason,
        text=answer.text,
        policies=answer.policies,
        may_view=answer.may_view,
        request_hint=answer.request_hint,
        approved=None if answer.approved is None else approved_message(answer.approved),
    )


def read_answer(message: pb.AuthorizeResponse) -> AuthorizeAnswer:
    """An Answer as it came; the grant's signature is checked by who relies on it."""
    return AuthorizeAnswer(
        **_ANSWER.read(message),
        grant=signed_grant(message.grant) if message.HasField("grant") else None,
        policies=texts(message.policies, _POLICIES, _POLICY, "answer: policies"),
        may_view=message.may_view,
        approved=read_approved(message.approved) if message.HasField("approved") else None,
    )


def approved_message(approved: ApprovedAccess) -> pb.ApprovedAccess:
    """An approval as it travels."""
    return pb.ApprovedAccess(
        request_id=approved.request_id,
        approver=approved.approver,
        ends_at=approved.ends_at,
        exact=approved.exact,
    )


def read_approved(message: pb.ApprovedAccess) -> ApprovedAccess:
    """An approval as Authority says it."""
    if not 0 < message.ends_at <= LARGEST_INTEGER:
        raise Malformed("answer: approved: ends_at is no time")
    return ApprovedAccess(
        request_id=text(message.request_id, _WORD, "answer: approved: request_id"),
        approver=text(message.approver, _WORD, "answer: approved: approver"),
        ends_at=message.ends_at,
        exact=message.exact,
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
                text(message.tunnel.tunnel_id, _WORD, "connector: tunnel_id"),
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
            answer = pb.RegistrationAnswer(
                accepted=value.accepted,
                reason=value.reason,
                text=value.text,
                lease_secs=value.lease_secs,
                served=value.served,
                withheld=withheld_messages(value.withheld),
                inventory=inventory_message(value.inventory),
            )
            message = pb.ConnectorDown(answer=answer)
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
            value = message.answer
            return RegistrationVerdict(
                accepted=value.accepted,
                reason=text(value.reason, _WORD, "verdict: reason", empty=True),
                text=text(value.text, _TEXT, "verdict: text", empty=True),
                lease_secs=value.lease_secs,
                served=texts(value.served, 10_000, _WORD, "verdict: served"),
                withheld=read_withheld(value.withheld),
                inventory=read_inventory(value.inventory),
            )
        case "evict":
            return Evict(text(message.evict.reason, _WORD, "evict: reason"))
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
    return texts(message.moved, MAX_SESSIONS, _WORD, "ended sessions: moved")


def departure_message(departure: Departure) -> pb.DepartureNotice:
    """A departure as it travels."""
    return pb.DepartureNotice(
        tunnel_node_id=departure.tunnel_node_id,
        reason=departure.reason,
        session_uids=departure.session_uids,
        ended=ended_messages(departure.ended),
    )


def read_departure(message: pb.DepartureNotice) -> Departure:
    """A departure as it came, bounded."""
    return Departure(
        tunnel_node_id=text(message.tunnel_node_id, _WORD, "departure: node"),
        reason=text(message.reason, _WORD, "departure: reason"),
        session_uids=texts(message.session_uids, MAX_SESSIONS, _WORD, "departure: sessions"),
        ended=read_ended_messages(message.ended[:MAX_SESSIONS]),
    )


def outcome_messages(outcomes: Iterable[tuple[str, str]]) -> list[pb.SessionOutcome]:
    """(session uid, outcome) pairs as they travel."""
    return [pb.SessionOutcome(session_uid=uid, outcome=outcome) for uid, outcome in outcomes]
