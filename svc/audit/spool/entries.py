"""What a spool is given to write, and says of what it holds."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, frozen

from svc.audit.spool.write_ahead import AheadPlace
from svc.errors import SvcError
from svc.model.audit.record import AuditRecord
from svc.model.audit.request import SealedRequest

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


@frozen
class Extent:
    """How far a spool reaches; *first* is past *last* where nothing of it is left."""

    spool_id: str
    first: int
    last: int
