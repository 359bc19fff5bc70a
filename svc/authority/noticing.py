"""The store as this role uses it: whoever signs heads hears of every commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define, field
from zope.interface import implementer

from svc.interfaces.audit import IChain
from svc.interfaces.store import IReadOnlyStore, IStore, ITransaction
from svc.model.ledger import ChainHead, ChainRow

_T = TypeVar("_T")


def _nobody(_records: int) -> None:
    """Before the head writer is there."""


@implementer(IStore)
@define
class NoticingStore:
    """A store that tells of the records that each committed transaction left on the log.

    Attributes:
        committed: Called with how many, where there are any; must not raise.
    """

    store: IStore
    committed: Callable[[int], object] = field(default=_nobody)

    async def run(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """See :class:`IStore`."""

        def counted(tx: ITransaction) -> tuple[_T, int]:
            before = tx.audit.head().seq
            result = fn(tx)
            return result, tx.audit.head().seq - before

        result, records = await self.store.run(desc, counted)
        if records:
            self.committed(records)
        return result

    async def read(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """See :class:`IReadOnlyStore`."""
        return await self.store.read(desc, fn)

    async def close(self) -> None:
        """See :class:`IReadOnlyStore`."""
        await self.store.close()


@implementer(IChain)
@define
class StoredChain:
    """The rows of the log, for whoever signs heads over them."""

    store: IReadOnlyStore

    async def head(self) -> ChainHead:
        """See :class:`IChain`."""
        return await self.store.read("audit head", lambda tx: tx.audit.head())

    async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        """See :class:`IChain`."""
        return await self.store.read("audit rows", lambda tx: tx.audit.rows(from_seq, limit))
