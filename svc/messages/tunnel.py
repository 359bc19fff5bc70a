"""``gate.v1.Tunnel``: registration, lease, open notices, and how a carry stream begins."""

from __future__ import annotations

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.checks import (
    MAX_SIGNED_BYTES,
    certificates,
    exactly,
    parse,
    signed_part,
    text,
    texts,
)
from svc.messages.gated import signed_answer, signed_answer_message
from svc.messages.session import (
    LANE_TOKEN_BYTES,
    signed_grant,
    signed_grant_message,
)
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
_NAME = 253
_WORD = 63
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


def encode_registration(registration: Registration) -> bytes:
    """The bytes a node signs."""
    return pb.Registration(
        cluster=registration.cluster,
        node_id=registration.node_id,
        proxy_id=registration.proxy_id,
        nonce=registration.nonce,
        resources=[pb.DeclaredResource(id=one.id, kind=one.kind) for one in registration.resources],
        instance_id=registration.instance_id,
        generation=registration.generation,
        version=registration.version,
        capabilities=registration.capabilities,
        inventory_generation=registration.inventory_generation,
    ).SerializeToString()


def decode_registration(data: bytes) -> Registration:
    """A registration as it came: bounded; its meaning is judged by Authority."""
    message = parse(pb.Registration, data, MAX_REGISTRATION_BYTES, "registration")
    if len(message.resources) > MAX_RESOURCES:
        raise Malformed(f"registration: more than {MAX_RESOURCES} resources")
    return Registration(
        cluster=text(message.cluster, _NAME, "registration: cluster"),
        node_id=text(message.node_id, _WORD, "registration: node_id"),
        proxy_id=text(message.proxy_id, _WORD, "registration: proxy_id"),
        nonce=exactly(message.nonce, NONCE_BYTES, "registration: nonce"),
        resources=tuple(
            DeclaredResource(
                text(one.id, _WORD, "registration: resource id"),
                text(one.kind, _WORD, "registration: kind", empty=True),
            )
            for one in message.resources
        ),
        instance_id=text(message.instance_id, _WORD, "registration: instance_id"),
        generation=message.generation,
        version=text(message.version, _WORD, "registration: version"),
        capabilities=texts(message.capabilities, 64, _WORD, "registration: capabilities"),
        inventory_generation=message.inventory_generation,
    )


def registration_message(signed: Signed) -> pb.SignedRegistration:
    """A signed registration as it travels inside other messages."""
    return pb.SignedRegistration(
        registration=signed.payload, signature=signed.signature, chain=signed.chain
    )


def signed_registration(message: pb.SignedRegistration) -> Signed:
    """A signed registration as it came, unverified."""
    if not message.registration or len(message.registration) > MAX_REGISTRATION_BYTES:
        raise Malformed("registration: the signed part is missing or too long")
    if not message.signature or len(message.signature) > 512:
        raise Malformed("registration: the signature is missing or too long")
    return Signed(
        message.registration,
        message.signature,
        certificates(message.chain, "registration: chain"),
    )


def encode_up(value: Up) -> bytes:
    """What a Connector says, as one message."""
    match value:
        case Hello():
            hello = pb.TunnelHello(
                instance_id=value.instance_id,
                version=value.version,
                takes_lanes=value.takes_lanes,
                takes_first_flight=value.takes_first_flight,
            )
            message = pb.TunnelUp(hello=hello)
        case Signed():
            message = pb.TunnelUp(registration=registration_message(value))
        case Renew():
            message = pb.TunnelUp(renew=pb.LeaseRenew())
        case OpenRefused():
            refused = pb.OpenRefused(session_uid=value.session_uid, reason=value.reason)
            message = pb.TunnelUp(open_refused=refused)
        case Goodbye():
            message = pb.TunnelUp(goodbye=pb.Goodbye())
    return message.SerializeToString()


def decode_up(data: bytes) -> Up:
    """One message of a Connector."""
    message = parse(pb.TunnelUp, data, MAX_REGISTRATION_BYTES + 64 * 1024, "tunnel")
    match message.WhichOneof("message"):
        case "hello":
            return Hello(
                text(message.hello.instance_id, _WORD, "tunnel hello: instance_id"),
                text(message.hello.version, _WORD, "tunnel hello: version"),
                message.hello.takes_lanes,
                message.hello.takes_first_flight,
            )
        case "registration":
            return signed_registration(message.registration)
        case "renew":
            return Renew()
        case "open_refused":
            return OpenRefused(
                text(message.open_refused.session_uid, _WORD, "open refused: session_uid"),
                text(message.open_refused.reason, _WORD, "open refused: reason"),
            )
        case "goodbye":
            return Goodbye()
    raise Malformed("tunnel: a message of an unknown type")


