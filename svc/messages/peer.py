"""``gate.v1.Peer``: a session that entered one Proxy is opened through the tunnel of another."""

from __future__ import annotations

from typing import NamedTuple

from attrs import field, frozen

from svc.messages.forms import (
    MAX_SIGNED_BYTES,
    PAYLOAD,
    SIGNATURE,
    WORD,
    WORD_OR_EMPTY,
    FieldForm,
    MessageForm,
    chain,
    part,
    shown,
)
from svc.messages.gated import SIGNED_ANSWER, SIGNED_GRANT
from svc.model.session.ending import known_ending
from svc.model.signing import Signed
from svc.proto.gate.v1 import peer_pb2 as pb

PEER_OPEN_METHOD = "/gate.v1.Peer/Open"
PEER_END_METHOD = "/gate.v1.Peer/End"


@frozen
class PeerOpen:
    """What a Proxy shows to have a session opened through a tunnel of another.

    Attributes:
        grant: Authority's, as signed; it names both Proxies.
        request: The person's ``SessionRequest`` bytes, and ``signature`` over them.
        person_chain: DER certificates, the person's leaf first.
        source_address: The person's, as the calling Proxy saw it.
        traceparent: Says nothing about the session.
    """

    grant: Signed = field(repr=False)
    request: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    person_chain: tuple[bytes, ...] = field(repr=False)
    source_address: str = ""
    traceparent: str = ""


_OPEN = MessageForm(
    pb.PeerOpen,
    PeerOpen,
    "peer open",
    max_bytes=8 * MAX_SIGNED_BYTES,
    grant=part(SIGNED_GRANT),
    request=PAYLOAD,
    signature=SIGNATURE,
    person_chain=chain(),
    source_address=WORD_OR_EMPTY,
    traceparent=shown(128),
)
encode_peer_open, decode_peer_open = _OPEN.encode, _OPEN.decode
"""The first frame to a peer Proxy; nothing of it is verified."""


class PeerOpened(NamedTuple):
    """The session is open; ``answer`` is its Connector's to the person, where it is gated."""

    answer: Signed | None = None


_OPENED = MessageForm(
    pb.PeerOpened,
    PeerOpened,
    "peer opened",
    max_bytes=2 * MAX_SIGNED_BYTES,
    answer=part(SIGNED_ANSWER, optional=True),
)
encode_peer_opened, decode_peer_opened = _OPENED.encode, _OPENED.decode
"""The first frame from a peer Proxy; the answer is unverified."""


class PeerEnd(NamedTuple):
    """Why a Proxy ends a session that it had opened through another."""

    session_uid: str
    reason: str


_END = MessageForm(
    pb.PeerEndRequest,
    PeerEnd,
    "peer end",
    session_uid=WORD,
    reason=FieldForm(sizes=WORD.sizes, refusal=WORD.refusal, read=known_ending),
)
peer_end_message, read_peer_end = _END.message, _END.read
"""Why a session is ended; a word of another version reads as "not told"."""
