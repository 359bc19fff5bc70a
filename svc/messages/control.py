"""``gate.v1.Control``: what a Proxy asks of Authority and tells it."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from attrs import evolve, field, frozen

from svc.errors import Malformed
from svc.messages.ended import ENDED
from svc.messages.ended import CountedEnd as CountedEnd
from svc.messages.forms import (
    HEAD,
    MAX_NAME,
    PAYLOAD,
    PLAIN,
    RANDOM_ID,
    SIGNATURE,
    WORD,
    WORD_OR_EMPTY,
    ChoiceForm,
    FieldForm,
    MessageForm,
    at_most,
    chain,
    octets,
    one_of,
    part,
    parts,
    word,
    words,
)
from svc.messages.gated import SIGNED_GRANT
from svc.messages.tunnel import (
    INVENTORY,
    NONCE_BYTES,
    SIGNED_REGISTRATION,
    WITHHELD,
    Nonce,
)
from svc.model.cluster.registration import NO_INVENTORY, Inventory, Withheld
from svc.model.ids import is_opaque_id
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

_DECISIONS = {word: word for word in ("allow", "deny", "error")}


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
        peer_address: With a grant for a session to relay: where its egress Proxy is reached.
    """

    decision_id: str
    grant: Signed | None = None
    reason: str = ""
    text: str = ""
    policies: tuple[str, ...] = ()
    may_view: bool = False
    request_hint: str = ""
    approved: ApprovedAccess | None = None
    peer_address: str = ""


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


PEER_ADDRESS = word(MAX_NAME + len("[]:65535"), empty=True)
"""``host:port``; whoever dials it parses it."""


def hello_message(
    version: str,
    instance_id: str,
    open_sessions: Iterable[str],
    audit_head: bytes = b"",
    peer_address: str = "",
) -> pb.HelloRequest:
    """A Proxy's greeting: it claims the sessions it still carries, and shows the head it keeps.

    Args:
        peer_address: Where other Proxies reach it; empty: it relays no sessions.
    """
    return pb.HelloRequest(
        version=version,
        instance_id=instance_id,
        open_sessions=open_sessions,
        audit_head=audit_head,
        peer_address=peer_address,
    )


class ProxyGreeting(NamedTuple):
    """A greeting as it came; ``head`` is the signed head's line that the Proxy keeps.

    ``peer_address`` is where other Proxies reach it; empty: it relays no sessions.
    """

    version: str
    instance_id: str
    open_sessions: tuple[str, ...]
    head: bytes
    peer_address: str = ""


_HELLO = MessageForm(
    pb.HelloRequest,
    ProxyGreeting,
    "hello",
    version=WORD,
    instance_id=WORD,
    open_sessions=words(MAX_SESSIONS),
    head=HEAD.named("audit_head"),
    peer_address=PEER_ADDRESS,
)
read_hello = _HELLO.read

_PORT = at_most(65535, "a port above 65535")
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


_POLICIES = words(MAX_POLICIES, _POLICY)
_PROXY_DECISION = MessageForm(
    pb.ProxyDecision,
    ProxyDecision,
    "authorize",
    decision_id=RANDOM_ID,
    decision=one_of(_DECISIONS, "none of allow, deny, error"),
    reason=WORD_OR_EMPTY,
    # The rest of a long list is left out: a record names as many, and no more are taken.
    policies=evolve(_POLICIES, write=itemgetter(slice(MAX_POLICIES))),
    policy_version=at_most(_LARGEST, "too large"),
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


def _end_of_approval(what: str, came: int) -> int:
    if not 0 < came <= LARGEST_INTEGER:
        raise Malformed(f"{what} is no time")
    return came


APPROVED = MessageForm(
    pb.ApprovedAccess,
    ApprovedAccess,
    "answer: approved",
    request_id=WORD,
    approver=WORD,
    ends_at=FieldForm(read_as=_end_of_approval),
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
    peer_address=PEER_ADDRESS,
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


_MOST = 4 * 1024 * 1024
_CONNECTOR_UP = ChoiceForm[ConnectorUp](
    pb.ConnectorUp,
    "connector",
    max_bytes=_MOST,
    tunnel=MessageForm(
        pb.ConnectorTunnel,
        TunnelSeen,
        "connector",
        peer_node_id=FieldForm(fits=is_opaque_id, refusal=lambda came: "not a node's id"),
        tunnel_id=WORD,
    ),
    registration=SIGNED_REGISTRATION,
)
encode_connector_up, decode_connector_up = _CONNECTOR_UP.encode, _CONNECTOR_UP.decode
"""What a Proxy says about a tunnel, as one message."""

_CONNECTOR_DOWN = ChoiceForm[ConnectorDown](
    pb.ConnectorDown,
    "connector",
    max_bytes=_MOST,
    nonce=MessageForm(tunnel_pb.Nonce, Nonce, "connector", nonce=octets(NONCE_BYTES)),
    answer=_VERDICT,
    evict=MessageForm(pb.Evict, Evict, "evict", reason=WORD),
)
encode_connector_down, decode_connector_down = _CONNECTOR_DOWN.encode, _CONNECTOR_DOWN.decode
"""What Authority says about a tunnel, as one message."""


class EndReport(NamedTuple):
    """Ends of sessions, and those that have moved to a direct lane."""

    ended: tuple[CountedEnd, ...]
    moved: tuple[str, ...]


_END_REPORT = MessageForm(
    pb.EndSessionsRequest,
    EndReport,
    "ended sessions",
    ended=evolve(parts(ENDED, MAX_SESSIONS), on_wire="sessions", called=""),
    moved=words(MAX_SESSIONS),
)
read_ended = _END_REPORT.read


def ended_message(
    sessions: Iterable[CountedEnd], moved: Iterable[str] = ()
) -> pb.EndSessionsRequest:
    """Ends as they travel, with the sessions that have moved to a direct lane."""
    return _END_REPORT.message(EndReport(tuple(sessions), tuple(moved)))


_DEPARTURE = MessageForm(
    pb.DepartureNotice,
    Departure,
    "departure",
    tunnel_node_id=WORD,
    reason=WORD,
    session_uids=words(MAX_SESSIONS),
    ended=evolve(
        parts(ENDED), read=lambda came: tuple([ENDED.read(one) for one in came[:MAX_SESSIONS]])
    ),
)
departure_message, read_departure = _DEPARTURE.message, _DEPARTURE.read
"""A departure, bounded as it comes."""


def outcome_messages(outcomes: Iterable[tuple[str, str]]) -> list[pb.SessionOutcome]:
    """(session uid, outcome) pairs as they travel."""
    return [pb.SessionOutcome(session_uid=uid, outcome=outcome) for uid, outcome in outcomes]
