"""The certificates of a sign-in, which end with it."""

from __future__ import annotations

from svc.authority.state.credentials import altered_credentials
from svc.authority.state.recorder import StateRecords
from svc.authority.state.tables import CERTIFICATES
from svc.interfaces.store import ITransaction
from svc.model.audit.state import StateEntry
from svc.model.cluster.sign_in import SignIn


def revoke_certificates(
    tx: ITransaction, records: StateRecords, ended: SignIn, at: float, *, signed_out: bool = False
) -> list[StateEntry]:
    """Revoke what came by a sign-in and has not expired; what the record must sign.

    A certificate whose row somebody removed or altered is revoked too: it could be put back.

    Args:
        signed_out: Its holder signs out, so what it approved stands.
    """
    rows = records.rows(tx)
    good = [
        one.sha256
        for one in tx.certificates.of(ended.person_id)
        if one.sign_in_id == ended.id
        and (one.revoked_at is None or (one.signed_out and not signed_out))
        and one.expires > at
        and rows.is_signed(CERTIFICATES.entry_of(one))
    ]
    for sha256 in good:
        tx.certificates.revoke(sha256, at, signed_out=signed_out)
    altered = [
        one.take_away(tx, ended.person_id, at)
        for one in altered_credentials(rows, at)
        if one.sort == CERTIFICATES.name
        and one.recorded.get("sign_in_id") == ended.id
        and bytes.fromhex(one.id) not in good
    ]
    return [*(CERTIFICATES.now(tx, one) for one in good), *altered]
