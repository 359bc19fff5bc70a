"""The record that a session was opened with, held to its grant (rules R8 and R30).

The row of a session is not signed.  It tells where the record is; that this is the record, the
grant says by the record's hash, and Authority signed the grant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from svc.interfaces.store import ITransaction
from svc.model.audit.events import SESSION_START
from svc.model.audit.record import chain_hash
from svc.model.canonical import decode
from svc.model.policy.requested import APPROVED_REQUEST
from svc.model.session.grant import Grant


@frozen
class OpenedSession:
    """What the record of an opened session says.

    Attributes:
        action: The Cedar action that opened it.
        parameters: What policies could read of its parameters.
        request_id: Of the approved request that it was opened by; empty without one.
    """

    decision_id: str
    action: str
    parameters: Mapping[str, str]
    request_id: str


def opened_by_grant(tx: ITransaction, grant: Grant) -> OpenedSession | None:
    """What the session of a grant was opened with; None as for :func:`held_opening`."""
    record = held_opening(tx, grant.session_uid, grant.audit_hash)
    return None if record is None else _read(record)


def held_opening(tx: ITransaction, uid: str, audit_hash: bytes) -> Mapping[str, Any] | None:
    """The ``session.start`` with this hash of a session; None where it cannot be found.

    Somebody may have changed the row, so that it leads elsewhere, or the record itself.

    Args:
        audit_hash: As something signed by Authority says.
    """
    session = tx.sessions.get(uid)
    for row in () if session is None else tx.audit.by_decision(session.decision_id):
        if row.hash != audit_hash:
            continue
        if chain_hash(row.seq, row.prev_hash, row.canonical) == row.hash:
            record: Any = decode(row.canonical)
            return record if record["event"] == SESSION_START.name else None
    return None


def _read(record: Mapping[str, Any]) -> OpenedSession:
    request = record["request"]
    approved = request["context"].get(APPROVED_REQUEST)
    return OpenedSession(
        decision_id=record["decision_id"],
        action=request["action"],
        parameters={
            name: value for name, value in request["context"].items() if isinstance(value, str)
        },
        request_id="" if approved is None else str(approved["id"]),
    )
