"""Rows of the audit queue, and why one is held.

Frozen values only; what makes a row a bad one is ``svc.audit.ingest.validate``, what
becomes of it ``svc.authority.ingest.drain``.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256

from attrs import frozen

from svc.errors import Malformed
from svc.model.audit.spool import SpoolRow, place_of
from svc.model.canonical import decode


class Hold(Enum):
    """Why a row is held, in the order in which the leader looks; the first one stays."""

    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    FORGED = "forged"
    REPLAYED = "replayed"


_LONGEST_WORD = 64


@frozen
class RowClaim:
    """What a row claims about itself, for display and lookup only; nothing trusts it."""

    origin: str = ""
    spool_id: str = ""
    n: int = 0
    event: str = ""
    event_id: str = ""

    @classmethod
    def of(cls, row: SpoolRow) -> RowClaim:
        """What *row* says, as far as it says it in the form of a row."""
        try:
            form = decode(row.canonical)
            origin, place = place_of(form)
        except Malformed:
            return cls()
        assert isinstance(form, dict)  # or it had no place
        words = (form.get(name) for name in ("event", "event_id"))
        short = (
            word if isinstance(word, str) and len(word) <= _LONGEST_WORD else "" for word in words
        )
        return cls(origin, place.spool_id, place.n, *short)


@frozen
class Offered:
    """A row on its way into the queue, with what its record says of its place."""

    row: SpoolRow
    origin: str
    spool_id: str
    n: int
    entries: int = 0
    """Requests in it, if it is a batch and says the truth; nothing trusts it."""


@frozen
class QueuedRow:
    """A row in the queue, as it came.

    Attributes:
        id: Its number in the queue, never used again.
        queued_at: Seconds since the epoch.
        hold: None while nobody has found fault with it.
    """

    id: int
    row: SpoolRow
    queued_at: float
    hold: Hold | None = None
    held_at: float | None = None

    @property
    def digest(self) -> bytes:
        """SHA-256 of the record's bytes."""
        return sha256(self.row.canonical).digest()


@frozen
class AcceptedRow:
    """A row that became the record *seq*.

    Attributes:
        row_id: Its number in the queue.
    """

    row_id: int
    seq: int
    event_id: str
    origin: str
    spool_id: str
    n: int


@frozen
class QueueCounts:
    """How much is in the queue, held rows included.

    Attributes:
        bytes: Of the rows as they are kept.
        oldest: When the oldest row came; None while it is empty.
    """

    rows: int = 0
    held: int = 0
    bytes: int = 0
    oldest: float | None = None