def encode_down(value: Down) -> bytes:
    """What a Proxy says, as one message."""
    match value:
        case Nonce():
            message = pb.TunnelDown(nonce=pb.Nonce(nonce=value.nonce))
        case AcceptedRegistration():
            accepted = pb.RegistrationAccepted(
                lease_secs=value.lease_secs,
                withheld=withheld_messages(value.withheld),
                inventory=inventory_message(value.inventory),
            )
            message = pb.TunnelDown(accepted=accepted)
        case Renewed():
            message = pb.TunnelDown(renewed=pb.LeaseRenewed())
        case OpenNotice():
            message = pb.TunnelDown(open=_notice_message(value))
        case DrainNotice():
            message = pb.TunnelDown(draining=pb.Draining())
        case LaneOffer():
            offer = pb.LaneOffer(session_uid=value.session_uid, token=value.token)
            message = pb.TunnelDown(lane=offer)
    return message.SerializeToString()


def decode_down(data: bytes) -> Down:
    """One message of a Proxy."""
    message = parse(pb.TunnelDown, data, MAX_DOWN_BYTES, "tunnel")
    match message.WhichOneof("message"):
        case "nonce":
            return Nonce(exactly(message.nonce.nonce, NONCE_BYTES, "nonce"))
        case "accepted":
            accepted = message.accepted
            return AcceptedRegistration(
                accepted.lease_secs,
                read_withheld(accepted.withheld),
                read_inventory(accepted.inventory),
            )
        case "renewed":
            return Renewed()
        case "open":
            return _notice(message.open)
        case "draining":
            return DrainNotice()
        case "lane":
            return LaneOffer(
                text(message.lane.session_uid, _WORD, "lane offer: session_uid"),
                exactly(message.lane.token, LANE_TOKEN_BYTES, "lane offer: token"),
            )
    raise Malformed("tunnel: a message of an unknown type")


def withheld_messages(withheld: tuple[Withheld, ...]) -> list[pb.WithheldResource]:
    """Withheld resources as they travel."""
    return [pb.WithheldResource(id=one.id, reason=one.reason) for one in withheld]


def read_withheld(messages: object) -> tuple[Withheld, ...]:
    """Withheld resources as they came."""
    return tuple(
        Withheld(text(one.id, _WORD, "withheld: id"), text(one.reason, _WORD, "withheld: reason"))
        for one in messages  # type: ignore[attr-defined]
    )


def inventory_message(inventory: Inventory) -> pb.Inventory | None:
    """An inventory as it travels; None for none."""
    if inventory == NO_INVENTORY:
        return None
    return pb.Inventory(
        generation=inventory.generation,
        assigned=[
            pb.AssignedResource(id=one.id, identity=one.identity, revision=one.revision)
            for one in sorted(inventory.assigned, key=lambda one: one.id)
        ],
    )


def read_inventory(message: pb.Inventory) -> Inventory:
    """An inventory as it came; one that is absent is none."""
    if len(message.assigned) > MAX_RESOURCES:
        raise Malformed(f"inventory: more than {MAX_RESOURCES} resources")
    return Inventory(
        message.generation,
        frozenset(
            Assigned(
                text(one.id, _WORD, "inventory: resource id"),
                text(one.identity, _NAME, "inventory: identity"),
                one.revision,
            )
            for one in message.assigned
        ),
    )


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
        text(message.session_uid, _WORD, "carry open: session_uid"),
        exactly(message.secret, SECRET_BYTES, "carry open: secret"),
    )


def decode_carry_answer(data: bytes) -> Signed | None:
    """The answer to the person in that frame, unverified; None: there is none."""
    message = parse(pb.CarryOpen, data, _CARRY_OPEN, "carry open")
    return signed_answer(message.answer) if message.HasField("answer") else None


def _notice_message(notice: OpenNotice) -> pb.OpenNotice:
    return pb.OpenNotice(
        session_uid=notice.session_uid,
        grant=signed_grant_message(notice.grant),
        request=notice.request,
        signature=notice.signature,
        person_chain=notice.person_chain,
        secret=notice.secret,
        traceparent=notice.traceparent,
        first_flight=notice.first_flight,
    )


def _notice(message: pb.OpenNotice) -> OpenNotice:
    request, signature = signed_part(message.request, message.signature, "open notice")
    if len(request) > MAX_SIGNED_BYTES:
        raise Malformed("open notice: request too long")
    if len(message.first_flight) > MAX_FIRST_FLIGHT:
        raise Malformed("open notice: first_flight too long")
    return OpenNotice(
        session_uid=text(message.session_uid, _WORD, "open notice: session_uid"),
        grant=signed_grant(message.grant),
        request=request,
        signature=signature,
        person_chain=certificates(message.person_chain, "open notice: person_chain"),
        secret=exactly(message.secret, SECRET_BYTES, "open notice: secret"),
        traceparent=message.traceparent if len(message.traceparent) <= _TRACEPARENT else "",
        first_flight=message.first_flight,
    )
