"""What a spool is given to write, and says of what it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from svc.audit.spool.entry.forms import EntryForm, Recorded
from svc.audit.spool.write_ahead import AheadRun
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
        durable: Told once it is on the disk, or why it is not; where somebody waits for that.
    """

    record: AuditRecord | Callable[[str, int], AuditRecord]
    holder: str | None = None
    durable: Deferred[None] | None = field(default=None, eq=False, repr=False)


@define(eq=False)
class SpoolRequest:
    """A request to be written in a batch.

    Many are sealed at once, in the thread that writes them.

    Attributes:
        unsealed: Its form, and what that seals, until it is sealed.
        holder: The person who asked; None where a former life let it pass.
        cost: What was taken of the room for it, and is given back but for what it needs.
        sealed: There once it is sealed.
        ahead: The requests it was written ahead with; None where it was not written ahead.
    """

    unsealed: tuple[EntryForm, Recorded] | None
    holder: str | None
    cost: int
    sealed: SealedRequest = field(init=False, repr=False)
    ahead: AheadRun | None = field(default=None, init=False)

    @classmethod
    def of_former_life(cls, sealed: SealedRequest, cost: int) -> SpoolRequest:
        """One that a former life of the origin let pass."""
        found = cls(None, None, cost)
        found.sealed = sealed
        return found


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
    requests: list[SpoolRequest] = field(factory=list)
    """For which room was taken before."""
    cost: dict[str | None, int] = field(factory=dict)
    """What was taken for the requests of each holder."""
    needed: dict[str | None, int] = field(factory=dict)
    """And what they need of it."""

    def add(self, row: SpoolRow, data: bytes) -> None:
        """Take the row that was made for the place."""
        self.rows.append((self.place.n, row))
        self.data += data
        self.place = SpoolPlace(self.place.spool_id, self.place.n + 1, row_hash(row.canonical))

    def pay(self, requests: Sequence[SpoolRequest], size: int) -> int:
        """Pay for the row of these requests, which has so many bytes, out of what was taken.

        Each pays for itself, and all in equal parts for what is around them.

        Returns:
            Bytes that nobody has paid.
        """
        sizes = [one.sealed.size for one in requests]
        shared = max(0, size - sum(sizes)) // len(requests) + 1
        needs: dict[str | None, int] = {}
        costs: dict[str | None, int] = {}
        for one, need in zip(requests, sizes, strict=True):
            holder = one.holder
            needs[holder] = needs.get(holder, 0) + need + shared
            costs[holder] = costs.get(holder, 0) + one.cost
        left = size
        for holder, cost in costs.items():
            needed = min(needs[holder], cost, left)
            left -= needed
            self.cost[holder] = self.cost.get(holder, 0) + cost
            self.needed[holder] = self.needed.get(holder, 0) + needed
        self.requests += requests
        return left

    def over(self) -> tuple[int, dict[str, int]]:
        """Room that was taken for its requests and is not needed: all of it, and each holder's."""
        rest = {holder: cost - self.needed[holder] for holder, cost in self.cost.items()}
        held = {one: over for one, over in rest.items() if over and one is not None}
        return sum(rest.values()), held


@frozen
class Extent:
    """How far a spool reaches; *first* is past *last* where nothing of it is left."""

    spool_id: str
    first: int
    last: int
