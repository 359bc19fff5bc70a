"""An account at an identity provider stops being somebody's here."""

from __future__ import annotations

from collections.abc import Mapping

from svc.authority.state.recorder import StateRecords
from svc.authority.state.tables import IDENTITIES, SIGN_INS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import IDENTITY_UNLINK
from svc.model.audit.record import Actor
from svc.model.audit.state import StateEntry
from svc.model.cluster.sign_in import IdentityLink, SignIn

ROWS = 256
"""So many rows one record names; there may be more sign-ins, or certificates of one."""


def unlink_account(
    tx: ITransaction,
    records: StateRecords,
    link: IdentityLink,
    actor: Actor,
    note: Mapping[str, str],
) -> tuple[SignIn, ...]:
    """Remove a link and the sign-ins that came by it, with the record; these.

    What is left of these are certificates, which are not renewed any more.
    """
    ended = tx.sign_ins.unlink(link.id)
    rows = records.rows(tx)
    signed = [SIGN_INS.subject(one.id) for one in ended]
    state = [
        IDENTITIES.now(tx, link.id),
        *(StateEntry(one, None) for one in signed if rows.seen.get(one) is not None),
    ]
    details = {
        "person_id": link.person_id,
        "identity_id": link.id,
        "issuer": link.issuer,
        **note,
    }
    for start in range(0, len(state), ROWS):
        some = state[start : start + ROWS]
        records.append(tx, IDENTITY_UNLINK, actor, details=details, state=some)
    return ended
