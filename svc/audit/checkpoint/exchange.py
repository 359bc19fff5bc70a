"""Exchanges heads between Authorities on one store: the leader writes them, the others keep them.

Each Authority keeps heads outside of the store, because whoever can change the
store must not be able to change them.  The store only carries them: a head is
believed by its signature, and one that does not follow from those kept is
refused.  The writer puts a head into the store before it keeps it, so that
nobody who takes over later goes on from an older one than it did.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from attrs import define, evolve
from twisted.logger import Logger

from svc.audit.checkpoint.head import NO_HEAD, from_line, head_time, to_line
from svc.audit.checkpoint.rewind import restoration
from svc.errors import AlreadyExists, AuditBroken, Malformed
from svc.interfaces.audit import HeadVerifier, IHeadKeeper
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.record import SignedHead
from svc.runtime.threads import InThread

KEPT = 4096
"""So many of the newest heads are in the store."""

BATCH = 256

_RESTORED = b',"restored":{'
"""A quote inside a string is escaped, so this is a member of the line."""

_log = Logger(namespace="svc_audit")


@define
class HeadExchange:
    """One Authority's part in it.

    Attributes:
        store: Written to by whoever leads.
        keeper: Where this Authority keeps heads, outside of the store.
        verify_head: Judges what the store says somebody signed.
        in_thread: Where files are written.
    """

    store: IStore
    keeper: IHeadKeeper
    verify_head: HeadVerifier
    cluster: str
    log_id: str
    in_thread: InThread
    is_given_up: Callable[[SignedHead], bool]
    """Whether a head is of a line of the log that was given up on purpose."""

    went_on: Callable[[SignedHead], object]
    """Told of a head that goes on from an older store."""

    unfenced: IStore | None = None
    """Where one that does not lead shows its greatest head; the line proves itself."""

    async def share(self, head: SignedHead) -> None:
        """Put a head of ours where the others find it; once more changes nothing.

        Raises:
            AuditBroken: another head over as many records is there.
            StoreUnavailable: it is not there, as far as is known.
        """
        line, size = to_line(head, edge=True), head.head.tree_size

        def add(tx: ITransaction) -> None:
            there = tx.heads.after(size - 1, 1)
            if there == (line,):
                return
            if there and self._is_lost(there[0]):
                # Somebody who had not heard yet showed what he kept.
                tx.heads.drop_after(size - 1)
            tx.heads.add(size, line, KEPT)

        try:
            await self.store.run("share an audit head", add)
        except AlreadyExists:
            raise AuditBroken(
                f"audit log: the store has a different head over {size} records"
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
        if newest is not None and await self._goes_on_elsewhere(newest):
            newest, taken = await self._newest(), 1
        after = 0 if newest is None else newest.head.tree_size
        while True:
            oldest, lines = await self._after(after)
            for line in lines:
                head = self._judged(line)
                after = head.head.tree_size
                if not self.is_given_up(head):
                    newest = await self._take(head, newest, may_miss=line == oldest)
                    taken += 1
            if len(lines) < BATCH:
                return taken

    async def greater(self) -> tuple[bytes, ...]:
        """A head in the store that is later than those kept here, if there is one.

        Whoever leads looks for it: another Authority may know of records that its store lacks.
        """
        newest = await self._newest()
        size = 0 if newest is None else newest.head.tree_size
        return await self.store.read("greater audit heads", lambda tx: tx.heads.after(size, 1))

    async def warn(self) -> None:
        """Present our latest head to the leader, because its store lacks what the head covers.

        Raises:
            StoreUnavailable: it was not put there.
        """
        newest = await self._newest()
        if newest is None or self.unfenced is None:
            return
        line, size = to_line(newest), newest.head.tree_size

        def add(tx: ITransaction) -> None:
            if not any(_size_of(each) == size for each in tx.heads.after(size - 1, 1)):
                tx.heads.add(size, line, KEPT)

        await self.unfenced.run("show an audit head", add)

    async def _goes_on_elsewhere(self, newest: SignedHead) -> bool:
        """Whether the log goes on from an older store, and our newest heads are lost with it.

        Only a signed record of it counts; what it gives up is then kept apart.
        """
        size = newest.head.tree_size

        def holds(tx: ITransaction) -> bool:
            rows = tx.audit.rows(size, 1)
            return bool(rows) and (rows[0].seq, rows[0].hash) == (size, newest.head.last_hash)

        if await self.store.read("our newest audit head", holds):
            return False
        after = 0
        while True:
            _, lines = await self._after(after)
            for line in lines:
                if _RESTORED in line and await self._goes_on(line, newest):
                    return True
            if len(lines) < BATCH:
                return False
            after = _size_of(lines[-1])

    async def _goes_on(self, line: bytes, newest: SignedHead) -> bool:
        head = self._judged(line)
        restored = restoration(head)
        if restored is None or restored.time <= newest.head.time or not restored.gives_up(newest):
            return False
        _log.warn(
            "the audit log continues from an older store, as a signed record confirms",
            record=restored.seq,
            lost=restored.lost_size,
        )

        def go_on() -> None:
            self.keeper.give_up(restored.shared_size)
            self.keeper.keep(evolve(head, pruned=max(1, head.pruned)))

        await self.in_thread(go_on)
        self.went_on(head)
        return True

    async def _after(self, size: int) -> tuple[bytes | None, tuple[bytes, ...]]:
        """The oldest line, before which some may have been forgotten, and the next ones."""

        def look(tx: ITransaction) -> tuple[bytes | None, tuple[bytes, ...]]:
            first = tx.heads.after(0, 1)
            return first[0] if first else None, tx.heads.after(size, BATCH)

        return await self.store.read("audit heads", look)

    async def _newest(self) -> SignedHead | None:
        return await self.in_thread(self.keeper.newest)

    async def _take(
        self, head: SignedHead, before: SignedHead | None, *, may_miss: bool
    ) -> SignedHead:
        """Keep one that follows from the one *before*, unless those between are forgotten."""
        size = 0 if before is None else before.head.tree_size
        is_next = head.head.previous_head_hash == (NO_HEAD if before is None else before.hash)
        if head.head.tree_size <= size or not (is_next or may_miss):
            raise AuditBroken(
                f"audit heads in the store: the head over {head.head.tree_size} records "
                f"does not follow the head over {size}"
            )
        if not is_next:
            head = evolve(head, pruned=max(1, head.pruned))
        await self.in_thread(lambda: self.keeper.keep(head))
        return head

    def _is_lost(self, line: bytes) -> bool:
        with suppress(Malformed):
            return self.is_given_up(from_line(line, {}))
        return False

    def _judged(self, line: bytes) -> SignedHead:
        """The head in a line of the store, once its place and signature are good."""
        try:
            head = from_line(line, {})
        except Malformed as refused:
            raise AuditBroken(f"audit heads in the store: {refused.text}") from refused
        if (head.head.cluster, head.head.log_id) != (self.cluster, self.log_id):
            raise AuditBroken(
                "audit heads in the store: one belongs to another cluster or log",
                reason="audit_head_foreign",
            )
        self.verify_head(head.signed, head_time(head.head))
        restoration(head)
        return head


def _size_of(line: bytes) -> int:
    try:
        return from_line(line, {}).head.tree_size
    except Malformed as refused:
        raise AuditBroken(f"audit heads in the store: {refused.text}") from refused
