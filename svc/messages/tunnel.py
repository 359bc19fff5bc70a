"""``gate.v1.Tunnel``: registration, lease, open notices, and how a carry stream begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.checks import MAX_SIGNED_BYTES, exactly, parse, text
from svc.messages.forms import (
    MAX_WORD,
    NAME,
    PAYLOAD,
    PLAIN,
    SIGNATURE,
    WORD,
    WORD_OR_EMPTY,
    FieldForm,
    MessageForm,
    SignatureForm,
    bounded,
    chain,
    octets,
    part,
    parts,
    words,
)
from svc.messages.gated import SIGNED_GRANT, signed_answer, signed_answer_message
from svc.messages.session import LANE_TOKEN_BYTES
from svc.model.cluster.registration import (
    MAX_RESOURCES,
    NO_INVENTORY,
    AcceptedRegistration,
    DeclaredResource,
    Inventory,
    Registration,
    Withheld,
)
from svc.model.cluster.resource import Assigned
from svc.model.signing import Signed
from svc.proto.gate.v1 import tunnel_pb2 as pb

REGISTER_METHOD = "/gate.v1.Tunnel/Register"
CARRY_METHOD = "/gate.v1.Tunnel/Carry"

NONCE_BYTES = 32
SECRET_BYTES = 32
MAX_FIRST_FLIGHT = 4096
"""What is longer goes through the session's stream, as everything does after it."""

MAX_REGISTRATION_BYTES = 2 * 1024 * 1024
MAX_DOWN_BYTES = 2 * 1024 * 1024
_TRACEPARENT = 128
_CARRY_OPEN = 2 * MAX_SIGNED_BYTES


@frozen
class Hello:
    """A Connector's first word on a tunnel."""

    instance_id: str
    version: str
    takes_lanes: bool = False
    takes_first_flight: bool = False


@frozen
class Nonce:
    """Authority's challenge; when it comes again, a registration is signed again."""

    nonce: bytes


@frozen
class Renew:
    """The Connector keeps its lease."""


@frozen
class Renewed:
    """The Proxy has heard it."""


@frozen
class Goodbye:
    """The Connector ends the tunnel in order."""


@frozen
class DrainNotice:
    """The Proxy ends the tunnel in order; open sessions may finish."""


@frozen
class LaneOffer:
    """An open session may move to a direct lane: the token of the Connector's half."""

    session_uid: str
    token: bytes = field(repr=False)


@frozen
class OpenRefused:
    """The Connector does not open this session; ``reason`` is a stable word."""

    session_uid: str
    reason: str


@frozen
class OpenNotice:
    """All a Connector needs to check a session by itself and to open its lane.

    ``request`` and ``signature`` are the person's, ``person_chain`` the
    person's certificate and its issuer; ``secret`` is good for one carry
    stream on the connection this notice came over.  ``traceparent`` says
    nothing about the session: one that is too long is as none.  ``first_flight``
    is what the person's end of the session says first: the stream goes on after it.
    """

    session_uid: str
    grant: Signed
    request: bytes
    signature: bytes
    person_chain: tuple[bytes, ...]
    secret: bytes
    traceparent: str = ""
    first_flight: bytes = field(default=b"", repr=False)


Up = Hello | Signed | Renew | OpenRefused | Goodbye
"""What a Connector sends; ``Signed`` is a signed registration."""

Down = Nonce | AcceptedRegistration | Renewed | OpenNotice | DrainNotice | LaneOffer


_DECLARED = MessageForm(
    pb.DeclaredResource, DeclaredResource, "registration: resource", id=WORD, kind=WORD_OR_EMPTY
)
_REGISTRATION = MessageForm(
    pb.Registration,
    Registration,
    "registration",
    cluster=NAME,
    node_id=WORD,
    proxy_id=WORD,
    nonce=octets(NONCE_BYTES),
    resources=parts(_DECLARED, MAX_RESOURCES),
    instance_id=WORD,
    generation=PLAIN,
    version=WORD,
    capabilities=words(64),
    inventory_generation=PLAIN,
)
encode_registration = _REGISTRATION.encode
"""What a node signs."""


def decode_registration(data: bytes) -> Registration:
    """A registration as it came: bounded; its meaning is judged by Authority."""
    return _REGISTRATION.decode(data, MAX_REGISTRATION_BYTES)


SIGNED_REGISTRATION = SignatureForm(
    pb.SignedRegistration, "registration", "registration", most=MAX_REGISTRATION_BYTES
)
registration_message, signed_registration = SIGNED_REGISTRATION.message, SIGNED_REGISTRATION.read
"""A signed registration inside other messages; as it comes it is unverified."""

_WITHHELD = MessageForm(pb.WithheldResource, Withheld, "withheld", id=WORD, reason=WORD)
WITHHELD = parts(_WITHHELD)

_ASSIGNED = MessageForm(
    pb.AssignedResource,
    Assigned,
    "inventory: resource",
    id=WORD,
    identity=NAME,
    revision=PLAIN,
)


def _by_id(assigned: Iterable[Assigned]) -> list[pb.AssignedResource]:
    return [_ASSIGNED.message(one) for one in sorted(assigned, key=lambda one: one.id)]


def _assigned(came: Sequence[pb.AssignedResource], what: str) -> frozenset[Assigned]:
    if len(came) > MAX_RESOURCES:
        raise Malformed(f"{what}: more than {MAX_RESOURCES} resources")
    return frozenset(map(_ASSIGNED.read, came))


