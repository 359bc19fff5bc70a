"""``Control/Snapshot``: what a Proxy decides by, signed, whole or as a change."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen

from svc.errors import Malformed
from svc.messages.checks import certificates, exactly, heads, parse, text
from svc.model.cluster.agent import DISABLED_OWNER, DISABLED_OWNER_TEXT
from svc.model.cluster.person import DISABLED_PERSON, DISABLED_TEXT
from svc.model.session.ending import REVOKED_CERTIFICATE, known_ask
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as pb

SNAPSHOT_METHOD = "/gate.v1.Control/Snapshot"

MAX_BUNDLE_BYTES = 32 * 1024 * 1024
MAX_EPOCH = (1 << 53) - 1

REVOKED = "revoked"
REVOCATIONS: Mapping[str, str] = MappingProxyType(
    {
        REVOKED: "this identity was revoked",
        DISABLED_PERSON: DISABLED_TEXT,
        DISABLED_OWNER: DISABLED_OWNER_TEXT,
        REVOKED_CERTIFICATE: "an operator revoked this certificate; join or sign in again",
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
    """

    signed: Signed
    bundle: bytes = b""
    delta: bytes = b""
    heads: tuple[bytes, ...] = ()


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The bytes Authority's snapshot key signs."""
    return pb.Snapshot(
        cluster=snapshot.cluster,
        serial=snapshot.serial,
        policy_version=snapshot.policy_version,
        entity_revision=snapshot.entity_revision,
        issued_at_ms=snapshot.issued_at_ms,
        valid_secs=snapshot.valid_secs,
        bundle_sha256=snapshot.bundle_sha256,
        revocations=[
            pb.Revocation(
                principal=one.principal,
                generation=one.generation,
                reason="" if one.reason == REVOKED else one.reason,
            )
            for one in snapshot.revocations
        ],
        lease_epoch=snapshot.lease_epoch,
        asked_ends=[
            pb.AskedEnd(session_uid=uid, reason=reason)
            for uid, reason in snapshot.asked_ends.items()
        ],
        revoked_certificates=sorted(snapshot.revoked_certificates),
    ).SerializeToString()


def decode_snapshot(data: bytes) -> Snapshot:
    """A snapshot as it came; its signature is checked by the caller."""
    message = parse(pb.Snapshot, data, MAX_BUNDLE_BYTES, "snapshot")
    if message.lease_epoch > MAX_EPOCH:
        raise Malformed("snapshot: lease_epoch: past what a head can state")
    return Snapshot(
        cluster=text(message.cluster, 253, "snapshot: cluster"),
        serial=message.serial,
        policy_version=message.policy_version,
        entity_revision=message.entity_revision,
        issued_at_ms=message.issued_at_ms,
        valid_secs=message.valid_secs,
        bundle_sha256=exactly(message.bundle_sha256, 32, "snapshot: bundle_sha256"),
        revocations=tuple(_revocation(one) for one in message.revocations),
        lease_epoch=message.lease_epoch,
        asked_ends={one.session_uid: known_ask(one.reason) for one in message.asked_ends},
        revoked_certificates=frozenset(
            exactly(one, 32, "snapshot: revoked_certificates")
            for one in message.revoked_certificates
        ),
    )


def _revocation(message: pb.Revocation) -> Revocation:
    # A reason that only a newer Authority knows revokes all the same.
    reason = message.reason if message.reason in REVOCATIONS else REVOKED
    return Revocation(message.principal, message.generation, reason)


def decode_snapshot_request(data: bytes) -> bytes:
    """The digest of the bundle that a Proxy holds already; empty where it holds none."""
    message = parse(pb.SnapshotRequest, data, 256, "snapshot request")
    if not message.have_digest:
        return b""
    return exactly(message.have_digest, 32, "snapshot request: have_digest")


def encode_frame(frame: SnapshotFrame) -> bytes:
    """A snapshot frame as it travels."""
    return pb.SnapshotFrame(
        snapshot=frame.signed.payload,
        signature=frame.signed.signature,
        chain=frame.signed.chain,
        bundle=frame.bundle,
        delta=frame.delta,
        audit_heads=frame.heads,
    ).SerializeToString()


def decode_frame(data: bytes) -> SnapshotFrame:
    """A snapshot frame as it came, from the wire or from the Proxy's disk."""
    message = parse(pb.SnapshotFrame, data, 2 * MAX_BUNDLE_BYTES, "snapshot frame")
    if not message.snapshot or not message.signature:
        raise Malformed("snapshot frame: the signed part is missing")
    chain = certificates(message.chain, "snapshot frame: chain")
    return SnapshotFrame(
        signed=Signed(message.snapshot, message.signature, chain),
        bundle=message.bundle,
        delta=message.delta,
        heads=heads(message.audit_heads, "snapshot frame: audit_heads"),
    )
