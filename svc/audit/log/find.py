"""Finds the entry of a decision among the batches of the log, by one row of an index for each.

A batch is filed under the least id that its entries can have, and says the greatest.  Ids ascend
with time, so an entry is in one of the few batches just at or before its id.

And finds whose a session is, as its own record says (rule R9).  The row of a session is signed by
nobody: it only leads to the record of its opening, which is hashed into the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from svc.audit.log.entries import RequestSession
from svc.audit.log.verify import batch_at
from svc.errors import Malformed
from svc.interfaces.facets import IAuditLog
from svc.interfaces.store import ITransaction
from svc.model.audit.batch import ENTRIES, RequestBatch, is_batch
from svc.model.audit.decision_ids import greatest_id
from svc.model.audit.events import SESSION_START
from svc.model.audit.ledger import ChainRow
from svc.model.canonical import decode

NEAR = 16
"""Batches that are looked into: one Proxy makes fewer in a millisecond, or after its clock was
set back."""


@frozen
class FoundEntry:
    """Where an entry is."""

    row: ChainRow
    record: dict[str, Any]
    batch: RequestBatch
    index: int


def find_entry(log: IAuditLog, decision_id: str) -> FoundEntry | None:
    """The entry of this decision, or None.

    Raises:
        ChainFault: a batch that may hold it is not what was signed.
    """
    for row, record, entries in _near(log, decision_id, decision_id):
        if f'"decision_id":"{decision_id}"' not in entries:
            continue
        batch = batch_at(row, record, log.personal(row.seq, row.seq).get(row.seq, ()))
        for index, entry in enumerate(batch.entries):
            if entry.get("decision_id") == decision_id:
                return FoundEntry(row=row, record=record, batch=batch, index=index)
    return None


def is_repeated(log: IAuditLog, ids: Sequence[str]) -> bool:
    """Whether the log has one of *ids*, which ascend, in a batch."""
    return any(
        f'"decision_id":"{one}"' in entries
        for _, _, entries in _near(log, ids[0], greatest_id(ids[-1]))
        for one in ids
    )


def _near(log: IAuditLog, first: str, last: str) -> Iterator[tuple[ChainRow, dict[str, Any], str]]:
    """The batches that may hold an id from *first* to *last*, each with the text of its entries."""
    for row in log.by_decision(last, NEAR):
        # Few of them are looked into, so none is decoded for this.
        if _member(row, b'"last_id":"') < first or _member(row, b'"decision_id":"') > last:
            continue
        record: Any = decode(row.canonical)
        if not isinstance(record, dict) or not is_batch(record):
            continue
        beside = {one.path: one.value for one in log.personal(row.seq, row.seq).get(row.seq, ())}
        if ENTRIES in beside:
            yield row, record, beside[ENTRIES]


def _member(row: ChainRow, name: bytes) -> str:
    """The id after *name* in a batch's record; empty in any other."""
    at = row.canonical.find(name) + len(name)
    return row.canonical[at : at + 32].decode("ascii", "replace") if at >= len(name) else ""


def opening_record(tx: ITransaction, uid: str) -> Mapping[str, Any] | None:
    """The ``session.start`` of a session; None where its row is gone, or leads nowhere."""
    session = tx.sessions.get(uid)
    for row in () if session is None else tx.audit.by_decision(session.decision_id):
        try:
            record = decode(row.canonical)
        except Malformed:
            continue  # verification names it
        if not isinstance(record, Mapping) or record.get("session_uid") != uid:
            continue
        if record.get("event") == SESSION_START.name:
            return record
    return None


def opened_session(tx: ITransaction, uid: str) -> RequestSession | None:
    """Whose a session is, and of what; None as for :func:`opening_record`."""
    record = opening_record(tx, uid)
    if record is None:
        return None
    try:
        return RequestSession(
            person_id=str(record["actor"]["id"]),
            resource_id=str(record["resource_id"]),
            resource_kind=str(record["resource_kind"]),
        )
    except (KeyError, TypeError):
        return None
