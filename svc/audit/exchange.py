"""Heads between the Authorities of one store: the writer puts them there, the others keep them.

Each Authority keeps heads outside of the store, because whoever can change the
store must not be able to change them.  The store only carries them: a head is
believed by its signature, and one that does not follow from those kept is
refused.  The writer puts a head into the store before it keeps it, so that
nobody who takes over later goes on from an older one than it did.
"""

from __future__ import annotations

from attrs import define, evolve

from svc.audit.heads import NO_HEAD, from_line, head_time, to_line
from svc.audit.writer import RunBlocking
from svc.errors import AlreadyExists, AuditBroken, Malformed
from svc.interfaces.audit import HeadVerifier, IHeadKeeper
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit import SignedHead

KEPT = 4096
"""So many of the newest heads are in the store."""

BATCH = 256


@define
class HeadExchange:
    """One Authority's part in it.

    Attributes:
        keeper: Where this Authority keeps heads, outside of the store.
        verify_head: Judges what the store says somebody signed.
        run_blocking: Where files are written.
    """

    store: IStore
    keeper: IHeadKeeper
    verify_head: HeadVerifier
    cluster: str
    log_id: str
    run_blocking: RunBlocking

    async def share(self, head: SignedHead) -> None:
        """Put a head of ours where the others find it; once more changes nothing.

        Raises:
            AuditBroken: another head over as many records is there.
            StoreUnavailable: it is not there, as far as is known.
        """
        line, size = to_line(head, edge=True), head.head.tree_size

        def add(tx: ITransaction) -> None:
            if tx.heads.after(size - 1, 1) != (line,):
                tx.heads.add(size, line, KEPT)

        try:
            await self.store.run("share an audit head", add)
        except AlreadyExists:
            raise AuditBroken(
                f"audit log: another head over {size} records is in the store"
            ) from None

    async def take(self) -> int:
        """Keep what others have signed since the newest head kept here; how many there were.

        Called at each look at the lease, and once more before this Authority writes.

        Raises:
            AuditBroken: a head does not verify, or contradicts those kept.
            StoreUnavailable, OSError: store or files could not be reached.
        """
        taken = 0
        newest = await self._newest()
        while True:
            size = 0 if newest is None else newest.head.tree_size
            oldest, lines = await self._after(size)
            for line in lines:
                newest = await self._take(line, newest, may_miss=line == oldest)
                taken += 1
            if len(lines) < BATCH:
                return taken

    async def _after(self, size: int) -> tuple[bytes | None, tuple[bytes, ...]]:
        """The oldest line, before which some may have been forgotten, and the next ones."""

        def look(tx: ITransaction) -> tuple[bytes | None, tuple[bytes, ...]]:
            first = tx.heads.after(0, 1)
            return first[0] if first else None, tx.heads.after(size, BATCH)

        return await self.store.read("audit heads", look)

    async def _newest(self) -> SignedHead | None:
        found: list[SignedHead | None] = []
        await self.run_blocking(lambda: found.append(self.keeper.newest()))
        return found[0]

    async def _take(self, line: bytes, before: SignedHead | None, *, may_miss: bool) -> SignedHead:
        """Keep one that follows from the one *before*, unless those between are forgotten."""
        try:
            head = from_line(line, {})
        except Malformed as refused:
            raise AuditBroken(f"audit heads in the store: {refused.text}") from refused
        if (head.head.cluster, head.head.log_id) != (self.cluster, self.log_id):
            raise AuditBroken(
                "audit heads in the store: one is of another cluster or log",
                reason="audit_head_foreign",
            )
        self.verify_head(head.signed, head_time(head.head))
        size = 0 if before is None else before.head.tree_size
        is_next = head.head.previous_head_hash == (NO_HEAD if before is None else before.hash)
        if head.head.tree_size <= size or not (is_next or may_miss):
            raise AuditBroken(
                f"audit heads in the store: the one over {head.head.tree_size} records does "
                f"not follow from the one over {size}"
            )
        if not is_next:
            head = evolve(head, pruned=max(1, head.pruned))
        await self.run_blocking(lambda: self.keeper.keep(head))
        return head
