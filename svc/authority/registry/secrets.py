"""Takes away what a person without a provider signs in by."""

from __future__ import annotations

from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import SECRETS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCOUNT_REMOVE
from svc.model.audit.record import Actor
from svc.model.cluster.person import Person


def remove_secrets(
    tx: ITransaction,
    recorder: Recorder,
    known: Person,
    actor: Actor,
    note: dict[str, str] | None = None,
) -> int:
    """Remove all that a person signs in by, with its record; how many rows.

    Raises:
        StateUnsigned: one is not what was signed for.
    """
    rows = recorder.rows(tx).secrets_of(known.id)
    if not rows:
        return 0
    for one in rows:
        tx.secrets.remove(one.id)
    recorder.append(
        tx,
        ACCOUNT_REMOVE,
        actor,
        details={"person_id": known.id, **(note or {})},
        state=[SECRETS.now(tx, one.id) for one in rows],
    )
    return len(rows)
