"""``Control/Snapshot``: what a Proxy decides by, signed, whole or as a change."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.forms import (
    DIGEST,
    DIGEST_BYTES,
    HEADS,
    NAME,
    PLAIN,
    FieldForm,
    FieldTable,
    MessageForm,
    at_most,
    chain,
    octets,
    parse,
    parts,
    words,
)
from svc.model.cluster.agent import DISABLED_OWNER, DISABLED_OWNER_TEXT
from svc.model.cluster.person import DISABLED_PERSON, DISABLED_TEXT
from svc.model.session.ending import REVOKED_CERTIFICATE, known_ask
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as pb

SNAPSHOT_METHOD = "/gate.v1.Control/Snapshot"

MAX_BUNDLE_BYTES = 32 * 1024 * 1024
"""Of a bundle that an Authority lets its rows make, and of what is signed."""

MAX_FRAME_BYTES = 2 * MAX_BUNDLE_BYTES
"""Of a frame with a bundle, and with what is signed."""

MAX_SENT_BYTES = MAX_FRAME_BYTES - 8 * 1024 * 1024
"""Of a bundle that is sent at all: rows of an earlier version may have made a longer one."""

MAX_EPOCH = (1 << 53) - 1
MAX_SERVED_BY_PEERS = 100_000

REVOKED = "revoked"
REVOCATIONS: Mapping[str, str] = MappingProxyType(
    {
        REVOKED: "this identity was revoked",
        DISABLED_PERSON: DISABLED_TEXT,
        DISABLED_OWNER: DISABLED_OWNER_TEXT,
        REVOKED_CERTIFICATE: "this certificate was revoked, by signing out or by an operator; "
        "join or sign in again",
    }
)
"""Every reason of a revocation, and its text for the principal."""


@frozen
class Revocation:
    """A principal whose certificates up to ``generation`` are good for nothing.

    ``reason`` says why, for the principal: one of :data:`REVOCATIONS`.
    """

    principal: str
    generation: int = 0
    reason: str = REVOKED


@frozen
class Snapshot:
    """What a Proxy may decide by, for how long (rule R15); signed by Authority.

    ``lease_epoch`` is that of the Authority that signed it, which orders snapshots before
    ``serial``: two hosts' clocks differ.  0: an Authority of before, which tells none.
    ``asked_ends`` are open sessions that an operator ends, each with its reason.
    """

    cluster: str
    serial: int
    policy_version: int
    entity_revision: int
    issued_at_ms: int
    valid_secs: int
    bundle_sha256: bytes
    revocations: tuple[Revocation, ...] = ()
    lease_epoch: int = 0
    asked_ends: Mapping[str, str] = field(factory=dict)
    revoked_certificates: frozenset[bytes] = frozenset()


@frozen
class SnapshotFrame:
    """A signed snapshot with what it changes: a whole bundle, a delta, or nothing (a heartbeat).

    ``heads`` are lines of signed heads of the audit log that this Proxy was not told yet.
    ``served_by_peers`` are the resources that it can reach through another Proxy; None: as before.
    """

    signed: Signed
    bundle: bytes = b""
    delta: bytes = b""
    heads: tuple[bytes, ...] = ()
    served_by_peers: frozenset[str] | None = None


_REVOCATION = MessageForm(
    pb.Revocation,
    Revocation,
    "revocation",
    principal=PLAIN,
    generation=PLAIN,
    reason=FieldForm(
        write=lambda reason: "" if reason == REVOKED else reason,
        # A reason that only a newer Authority knows revokes all the same.
        read=lambda came: came if came in REVOCATIONS else REVOKED,
    ),
)


_SNAPSHOT = MessageForm(
    pb.Snapshot,
    Snapshot,
    "snapshot",
    max_bytes=MAX_BUNDLE_BYTES,
    cluster=NAME,
    serial=PLAIN,
    policy_version=PLAIN,
    entity_revision=PLAIN,
    issued_at_ms=PLAIN,
    valid_secs=PLAIN,
    bundle_sha256=DIGEST,
    revocations=parts(_REVOCATION),
    lease_epoch=at_most(MAX_EPOCH, "past what a head can state"),
    asked_ends=FieldForm(
        write=lambda asked: [
            pb.AskedEnd(session_uid=uid, reason=reason) for uid, reason in asked.items()
        ],
        read=lambda came: {one.session_uid: known_ask(one.reason) for one in came},
    ),
    revoked_certificates=FieldForm(
        write=sorted, read=frozenset, item_sizes=DIGEST.sizes, refusal=DIGEST.refusal
    ),
)
encode_snapshot, decode_snapshot = _SNAPSHOT.encode, _SNAPSHOT.decode
"""What Authority's snapshot key signs; as it comes it is unverified."""


_REQUEST = FieldTable("snapshot request", have_digest=octets(DIGEST_BYTES, empty=True))


def decode_snapshot_request(data: bytes) -> bytes:
    """The digest of the bundle that a Proxy holds already; empty where it holds none."""
    message = parse(pb.SnapshotRequest, data, 256, "snapshot request")
    found: bytes = _REQUEST.read_fields(message)["have_digest"]
    return found


_FRAME = FieldTable("snapshot frame", chain=chain(), heads=HEADS.named("audit_heads"))
_SERVED = FieldTable("served by peers", resources=words(MAX_SERVED_BY_PEERS))


def encode_frame(frame: SnapshotFrame) -> bytes:
    """A snapshot frame as it travels."""
    message = pb.SnapshotFrame(
        snapshot=frame.signed.payload,
        signature=frame.signed.signature,
        chain=frame.signed.chain,
        bundle=frame.bundle,
        delta=frame.delta,
        audit_heads=frame.heads,
    )
    if frame.served_by_peers is not None:
        message.served_by_peers.SetInParent()
        message.served_by_peers.resources.extend(sorted(frame.served_by_peers))
    return message.SerializeToString()


def decode_frame(data: bytes) -> SnapshotFrame:
    """A snapshot frame as it came, from the wire or from the Proxy's disk."""
    message = parse(pb.SnapshotFrame, data, MAX_FRAME_BYTES, "snapshot frame")
    if not message.snapshot or not message.signature:
        raise Malformed("snapshot frame: the signed part is missing")
    found = _FRAME.read_fields(message)
    return SnapshotFrame(
        signed=Signed(message.snapshot, message.signature, found["chain"]),
        bundle=message.bundle,
        delta=message.delta,
        heads=found["heads"],
        served_by_peers=_read_served(message),
    )


def _read_served(message: pb.SnapshotFrame) -> frozenset[str] | None:
    if not message.HasField("served_by_peers"):
        return None
    return frozenset(_SERVED.read_fields(message.served_by_peers)["resources"])
