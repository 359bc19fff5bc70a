"""``gate.v1.Tunnel``: registration, lease, open notices, and how a carry stream begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from attrs import evolve, field, frozen

from svc.messages.forms import (
    MAX_SIGNED_BYTES,
    NAME,
    PAYLOAD,
    PLAIN,
    SIGNATURE,
    WORD,
    WORD_OR_EMPTY,
    ChoiceForm,
    FieldForm,
    MessageForm,
    bounded,
    chain,
    octets,
    part,
    parts,
    shown,
    signature_form,
    words,
)
from svc.messages.gated import SIGNED_ANSWER, SIGNED_GRANT
from svc.messages.health import SIGNED_HEALTH
from svc.messages.session import LANE_TOKEN
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
ONWARD_KEY_BYTES = 32
SECRET_BYTES = 32
MAX_FIRST_FLIGHT = 4096
"""What is longer goes through the session's stream, as everything does after it."""

MAX_REGISTRATION_BYTES = 2 * 1024 * 1024
MAX_DOWN_BYTES = 2 * 1024 * 1024


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
    """The Connector keeps its lease.

    Attributes:
        health: Its health report, once a minute; nobody has verified it.
    """

    health: Signed | None = None


@frozen
class Renewed:
    """The Proxy has heard it.

    Attributes:
        health_taken: Whether the health report is on its way to Authority; None if none came.
    """

    health_taken: bool | None = None


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
    pb.DeclaredResource,
    DeclaredResource,
    "registration: resource",
    id=WORD,
    kind=WORD_OR_EMPTY,
    discovered=PLAIN,
)
_REGISTRATION = MessageForm(
    pb.Registration,
    Registration,
    "registration",
    max_bytes=MAX_REGISTRATION_BYTES,
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
    onward_key=octets(ONWARD_KEY_BYTES, empty=True),
    gate_epoch=PLAIN,
)
encode_registration, decode_registration = _REGISTRATION.encode, _REGISTRATION.decode
"""What a node signs; as it comes it is bounded, and its meaning is judged by Authority."""

SIGNED_REGISTRATION = signature_form(
    pb.SignedRegistration, "registration", "registration", most=MAX_REGISTRATION_BYTES
)
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


_INVENTORY = MessageForm(
    pb.Inventory,
    Inventory,
    "inventory",
    generation=PLAIN,
    assigned=evolve(
        parts(_ASSIGNED, MAX_RESOURCES),
        write=_by_id,
        read=lambda came: frozenset(map(_ASSIGNED.read, came)),
        refusal=lambda came: f"more than {MAX_RESOURCES} resources",
    ),
)
INVENTORY = FieldForm(
    write=lambda value: None if value == NO_INVENTORY else _INVENTORY.message(value),
    read=_INVENTORY.read,
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
    traceparent=shown(128),
    first_flight=bounded(MAX_FIRST_FLIGHT),
)
_LANE = MessageForm(pb.LaneOffer, LaneOffer, "lane offer", session_uid=WORD, token=LANE_TOKEN)


_UP = ChoiceForm[Up](
    pb.TunnelUp,
    "tunnel",
    max_bytes=MAX_REGISTRATION_BYTES + 64 * 1024,
    hello=_HELLO,
    registration=SIGNED_REGISTRATION,
    renew=MessageForm(pb.LeaseRenew, Renew, "renew", health=part(SIGNED_HEALTH, optional=True)),
    open_refused=_REFUSED,
    goodbye=MessageForm(pb.Goodbye, Goodbye, "goodbye"),
)
encode_up, decode_up = _UP.encode, _UP.decode
"""What a Connector says, as one message."""

_DOWN = ChoiceForm[Down](
    pb.TunnelDown,
    "tunnel",
    max_bytes=MAX_DOWN_BYTES,
    nonce=_NONCE,
    accepted=_ACCEPTED,
    renewed=MessageForm(
        pb.LeaseRenewed, Renewed, "renewed", health_taken=FieldForm(is_optional=True)
    ),
    open=_NOTICE,
    draining=MessageForm(pb.Draining, DrainNotice, "draining"),
    lane=_LANE,
)
encode_down, decode_down = _DOWN.encode, _DOWN.decode
"""What a Proxy says, as one message."""


class CarryOpen(NamedTuple):
    """How a carry stream begins.

    Attributes:
        secret: Good for this stream alone.
        answer: To the person of a gated session, unverified; None: there is none.
    """

    session_uid: str
    secret: bytes
    answer: Signed | None = None


_CARRY = MessageForm(
    pb.CarryOpen,
    CarryOpen,
    "carry open",
    max_bytes=2 * MAX_SIGNED_BYTES,
    session_uid=WORD,
    secret=octets(SECRET_BYTES),
    answer=part(SIGNED_ANSWER, optional=True),
)
decode_carry_open = _CARRY.decode
"""The first frame of a carry stream."""


def encode_carry_open(session_uid: str, secret: bytes, answer: Signed | None = None) -> bytes:
    """The first frame of a carry stream; of a gated session with the answer to its person."""
    return _CARRY.encode(CarryOpen(session_uid, secret, answer))
