"""Revisions of issuing authorities and purpose keys: public halves only."""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class KeyState(Enum):
    """Where a revision is in its life; at most one per kind is active."""

    PREPARED = "prepared"
    ACTIVE = "active"
    RETIRED = "retired"


@frozen
class KeyRevision:
    """One certificate of one kind (``transport``, ``spiffe``, ``grant``, …).

    Revisions of a kind count from 1; ``since`` is when its state was entered.
    """

    kind: str
    revision: int
    certificate: str
    state: KeyState
    since: float
