"""Finds the entry of a decision among the batches of the log, by one row of an index for each.

A batch is filed under the least id that its entries can have, and says the greatest.  Ids ascend
with time, so an entry is in one of the few batches just at or before its id.

And finds whose a session is, as its own record says (rule R9).  The row of a session is signed by
nobody: it only leads to the record of its opening, which is hashed into the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from svc.audit.log.entries import RequestSession
from svc.audit.log.verify import batch_at
from svc.errors import Malformed
from svc.interfaces.store import ITransaction
from svc.model.audit.batch import ENTRIES, RequestBatch, is_batch
from svc.model.audit.decision_ids import greatest_id
from svc.model.audit.events import SESSION_START
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import chain_hash
from svc.model.canonical import decode
from svc.model.ids import is_random_id
from svc.model.session.session import Session
from svc.model.short_ids import is_beginning

NEAR = 16
"""Batches that are looked into: one Proxy makes fewer in a millisecond, or after its clock was
set back."""
_MOST_ROWS, _MOST_IDS = 64, 256
"""Of decisions whose id begins in one way: with more none is found."""

_DIGITS = 32


@frozen
class FoundEntry:
    """Where an entry is."""

    row: ChainRow
    record: dict[str, Any]
    batch: RequestBatch
    index: int


def find_entry(tx: ITransaction, decision_id: str) -> FoundEntry | None:
    """The entry of this decision, or None.

    Raises:
        ChainFault: a batch that may hold it is not what was signed.
    """
    for row, record, entries in _near(tx, decision_id, decision_id):
        if f'"decision_id":"{decision_id}"' not in entries:
            continue
        batch = batch_at(row, record, tx.audit.personal(row.seq, row.seq).get(row.seq, ()))
        for index, entry in enumerate(batch.entries):
            if entry.get("decision_id") == decision_id:
                return FoundEntry(row=row, record=record, batch=batch, index=index)
    return None


def ids_beginning(tx: ITransaction, beginning: str) -> tuple[tuple[str, str], ...] | None:
    """The ids of decisions and sessions that begin so, whoever they are about.

    Each comes with the id of the decision; of a session that is the one that let it open.  Ids of
    requests begin with ten digits of their Proxy and twelve of the millisecond.

    None where more begin so than are looked through.  They are everybody's: whoever may not see
    them all is not told that apart from there being none.
    """
    first, last = beginning.ljust(_DIGITS, "0"), beginning.ljust(_DIGITS, "f")
    rows = tx.origins.near(last, _MOST_ROWS)
    sessions = tx.sessions.beginning(beginning, _MOST_ROWS)
    if _MOST_ROWS in (len(sessions), sum(one.decision_id >= first for one in rows)):
        return None
    ids = {
        one.decision_id
        for one in rows
        if one.decision_id.startswith(beginning) and not _last_id(one.beginning)
    }
    named = re.compile(rf'"decision_id":"({beginning}[0-9a-f]*)"')
    for _, _, entries in _near(tx, first, last, _MOST_ROWS):
        ids.update(named.findall(entries))
        if len(ids) > _MOST_IDS:
            return None
    return *((one, one) for one in sorted(ids)), *((one.uid, one.decision_id) for one in sessions)


def decisions_meant(tx: ITransaction, word: str) -> Mapping[str, str]:
    """The decisions that a person may mean by *word*: a whole id, or how it begins.

    Each is found by the id that may be meant, which is its own or that of the session that it let
    open.  Empty for a word that is no such id, and where too many ids begin so; a whole id is
    believed.
    """
    if is_random_id(word):
        session = tx.sessions.get(word)
        return {word: word if session is None else session.decision_id}
    return dict(ids_beginning(tx, word) or ()) if is_beginning(word) else {}


def is_repeated(tx: ITransaction, ids: Sequence[str]) -> bool:
    """Whether the log has one of *ids*, which ascend, in a batch."""
    return any(
        f'"decision_id":"{one}"' in entries
        for _, _, entries in _near(tx, ids[0], greatest_id(ids[-1]))
        for one in ids
    )


def _near(
    tx: ITransaction, first: str, last: str, most: int = NEAR
) -> Iterator[tuple[ChainRow, dict[str, Any], str]]:
    """The batches that may hold an id from *first* to *last*, each with the text of its entries."""
    for filed in tx.origins.near(last, most):
        # Few of them are looked into, so none is read for this.
        if _last_id(filed.beginning) < first or filed.decision_id > last:
            continue
        found = tx.audit.rows(filed.seq, 1)
        record: Any = decode(found[0].canonical) if found else None
        if not isinstance(record, dict) or not is_batch(record):
            continue
        beside = {
            one.path: one.value
            for one in tx.audit.personal(filed.seq, filed.seq).get(filed.seq, ())
        }
        if ENTRIES in beside:
            yield found[0], record, beside[ENTRIES]


def _last_id(beginning: str) -> str:
    """The greatest id that a batch says; empty in any other record."""
    return beginning.partition('"last_id":"')[2][:32]


def opening_record(tx: ITransaction, uid: str) -> Mapping[str, Any] | None:
    """The ``session.start`` of a session; None where its row is gone, or leads nowhere."""
    session = tx.sessions.get(uid)
    found = None if session is None else _opening(tx, session)
    return None if found is None else found[1]


def _opening(tx: ITransaction, session: Session) -> tuple[ChainRow, Mapping[str, Any]] | None:
    for row in tx.audit.by_decision(session.decision_id):
        try:
            record = decode(row.canonical)
        except Malformed:
            continue  # verification names it
        if not isinstance(record, Mapping) or record.get("session_uid") != session.uid:
            continue
        if record.get("event") == SESSION_START.name:
            return row, record
    return None


def granted_session(tx: ITransaction, uid: str) -> Session | None:
    """A session, with whose it is, of what, through which Proxy and since when by its record.

    None as for :func:`opening_record`, and where that record is not the one that was hashed.
    """
    session = tx.sessions.get(uid)
    found = None if session is None else _opening(tx, session)
    if session is None or found is None:
        return None
    row, record = found
    if chain_hash(row.seq, row.prev_hash, row.canonical) != row.hash:
        return None
    try:
        return evolve(
            session,
            person_id=str(record["actor"]["id"]),
            resource_id=str(record["resource_id"]),
            kind=str(record["resource_kind"]),
            proxy_id=str(record["details"]["proxy_id"]),
            started_at=datetime.fromisoformat(record["time"]).timestamp(),
        )
    except (KeyError, TypeError, ValueError):
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
