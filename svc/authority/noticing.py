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


def _nobody() -> None:
    """Before the head writer is there."""


@implementer(IStore)
@define
class NoticingStore:
    """A store that tells of each transaction that was committed.

    Attributes:
        committed: Called after each; must not raise.
    """

    store: IStore
    committed: Callable[[], object] = field(default=_nobody)

    async def run(self, desc: str, fn: Callable[[ITransaction], _T]) -> _T:
        """See :class:`IStore`."""
        result = await self.store.run(desc, fn)
        self.committed()
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
