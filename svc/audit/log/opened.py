"""Whose a session is, as its own record says (rule R9).

The row of a session is signed by nobody.  It only leads to the record of its opening, which is
hashed into the log; who had the session, and of what, is taken from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.audit.log.entries import RequestSession
from svc.errors import Malformed
from svc.interfaces.store import ITransaction
from svc.model.audit.events import SESSION_START
from svc.model.canonical import decode


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
