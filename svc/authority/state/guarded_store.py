"""The store as this role uses it: every write checks the end of the log.

Whoever signs heads hears of every commit, and nothing is written to a store
whose log ends before what was seen of it, or goes on past what this Authority,
while it leads, wrote itself (rule R10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define
from zope.interface import implementer

from svc.audit.checkpoint.monitor import LogWatch, RolledBack
from svc.audit.checkpoint.writer_position import ForeignRecord, WriterPosition
from svc.authority.ha.lease import FencedStore
from svc.errors import AuditBroken, RecordLost, StoreFull
from svc.interfaces.audit import IChain
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.audit.ledger import ChainHead, ChainRow

_T = TypeVar("_T")


@define
class LogGuardedStore(FencedStore):
    """A fenced store that tells of the records that each committed transaction left on the log.

    Attributes:
        watch: Refuses to go on from what is not the known log.
        position: Keeps where our own writes left the log.
        committed: Called with how many, where there are any; must not raise.
        full: Told that there is no room for what was to be written.
    """

    watch: LogWatch
    position: WriterPosition
    committed: Callable[[int], object]
    full: Callable[[StoreFull], object]

    async def run(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:

        def counted(tx: ITransaction) -> tuple[_T, int, ChainHead]:
            before = tx.audit.head()
            self.watch.require(before, tx.audit.rows)
            result = fn(tx)
            end = tx.audit.head()
            self.position.left(before, end)
            return result, end.seq - before.seq, end

        try:
            result, records, end = await self.store.run(desc, self.fenced(counted))
        except AuditBroken as broken:
            if broken.reason in (RolledBack.reason, ForeignRecord.reason, RecordLost.reason):
                self.watch.found(broken)
            raise
        except StoreFull as fault:
            self.full(fault)
            raise
        records = self.position.committed(end, records)
        if records:
            self.committed(records)
        return result


@implementer(IChain)
@define
class StoredChain:
    """The rows of the log, for the signer of heads."""

    store: IReadOnlyStore

    async def head(self) -> ChainHead:
        return await self.store.read("audit head", lambda tx: tx.audit.head())

    async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        return await self.store.read("audit rows", lambda tx: tx.audit.rows(from_seq, limit))
