"""What is signed of the distribution root's rows, and of the pause of rotation."""

from __future__ import annotations

from hashlib import sha256

from svc.model.audit.state import StateEntry, exact_time, row_entry
from svc.model.canonical import Json
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    RootOwner,
    RootShare,
    RotationPause,
)


def root_entry(root: DistributionRoot) -> StateEntry:
    """An epoch of the root, whole."""
    return row_entry(
        f"root:{root.epoch}",
        {
            "digest": root.digest.hex(),
            "material_revision": str(root.material_revision),
            "state": root.state.value,
            "prepared": exact_time(root.prepared_at),
            "activated": None if root.activated_at is None else exact_time(root.activated_at),
        },
    )


def root_owner_entry(owner: RootOwner) -> StateEntry:
    """An owner; what it said it has loaded decides nothing, and is not signed."""
    return row_entry(
        f"rootowner:{owner.owner}",
        {
            "node_id": owner.node_id,
            "receiver_key": _hex(owner.receiver_key),
            "sealing_key": _hex(owner.sealing_key),
            "state": owner.state.value,
            "since": exact_time(owner.since),
            "readmitted": owner.is_readmitted,
            "former_nodes": list(owner.former_nodes),
        },
    )


def root_share_entry(share: RootShare) -> StateEntry:
    """What an owner was given, and its word on it."""
    return row_entry(
        f"rootshare:{share.id}",
        {
            "share": sha256(share.share).hexdigest(),
            "signature": _hex(share.signature),
            "acked": None if share.acked_at is None else exact_time(share.acked_at),
        },
    )


def key_set_entry(key_set: KeySet) -> StateEntry:
    """A key set, whole."""
    return row_entry(
        f"keyset:{key_set.revision}",
        {
            "digest": key_set.digest.hex(),
            "since": exact_time(key_set.since),
            "epoch": str(key_set.epoch),
            "sealed": sha256(key_set.sealed).hexdigest(),
        },
    )


def pause_entry(pause: RotationPause) -> StateEntry:
    """The pause of rotation, whole."""
    fields: dict[str, Json] = {
        "paused": pause.is_paused,
        "set": [exact_time(pause.since), pause.by],
        "reason": pause.reason,
    }
    return row_entry(f"pause:{pause.id}", fields)


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
