"""What a sort of protected row is: how it is read, and what is signed of it (rule R8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from attrs import frozen

from svc.interfaces.store import ITransaction
from svc.model.audit.state import StateEntry

_Id = TypeVar("_Id")
_Row = TypeVar("_Row")


@frozen(kw_only=True)
class ProtectedTable(Generic[_Id, _Row]):
    """One sort of protected row: whatever is done with protected rows goes by these.

    Attributes:
        name: Of the sort; with a row's id it is the subject in records.
        get: One row by its id.
        all: Every row that means anything at a time.
        id_of: The id of a row, as records name it.
        entry_of: What is signed of a row.
        expires: Whether its rows end by themselves; none of them is among the cluster's state.
    """

    name: str
    get: Callable[[ITransaction, _Id], _Row | None]
    all: Callable[[ITransaction, float], Iterable[_Row]]
    entry_of: Callable[[_Row], StateEntry]
    id_of: Callable[[_Row], str]
    expires: bool = False

    def subject(self, row_id: object) -> str:
        """What the row of this id is called in a record."""
        return f"{self.name}:{row_id.hex() if isinstance(row_id, bytes) else row_id}"

    def now(self, tx: ITransaction, row_id: _Id) -> StateEntry:
        """The row after a change in *tx*, read back from the store, for the change's record."""
        found = self.get(tx, row_id)
        return StateEntry(self.subject(row_id), None) if found is None else self.entry_of(found)

    def entries(self, tx: ITransaction, at: float) -> list[StateEntry]:
        """What is signed of each row that means anything at *at*, as *tx* has them."""
        return [self.entry_of(row) for row in self.all(tx, at)]
