"""Takes away what a person without a provider signs in by (rules R8, R31).

A row that was deleted, altered or moved in the store would be in force again once somebody
puts it back as it was.  So its absence is signed for too.
"""

from __future__ import annotations

from svc.authority.state.credentials import hidden_of
from svc.authority.state.recorder import StateRecords
from svc.authority.state.tables import SECRETS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCOUNT_PASSKEY_REMOVE, ACCOUNT_REMOVE
from svc.model.audit.record import Actor
from svc.model.audit.state import MAX_ROWS, StateEntry
from svc.model.cluster.account import SecretKind
from svc.model.cluster.person import Person


def remove_secrets(
    tx: ITransaction,
    records: StateRecords,
    known: Person,
    actor: Actor,
    note: dict[str, str] | None = None,
) -> int:
    """Remove all that a person signs in by, with its record; how many rows.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    gone = take_secrets(tx, records, known)
    for start in range(0, len(gone), MAX_ROWS):
        records.append(
            tx,
            ACCOUNT_REMOVE,
            actor,
            details={"person_id": known.id, **(note or {})},
            state=gone[start : start + MAX_ROWS],
        )
    return len(gone)


def remove_passkey(
    tx: ITransaction,
    records: StateRecords,
    known: Person,
    actor: Actor,
    *,
    passkey_id: str,
    note: dict[str, str],
) -> bool:
    """Remove one passkey of a person, with its record; whether there was one.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    rows, subject = records.rows(tx), SECRETS.subject(passkey_id)
    theirs = set(hidden_of(rows, SECRETS, "person_id", known.id, records.now()))
    for one in tx.secrets.of(known.id):
        entry = SECRETS.entry_of(one)
        is_theirs = rows.is_signed(entry) or rows.seen.get(entry.subject) is None
        if one.kind is SecretKind.PASSKEY and is_theirs:
            theirs.add(entry.subject)
    if subject not in theirs:
        return False
    tx.secrets.remove(passkey_id)
    records.append(
        tx,
        ACCOUNT_PASSKEY_REMOVE,
        actor,
        details={"person_id": known.id, **note},
        state=[StateEntry(subject, None)],
    )
    return True


def take_secrets(tx: ITransaction, records: StateRecords, known: Person) -> list[StateEntry]:
    """Remove the rows of all that a person signs in by; returns what a record must sign.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    rows = records.rows(tx)
    theirs = set(hidden_of(rows, SECRETS, "person_id", known.id, records.now()))
    for one in tx.secrets.of(known.id):
        entry = SECRETS.entry_of(one)
        # A row of somebody else that was moved here stays: it is theirs once it is put back.
        if rows.is_signed(entry) or rows.seen.get(entry.subject) is None:
            theirs.add(entry.subject)
    for subject in theirs:
        tx.secrets.remove(subject.partition(":")[2])
    return [StateEntry(subject, None) for subject in sorted(theirs)]
