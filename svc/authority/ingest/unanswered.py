"""Remembers rows that may be in the log though the store did not say so.

What a session's requests are held against is in this process's memory.  A record that entered
the log unnoticed would be missed there, and its honest Proxy accused of leaving it out.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from svc.audit.ingest.validate import RowVerdict, ValidRow
from svc.authority.ingest.apply import AppliedRows
from svc.interfaces.store import IReadOnlyStore
from svc.model.audit.outbox import QueuedRow


@define
class UnansweredRows:
    """Those of writes that nobody waited for to the end, or whose answer was lost."""

    _rows: dict[int, ValidRow] = field(factory=dict, init=False)
    _are_decided: bool = field(default=False, init=False)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(
        self, judged: Iterable[tuple[QueuedRow, RowVerdict]], *, is_decided: bool = False
    ) -> None:
        """Whether these were written is not known, or not yet looked at.

        Args:
            judged: The rows.
            is_decided: A write came to its end: one writes at a time, so those before it did too.
        """
        self._rows.update((row.id, one.judged) for row, one in judged if one.judged is not None)
        self._are_decided = is_decided

    async def entered(self, store: IReadOnlyStore) -> AppliedRows:
        """Those that are in the log by now, each given once; what may yet get there stays.

        Raises:
            StoreUnavailable: the store cannot be asked.
        """
        asked, are_decided = tuple(self._rows), self._are_decided
        reached = await store.read("rows without an answer", lambda tx: tx.origins.reached(asked))
        rows = [self._rows.pop(row_id) for row_id in sorted(reached & self._rows.keys())]
        if are_decided:
            self._rows.clear()
        return AppliedRows(
            appended=len(rows),
            held=(),
            requests=tuple(one for row in rows for one in row.ranged),
            sampled=tuple(one for row in rows for one in row.sampled),
        )
