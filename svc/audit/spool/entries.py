"""What a spool is given to write, and says of what it holds."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from svc.audit.spool.write_ahead import AheadPlace
from svc.errors import SvcError
from svc.model.audit.record import AuditRecord
from svc.model.audit.request import SealedRequest, SessionNumbers
from svc.model.audit.spool import SpoolPlace, SpoolRow, row_hash

Outcome = SvcError | None
"""Why a record was not written; None where it is on the disk."""


@frozen
class SpoolEntry:
    """A record to be written.

    Attributes:
        record: Or what makes it, of the spool's id and the row's number.
        holder: Who caused it; None is the origin itself.
    """

    record: AuditRecord | Callable[[str, int], AuditRecord]
    holder: str | None = None


@define(eq=False)
class SpoolRequest:
    """A request to be written in a batch.

    Attributes:
        holder: The person who asked; None where a former life let it pass.
        cost: What was taken of the room for it, and is given back but for what it needs.
        ahead: Where it is before it is in a row, if it was written ahead.
    """

    sealed: SealedRequest
    holder: str | None
    cost: int
    ahead: AheadPlace | None = None


Waiting = SpoolEntry | SpoolRequest
"""What is written together: rows of their own first, and the requests in batches after them."""


@define
class SpoolWrite:
    """Rows that are written together, until they are durable."""

    place: SpoolPlace
    """Of the next row."""
    rows: list[tuple[int, SpoolRow]] = field(factory=list)
    data: bytearray = field(factory=bytearray)
    held: dict[str, int] = field(factory=dict)
    numbers: dict[SessionNumbers, int] = field(factory=dict)
    taken: int = 0
    """Bytes of the room that were taken for it here."""
    paid: list[tuple[SpoolRequest, int]] = field(factory=list)
    """Requests, for which room was taken before, and what each needs of it."""

    def add(self, row: SpoolRow, data: bytes) -> None:
        """Take the row that was made for the place."""
        self.rows.append((self.place.n, row))
        self.data += data
        self.place = SpoolPlace(self.place.spool_id, self.place.n + 1, row_hash(row.canonical))

    def over(self) -> tuple[int, dict[str, int]]:
        """Room that was taken for its requests and is not needed: all of it, and each holder's."""
        whole, held = 0, dict[str, int]()
        for request, needed in self.paid:
            rest, holder = request.cost - needed, request.holder
            whole += rest
            if rest and holder is not None:
                held[holder] = held.get(holder, 0) + rest
        return whole, held


@frozen
class Extent:
    """How far a spool reaches; *first* is past *last* where nothing of it is left."""

    spool_id: str
    first: int
    last: int
