"""``gate.v1.Membership`` and ``gate.v1.Forward``: what Authorities tell each other and Proxies."""

from __future__ import annotations

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.checks import MAX_CERTIFICATE_BYTES, certificates, text
from svc.proto.gate.v1 import membership_pb2 as pb

LEADER_METHOD = "/gate.v1.Membership/Leader"
FORWARD_METHOD = "/gate.v1.Forward/Call"

MAX_CHAIN = 3
"""Leaf, issuing CA, root."""

ROOM = MAX_CHAIN * MAX_CERTIFICATE_BYTES + 8 * 1024
"""What a forwarded message may be longer than the one inside it."""

_METHOD = 255
_HOST = 255
_OWNER = 63
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


def claim_message(claim: LeaderClaim) -> pb.LeaderResponse:
    """The answer to :data:`LEADER_METHOD`."""
    return pb.LeaderResponse(
        leads=claim.leads,
        epoch=claim.epoch,
        leader=claim.leader,
        authority_id=claim.authority_id,
    )


def read_claim(message: pb.LeaderResponse) -> LeaderClaim:
    """See :func:`claim_message`.

    Raises:
        Malformed: it says more than it may, or leads in no epoch.
    """
    if message.leads != (message.epoch > 0):
        raise Malformed("leader: an epoch without leading, or leading without an epoch")
    return LeaderClaim(
        leads=message.leads,
        epoch=message.epoch,
        leader=text(message.leader, _OWNER, "leader", empty=True),
        authority_id=text(message.authority_id, _ID, "leader: authority", empty=True),
    )


def forward_message(call: Forwarded) -> pb.ForwardRequest:
    """The request of :data:`FORWARD_METHOD`."""
    return pb.ForwardRequest(
        method=call.method,
        request=call.request,
        chain=call.chain,
        host=call.host,
        port=call.port,
    )


def read_forward(message: pb.ForwardRequest) -> Forwarded:
    """See :func:`forward_message`.

    Raises:
        Malformed: a part of it is longer than it may be.
    """
    chain = certificates(message.chain, "forward: chain", empty=True)
    if len(chain) > MAX_CHAIN:
        raise Malformed(f"forward: chain: more than {MAX_CHAIN} certificates")
    if message.port > 65535:
        raise Malformed("forward: no such port")
    return Forwarded(
        method=text(message.method, _METHOD, "forward: method"),
        request=message.request,
        chain=chain,
        host=text(message.host, _HOST, "forward: host", empty=True),
        port=message.port,
    )
