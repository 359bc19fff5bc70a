"""Rows of the audit queue, and why one is held.

Frozen values only; what makes a row a bad one is ``svc.audit.judging_rows``, what
becomes of it ``svc.authority.drain``.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from svc.model.spool import SpoolRow


class Hold(Enum):
    """Why a row is held, in the order in which the leader looks; the first one stays."""

    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    FORGED = "forged"
    REPLAYED = "replayed"


@frozen
class Offered:
    """A row on its way into the queue, with what its record says of its place."""

    row: SpoolRow
    origin: str
    spool_id: str
    n: int


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
