"""The distribution root's rows."""

from __future__ import annotations

from typing import TypeVar

from attrs import frozen
from zope.interface import implementer

from svc.errors import AlreadyExists
from svc.interfaces.roots import IRoots
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    OwnerState,
    RootOwner,
    RootShare,
    RootState,
)
from svc.store.sql.columns import RowColumns, RowInsert, words
from svc.store.sql.statements import Statements

T = TypeVar("T")


def _put(table: str, columns: RowColumns[T], keys: str) -> RowInsert:
    """How a row is added, or takes the place of the one with the same *keys*."""
    others = [one for one in columns.listed.split(", ") if one not in keys.split(", ")]
    taken = ", ".join(f"{one} = excluded.{one}" for one in others)
    return RowInsert(table, columns.listed, rest=f"ON CONFLICT ({keys}) DO UPDATE SET {taken}")


_ROOTS = RowColumns(
    DistributionRoot,
    "root_epochs",
    "epoch, digest, material_revision, state, prepared_at, activated_at",
    digest=bytes,
    state=RootState,
)
_PUT_ROOT = _put("root_epochs", _ROOTS, "epoch")
_OWNERS = RowColumns(
    RootOwner,
    "root_owners",
    "owner, node_id, receiver_key, sealing_key, state, since, key_set, is_readmitted, former_nodes",
    receiver_key=bytes,
    sealing_key=bytes,
    state=OwnerState,
    key_set=bytes,
    is_readmitted=bool,
    former_nodes=words,
)
_PUT_OWNER = _put("root_owners", _OWNERS, "owner")
_SHARES = RowColumns(
    RootShare,
    "root_acks",
    "epoch, owner, share, signature, acked_at",
    share=bytes,
    signature=bytes,
)
_PUT_SHARE = _put("root_acks", _SHARES, "epoch, owner")
_KEY_SETS = RowColumns(
    KeySet, "key_sets", "revision, digest, since, epoch, sealed", digest=bytes, sealed=bytes
)
_PUT_KEY_SET = _put("key_sets", _KEY_SETS, "revision")


@implementer(IRoots)
@frozen
class Roots:
    """See :class:`IRoots`."""

    _db: Statements

    def roots(self) -> tuple[DistributionRoot, ...]:
        return _ROOTS.all(self._db, "ORDER BY epoch")

    def put_root(self, root: DistributionRoot) -> None:
        if root.state is RootState.ACTIVE:
            other = self._db.one(
                "SELECT 1 FROM root_epochs WHERE state = 'active' AND epoch <> ?", root.epoch
            )
            if other is not None:
                raise AlreadyExists("store: another distribution root is in force")
        _PUT_ROOT(self._db, root)

    def owners(self) -> tuple[RootOwner, ...]:
        return _OWNERS.all(self._db, "ORDER BY owner")

    def put_owner(self, owner: RootOwner) -> None:
        if owner.receiver_key is not None:
            other = self._db.one(
                "SELECT 1 FROM root_owners WHERE receiver_key = ? AND owner <> ?",
                owner.receiver_key,
                owner.owner,
            )
            if other is not None:
                raise AlreadyExists("store: another owner has this receiver key")
        _PUT_OWNER(self._db, owner)

    def shares(self) -> tuple[RootShare, ...]:
        return _SHARES.all(self._db, "ORDER BY epoch, owner")

    def put_share(self, share: RootShare) -> None:
        _PUT_SHARE(self._db, share)

    def key_sets(self) -> tuple[KeySet, ...]:
        return _KEY_SETS.all(self._db, "ORDER BY revision")

    def put_key_set(self, key_set: KeySet) -> None:
        _PUT_KEY_SET(self._db, key_set)