_INVENTORY = MessageForm(
    pb.Inventory,
    Inventory,
    "inventory",
    generation=PLAIN,
    assigned=FieldForm(write=_by_id, read=_assigned),
)
INVENTORY = FieldForm(
    write=lambda value: None if value == NO_INVENTORY else _INVENTORY.message(value),
    read=lambda came, what: _INVENTORY.read(came),
)
"""An inventory; one that is absent is none."""

_HELLO = MessageForm(
    pb.TunnelHello,
    Hello,
    "tunnel hello",
    instance_id=WORD,
    version=WORD,
    takes_lanes=PLAIN,
    takes_first_flight=PLAIN,
)
_REFUSED = MessageForm(pb.OpenRefused, OpenRefused, "open refused", session_uid=WORD, reason=WORD)
_NONCE = MessageForm(pb.Nonce, Nonce, "nonce", nonce=octets(NONCE_BYTES))
_ACCEPTED = MessageForm(
    pb.RegistrationAccepted,
    AcceptedRegistration,
    "accepted",
    lease_secs=PLAIN,
    withheld=WITHHELD,
    inventory=INVENTORY,
)
_NOTICE = MessageForm(
    pb.OpenNotice,
    OpenNotice,
    "open notice",
    session_uid=WORD,
    grant=part(SIGNED_GRANT),
    request=PAYLOAD,
    signature=SIGNATURE,
    person_chain=chain(),
    secret=octets(SECRET_BYTES),
    traceparent=FieldForm(read=lambda came, what: came if len(came) <= _TRACEPARENT else ""),
    first_flight=bounded(MAX_FIRST_FLIGHT),
)
_LANE = MessageForm(
    pb.LaneOffer, LaneOffer, "lane offer", session_uid=WORD, token=octets(LANE_TOKEN_BYTES)
)


def encode_up(value: Up) -> bytes:
    """What a Connector says, as one message."""
    match value:
        case Hello():
            message = pb.TunnelUp(hello=_HELLO.message(value))
        case Signed():
            message = pb.TunnelUp(registration=registration_message(value))
        case Renew():
            message = pb.TunnelUp(renew=pb.LeaseRenew())
        case OpenRefused():
            message = pb.TunnelUp(open_refused=_REFUSED.message(value))
        case Goodbye():
            message = pb.TunnelUp(goodbye=pb.Goodbye())
    return message.SerializeToString()


def decode_up(data: bytes) -> Up:
    """One message of a Connector."""
    message = parse(pb.TunnelUp, data, MAX_REGISTRATION_BYTES + 64 * 1024, "tunnel")
    match message.WhichOneof("message"):
        case "hello":
            return _HELLO.read(message.hello)
        case "registration":
            return signed_registration(message.registration)
        case "renew":
            return Renew()
        case "open_refused":
            return _REFUSED.read(message.open_refused)
        case "goodbye":
            return Goodbye()
    raise Malformed("tunnel: a message of an unknown type")


def encode_down(value: Down) -> bytes:
    """What a Proxy says, as one message."""
    match value:
        case Nonce():
            message = pb.TunnelDown(nonce=_NONCE.message(value))
        case AcceptedRegistration():
            message = pb.TunnelDown(accepted=_ACCEPTED.message(value))
        case Renewed():
            message = pb.TunnelDown(renewed=pb.LeaseRenewed())
        case OpenNotice():
            message = pb.TunnelDown(open=_NOTICE.message(value))
        case DrainNotice():
            message = pb.TunnelDown(draining=pb.Draining())
        case LaneOffer():
            message = pb.TunnelDown(lane=_LANE.message(value))
    return message.SerializeToString()


def decode_down(data: bytes) -> Down:
    """One message of a Proxy."""
    message = parse(pb.TunnelDown, data, MAX_DOWN_BYTES, "tunnel")
    match message.WhichOneof("message"):
        case "nonce":
            return _NONCE.read(message.nonce)
        case "accepted":
            return _ACCEPTED.read(message.accepted)
        case "renewed":
            return Renewed()
        case "open":
            return _NOTICE.read(message.open)
        case "draining":
            return DrainNotice()
        case "lane":
            return _LANE.read(message.lane)
    raise Malformed("tunnel: a message of an unknown type")


def encode_carry_open(session_uid: str, secret: bytes, answer: Signed | None = None) -> bytes:
    """The first frame of a carry stream; of a gated session with the answer to its person."""
    message = pb.CarryOpen(session_uid=session_uid, secret=secret)
    if answer is not None:
        message.answer.CopyFrom(signed_answer_message(answer))
    return message.SerializeToString()


def decode_carry_open(data: bytes) -> tuple[str, bytes]:
    """The session uid and the one-use secret of a carry stream."""
    message = parse(pb.CarryOpen, data, _CARRY_OPEN, "carry open")
    return (
        text(message.session_uid, MAX_WORD, "carry open: session_uid"),
        exactly(message.secret, SECRET_BYTES, "carry open: secret"),
    )


def decode_carry_answer(data: bytes) -> Signed | None:
    """The answer to the person in that frame, unverified; None: there is none."""
    message = parse(pb.CarryOpen, data, _CARRY_OPEN, "carry open")
    return signed_answer(message.answer) if message.HasField("answer") else None
