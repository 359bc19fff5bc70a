r"""Values of the distribution root: who owns it, its epochs, and the key sets sealed under it.

A distribution root is a secret that several Authorities share and the store never has: it is
sealed to the receiver credential of each owner.  The private keys of the cluster travel through
the store only sealed under the root in force.  Nothing here ends by time: an owner that says
nothing has neither agreed nor left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import sha256

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric import ed25519

from svc.errors import SvcError
from svc.model.canonical import Json, encode
from svc.model.signing import BadSignature, Purpose, verify

ROOT_BYTES = 32
LEAST_OWNERS = 2
"""A root that one Authority alone has is no root that keys are distributed by."""

MOST_FORMER_NODES = 64
"""So often an Authority may be certified anew under one receiver key."""

NONE_YET = 0
"""The epoch before the first root."""


class RootState(Enum):
    """Of a root: prepared, in force, replaced by the next one, or given up."""

    PREPARED = "prepared"
    ACTIVE = "active"
    RETIRED = "retired"
    CANCELLED = "cancelled"


class OwnerState(Enum):
    """Of an Authority: it gets the next root, or it does not."""

    RETAINED = "retained"
    WITHDRAWN = "withdrawn"


@frozen
class DistributionRoot:
    """One epoch of the root; its secret is not here.

    Attributes:
        digest: Of the secret; what owners compare theirs with.
        material_revision: The newest key set when it was prepared.
        prepared_at: Seconds since the epoch of Unix.
        activated_at: None unless it is or was in force.
    """

    epoch: int
    digest: bytes
    material_revision: int
    state: RootState
    prepared_at: float
    activated_at: float | None = None


@frozen
class RootOwner:
    """An Authority that roots are sealed to, or that was withdrawn.

    Attributes:
        owner: Its name among the Authorities.
        node_id: Of its certificate, as it registered.
        receiver_key: The Ed25519 key that it acknowledges with, raw; None: it never had one.
        sealing_key: The X25519 key that roots are sealed to, raw; likewise.
        since: When it came into this state, in seconds since the epoch of Unix.
        key_set: Digest of the keys that it said it has loaded; decides nothing.
        is_readmitted: It was withdrawn, and an operator let this credential of it back.
        former_nodes: Of the certificates that it had before, under the same receiver key.
    """

    owner: str
    node_id: str
    receiver_key: bytes | None
    sealing_key: bytes | None
    state: OwnerState
    since: float
    key_set: bytes = b""
    is_readmitted: bool = False
    former_nodes: tuple[str, ...] = ()

    @property
    def key_digest(self) -> str:
        """SHA-256 of the receiver key, in hex; empty: it never had one."""
        return "" if self.receiver_key is None else receiver_key_digest(self.receiver_key)


@frozen
class RootShare:
    """What one owner was given of a root, and its word on it.

    Attributes:
        share: The secret, sealed to the owner.
        signature: The owner's, over :func:`ack_text`; None until it has acknowledged.
        acked_at: When the leader stored it.
    """

    epoch: int
    owner: str
    share: bytes = field(repr=False)
    signature: bytes | None = None
    acked_at: float | None = None

    @property
    def id(self) -> str:
        """Its id among all shares."""
        return f"{self.epoch}:{self.owner}"


@frozen
class KeySet:
    """One state of the keys that every Authority signs with: the material of a revision.

    Attributes:
        digest: Of its public halves, see :func:`key_set_digest`.
        since: When the leader entered it, in seconds since the epoch of Unix.
        epoch: The root that *sealed* is sealed under; 0: it is not distributed.
        sealed: The files of the key set; empty: it is not distributed.
    """

    revision: int
    digest: bytes
    since: float
    epoch: int = NONE_YET
    sealed: bytes = field(default=b"", repr=False)


@frozen
class RotationPause:
    """Whether rotation of keys and CAs is paused; the one row of it has the id ``rotation``."""

    is_paused: bool
    since: float
    by: str
    reason: str = ""
    id: str = "rotation"


def receiver_key_digest(receiver_key: bytes) -> str:
    """What an operator tells one receiver credential from another by, in hex."""
    return sha256(receiver_key).hexdigest()


def key_set_digest(certificates: Mapping[str, bytes]) -> bytes:
    """The digest by which Authorities compare what they have loaded.

    Args:
        certificates: DER, by the names of their keys; of a key without one its public half.
    """
    listed: list[Json] = [
        [name, sha256(der).hexdigest()] for name, der in sorted(certificates.items())
    ]
    return sha256(b"svc-key-set-v1\0" + encode(listed)).digest()


def root_digest(cluster: str, epoch: int, secret: bytes) -> bytes:
    """The digest of a root's secret; it says which root it is, and nothing of the secret."""
    bound = encode({"cluster": cluster, "epoch": str(epoch)})
    return sha256(b"svc-distribution-root-v1\0" + bound + b"\0" + secret).digest()


