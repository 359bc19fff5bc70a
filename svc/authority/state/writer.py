"""What protected rows are changed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import field, frozen

from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import SignedRows
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import Actor, Event
from svc.model.ids import Entropy

_T = TypeVar("_T")


@frozen(kw_only=True)
class StateWriter:
    """Changes protected rows, each change in one transaction with its record.

    Attributes:
        cache: What the policy decides by; it has a change when :meth:`change` returns.
    """

    cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)

    def rows(self, tx: ITransaction) -> SignedRows:
        """The protected rows of *tx* as they are now.  Raises StateUnsigned."""
        return self.recorder.rows(tx)

    def append(
        self,
        tx: ITransaction,
        event: Event,
        actor: Actor,
        **fields: Any,
    ) -> ChainRow:
        """Append the record of a change in *tx*; see :meth:`Recorder.append`."""
        return self.recorder.append(tx, event, actor, **fields)

    async def read(self, desc: str, look: Callable[[ITransaction], _T]) -> _T:
        """What *look* sees in one transaction, which changes nothing."""
        return await self.store.read(desc, look)

    async def record(self, desc: str, make: Callable[[ITransaction], _T]) -> _T:
        """Run *make* in one transaction that changes no protected row: nothing is read again."""
        return await self.store.run(desc, make)

    async def change(self, desc: str, make: Callable[[ITransaction], _T]) -> _T:
        """Run *make* in one transaction, then read the cluster's state again.

        Also if nothing changed: a command may be repeated because the outcome of the first attempt
        is not known, and what follows from the state has to follow then too.
        """
        made = await self.store.run(desc, make)
        await self.cache.refresh()
        return made

    async def change_beside_policy(self, desc: str, make: Callable[[ITransaction], _T]) -> _T:
        """Run *make* in one transaction that changes nothing the policy decides by.

        Then the records of state are read again, but not the cluster's state.
        """
        made = await self.store.run(desc, make)
        await self.cache.catch_up()
        return made
