"""The protected rows of keys: issuing CAs, key sets, distribution roots, the pause of rotation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from svc.audit.state.protected import ProtectedTable
from svc.model.audit.rows.distribution import (
    key_set_entry,
    pause_entry,
    root_entry,
    root_owner_entry,
    root_share_entry,
)
from svc.model.audit.state import key_entry
from svc.model.cluster.key_revision import KeyRevision
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    RootOwner,
    RootShare,
    RotationPause,
)

_Row = TypeVar("_Row")


def _key_id(key: KeyRevision) -> str:
    return f"{key.kind}:{key.revision}"


def _of(rows: Iterable[_Row], row_id: str, id_of: Callable[[_Row], str]) -> _Row | None:
    """The row of that id, of a table that never has many."""
    return next((one for one in rows if id_of(one) == row_id), None)


KEYS = ProtectedTable[str, KeyRevision](
    name="key",
    get=lambda tx, key_id: _of(tx.keyrings.all(), key_id, _key_id),
    all=lambda tx, at: tx.keyrings.all(),
    entry_of=key_entry,
    id_of=_key_id,
)
ROOTS = ProtectedTable[str, DistributionRoot](
    name="root",
    get=lambda tx, epoch: _of(tx.roots.roots(), epoch, lambda root: str(root.epoch)),
    all=lambda tx, at: tx.roots.roots(),
    entry_of=root_entry,
    id_of=lambda root: str(root.epoch),
)
ROOT_OWNERS = ProtectedTable[str, RootOwner](
    name="rootowner",
    get=lambda tx, owner: _of(tx.roots.owners(), owner, lambda one: one.owner),
    all=lambda tx, at: tx.roots.owners(),
    entry_of=root_owner_entry,
    id_of=lambda owner: owner.owner,
)
ROOT_SHARES = ProtectedTable[str, RootShare](
    name="rootshare",
    get=lambda tx, share_id: _of(tx.roots.shares(), share_id, lambda one: one.id),
    all=lambda tx, at: tx.roots.shares(),
    entry_of=root_share_entry,
    id_of=lambda share: share.id,
)
KEY_SETS = ProtectedTable[str, KeySet](
    name="keyset",
    get=lambda tx, revision: _of(tx.roots.key_sets(), revision, lambda one: str(one.revision)),
    all=lambda tx, at: tx.roots.key_sets(),
    entry_of=key_set_entry,
    id_of=lambda key_set: str(key_set.revision),
)
PAUSES = ProtectedTable[str, RotationPause](
    name="pause",
    get=lambda tx, pause_id: _of(tx.keyrings.pauses(), pause_id, lambda one: one.id),
    all=lambda tx, at: tx.keyrings.pauses(),
    entry_of=pause_entry,
    id_of=lambda pause: pause.id,
)
