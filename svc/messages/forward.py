"""``gate.v1.Membership`` and ``gate.v1.Forward``: what Authorities tell each other and Proxies."""

from __future__ import annotations

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.forms import (
    DIGEST_BYTES,
    MAX_CERTIFICATE_BYTES,
    PLAIN,
    WORD_OR_EMPTY,
    FieldForm,
    MessageForm,
    at_most,
    chain,
    word,
)
from svc.proto.gate.v1 import membership_pb2 as pb
from svc.proto.gate.v1 import root_pb2

LEADER_METHOD = "/gate.v1.Membership/Leader"
FORWARD_METHOD = "/gate.v1.Forward/Call"

MAX_CHAIN = 3
"""Leaf, issuing CA, root."""

ROOM = MAX_CHAIN * MAX_CERTIFICATE_BYTES + 8 * 1024
"""What a forwarded message may be longer than the one inside it."""

_METHOD = 255
_HOST = 255
_ID = 64


@frozen
class LeaderClaim:
    """What an Authority says of who leads.

    Attributes:
        leads: Whether it writes itself.
        epoch: Of its lease; 0 where it does not lead.
        leader: The lease owner of who does, as it sees it; empty: nobody.
        authority_id: Its own node id.
    """

    leads: bool
    epoch: int = 0
    leader: str = ""
    authority_id: str = ""


@frozen
class Forwarded:
    """A unary call as it came to an Authority that does not lead.

    Attributes:
        chain: DER, leaf first, as the caller's TLS gave it; empty where it showed none.
        host: The caller's address, as the one that forwards says.
    """

    method: str
    request: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(default=(), repr=False)
    host: str = ""
    port: int = 0


_CLAIM = MessageForm(
    pb.LeaderResponse,
    LeaderClaim,
    "leader",
    leads=PLAIN,
    epoch=PLAIN,
    leader=WORD_OR_EMPTY,
    authority_id=word(_ID, empty=True),
)
claim_message = _CLAIM.message
"""The answer to :data:`LEADER_METHOD`."""


def read_claim(message: pb.LeaderResponse) -> LeaderClaim:
    """See :data:`claim_message`.

    Raises:
        Malformed: it says more than it may, or leads in no epoch.
    """
    if message.leads != (message.epoch > 0):
        raise Malformed("leader: an epoch without leading, or leading without an epoch")
    return _CLAIM.read(message)


_FORWARD = MessageForm(
    pb.ForwardRequest,
    Forwarded,
    "forward",
    method=word(_METHOD),
    request=PLAIN,
    chain=chain(MAX_CHAIN, empty=True),
    host=word(_HOST, empty=True),
    port=at_most(65535, "no such port"),
)
forward_message, read_forward = _FORWARD.message, _FORWARD.read
"""The request of :data:`FORWARD_METHOD`."""


# What owners of distribution roots tell the leader.

REGISTER_METHOD = "/gate.v1.Membership/RegisterReceiver"
WORD_METHOD = "/gate.v1.Membership/TakeRootWord"

_SIGNATURE_BYTES = 64
_OWNER = word(63)
_KEY = FieldForm(sizes=(DIGEST_BYTES, DIGEST_BYTES))
_SIGNATURE = FieldForm(sizes=(_SIGNATURE_BYTES, _SIGNATURE_BYTES))


@frozen
class ReceiverReport:
    """What an Authority registers.

    Attributes:
        owner: Its name among the Authorities.
        receiver_key: The Ed25519 key that it acknowledges with, raw.
        sealing_key: The X25519 key that roots are sealed to, raw.
        signature: By the first over both, see ``svc.pki.receiver``.
        key_set: Digest of the keys that it has loaded.
    """

    owner: str
    receiver_key: bytes
    sealing_key: bytes
    signature: bytes = field(repr=False)
    key_set: bytes


@frozen
class RootWord:
    """An owner's signed word: it has the root that is prepared, or it cancels it.

    Attributes:
        by: The operator who asked on the owner's host, for the record.
    """

    owner: str
    epoch: int
    cancel: bool
    signature: bytes = field(repr=False)
    by: str


_REPORT = MessageForm(
    root_pb2.ReceiverReport,
    ReceiverReport,
    "receiver report",
    owner=_OWNER,
    receiver_key=_KEY,
    sealing_key=_KEY,
    signature=_SIGNATURE,
    key_set=_KEY,
)
report_message, read_report = _REPORT.message, _REPORT.read
"""Both ways of a :class:`ReceiverReport`; as it comes it is unverified.  Raise Malformed."""

_WORD = MessageForm(
    root_pb2.RootWord,
    RootWord,
    "root word",
    owner=_OWNER,
    epoch=PLAIN,
    cancel=PLAIN,
    signature=_SIGNATURE,
    by=WORD_OR_EMPTY,
)
word_message, read_word = _WORD.message, _WORD.read
"""Both ways of a :class:`RootWord`; likewise."""