def ack_text(cluster: str, root: DistributionRoot, owner: str) -> bytes:
    """What an owner signs when it has stored a root: which one, at which material, and who."""
    return encode(
        {
            "cluster": cluster,
            "epoch": str(root.epoch),
            "material_revision": str(root.material_revision),
            "owner": owner,
            "digest": root.digest.hex(),
        }
    )


def require_signed(
    cluster: str, root: DistributionRoot, owner: RootOwner, purpose: Purpose, signature: bytes
) -> None:
    """Refuse a word on a root that is not this owner's, by the credential that it has now.

    Raises:
        BadSignature: it is not.
    """
    if owner.receiver_key is None:
        raise BadSignature(f"{owner.owner} has no receiver credential")
    key = ed25519.Ed25519PublicKey.from_public_bytes(owner.receiver_key)
    verify(key, purpose, ack_text(cluster, root, owner.owner), signature)


def has_acked(
    cluster: str, root: DistributionRoot, share: RootShare, owner: RootOwner | None
) -> bool:
    """Whether a share is acknowledged by its owner's own signature over this root."""
    if owner is None or share.signature is None:
        return False
    try:
        require_signed(cluster, root, owner, Purpose.ROOT_ACK, share.signature)
    except SvcError:
        return False
    return True


def of_root(root: DistributionRoot, shares: Iterable[RootShare]) -> list[RootShare]:
    """The shares of one root, by owner."""
    return sorted((one for one in shares if one.epoch == root.epoch), key=lambda one: one.owner)


def withdrawn_with(
    cluster: str,
    root: DistributionRoot,
    shares: Iterable[RootShare],
    owners: Iterable[RootOwner],
) -> list[str]:
    """The owners by whose withdrawn credential a root can be opened, by name.

    One that was withdrawn and came back with another credential is among them: the former one,
    which may be in a thief's hands, opens the root still.
    """
    kept = {one.owner: one for one in retained(owners)}
    return [
        one.owner
        for one in of_root(root, shares)
        if not has_acked(cluster, root, one, kept.get(one.owner))
    ]


def pending(roots: Iterable[DistributionRoot]) -> DistributionRoot | None:
    """The root that is prepared and neither in force nor given up."""
    return next((one for one in roots if one.state is RootState.PREPARED), None)


def in_force(roots: Iterable[DistributionRoot]) -> DistributionRoot | None:
    """The root in force; None: epoch 0."""
    return next((one for one in roots if one.state is RootState.ACTIVE), None)


def newest(key_sets: Iterable[KeySet]) -> KeySet | None:
    """The key set of the greatest revision."""
    return max(key_sets, key=lambda one: one.revision, default=None)


def retained(owners: Iterable[RootOwner]) -> tuple[RootOwner, ...]:
    """Those that get the next root, by name."""
    found = (one for one in owners if one.state is OwnerState.RETAINED)
    return tuple(sorted(found, key=lambda one: one.owner))
