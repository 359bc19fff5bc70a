"""What is kept of distribution roots, and of the pause of rotation.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import AlreadyExists
from svc.interfaces.store import ITransaction
from svc.model.distribution import (
    DistributionRoot,
    KeySet,
    OwnerState,
    RootOwner,
    RootShare,
    RootState,
    RotationPause,
)

ROOT = DistributionRoot(
    epoch=1,
    digest=b"d" * 32,
    material_revision=1,
    state=RootState.ACTIVE,
    prepared_at=1.5,
    activated_at=2.5,
)
OWNER = RootOwner(
    owner="a1",
    node_id="n1",
    receiver_key=b"r" * 32,
    sealing_key=b"s" * 32,
    state=OwnerState.RETAINED,
    since=1.5,
)
GONE = RootOwner(
    owner="a2",
    node_id="n2",
    receiver_key=None,
    sealing_key=None,
    state=OwnerState.WITHDRAWN,
    since=1.5,
)


class RootContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_distribution_roots(self: Any) -> None:
        """Rows are added and replaced by their ids; one root is in force, a key has one name."""
        share, keys = RootShare(1, "a1", b"sealed"), KeySet(revision=1, digest=b"k" * 32, since=1.5)
        acked = evolve(share, signature=b"\0signature", acked_at=3.5)
        pause = RotationPause(is_paused=True, since=1.5, by="local:0", reason="why")

        def put(tx: ITransaction) -> Any:
            tx.roots.put_root(evolve(ROOT, state=RootState.PREPARED, activated_at=None))
            tx.roots.put_root(ROOT)
            for one in (OWNER, GONE, evolve(OWNER, key_set=b"k" * 32)):
                tx.roots.put_owner(one)
            tx.roots.put_share(share)
            tx.roots.put_share(acked)
            tx.roots.put_key_set(keys)
            tx.keyrings.pause(pause)
            tx.keyrings.pause(evolve(pause, is_paused=False))
            kept = tx.roots
            return kept.roots(), kept.owners(), kept.shares(), kept.key_sets(), tx.keyrings.pauses()

        self.assertEqual(
            await self.store.run("roots", put),
            (
                (ROOT,),
                (evolve(OWNER, key_set=b"k" * 32), GONE),
                (acked,),
                (keys,),
                (evolve(pause, is_paused=False),),
            ),
        )
        with self.assertRaises(AlreadyExists):
            await self.store.run("another", lambda tx: tx.roots.put_root(evolve(ROOT, epoch=2)))
        with self.assertRaises(AlreadyExists):
            await self.store.run("copy", lambda tx: tx.roots.put_owner(evolve(OWNER, owner="a3")))
