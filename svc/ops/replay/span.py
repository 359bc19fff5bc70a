"""Which records a replay reads."""

from __future__ import annotations

import json

from attrs import frozen

from svc.errors import Malformed
from svc.interfaces.store import ITransaction
from svc.model.audit.record import rfc3339
from svc.ops.verify.rows import BATCH

_SLACK_SECS = 3600.0
"""By so much a clock may have been set back."""


@frozen
class ReplaySpan:
    """Which records are replayed.

    Attributes:
        since: Unix seconds, inclusive; requests of this time and later.
        until: Unix seconds, exclusive; None for no end.
        after: Only records beyond this one.
        last: The number of the last record that is read; None for the newest.
    """

    since: float
    until: float | None = None
    after: int = 0
    last: int | None = None


def stretch(tx: ITransaction, span: ReplaySpan) -> tuple[int, int]:
    """The numbers of the first and the last record to read."""
    end = tx.audit.head().seq
    last = end if span.last is None else span.last
    if last > end:
        raise Malformed(f"policy replay: record {last} does not exist; the log ends at {end}")
    low, high = span.after + 1, last + 1
    wanted = rfc3339(max(0.0, span.since - _SLACK_SECS))
    while low < high:
        middle = (low + high) // 2
        time = _time_from(tx, middle, high)
        if time is not None and time < wanted:
            low = middle + 1
        else:
            high = middle
    return low, last


def _time_from(tx: ITransaction, seq: int, end: int) -> str | None:
    """The time of the first record from *seq* on that the leader made; those of a spool come late.

    Looked for among few: where none of them is the leader's, all are taken for new.
    """
    for row in tx.audit.rows(seq, min(BATCH, end - seq)):
        try:
            record = json.loads(row.canonical)
        except ValueError:
            return None
        if isinstance(record, dict) and "spool" not in record:
            return str(record.get("time"))
    return None
