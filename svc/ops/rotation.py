"""Whether keys may be renewed now, as the store says; a command asks, on the Authority's host.

It reads the rows as they are stored.  Whoever can change them can keep this command from its work
or let it pass, and no more: a running Authority goes by what is signed, and loads no newer key
while rotation is paused.
"""

from __future__ import annotations

from svc.authority.distribution.pause import require_rotation as require_not_paused
from svc.config import RoleSettings
from svc.errors import Fault, SvcError
from svc.interfaces.store import ITransaction
from svc.model.distribution import RotationPause, newest, retained
from svc.model.store.migration import StoreStanding
from svc.ops.store import store_place

_PAUSES = "m0061_root_epochs"
"""The migration that brought the pause."""


def require_rotation(settings: RoleSettings, *, is_issuing: bool) -> None:
    """Refuse to renew a key; blocks for the store.

    Args:
        is_issuing: Whether it is an issuing CA: then every Authority must have loaded the newest
            keys, as far as each has said.

    Raises:
        SvcError: ``rotation_paused`` or ``key_set_differs``.
        MigrationsPending: the store is to be migrated first; others likewise, by its standing.
        StoreUnavailable: the store does not answer.
    """
    place = store_place(settings)
    status = place.factory.migration_status(place.url)
    if status.standing is StoreStanding.PENDING and _PAUSES in status.ids:
        return  # no Authority that knows a pause has used it
    status.require_current()

    def look(tx: ITransaction) -> tuple[tuple[RotationPause, ...], list[str], int]:
        material, members = newest(tx.roots.key_sets()), {one.owner for one in tx.lease.members()}
        lagging = [
            one.owner
            for one in retained(tx.roots.owners())
            if material is not None and one.key_set != material.digest and one.owner in members
        ]
        revision = 0 if material is None else material.revision
        return tx.keyrings.pauses(), lagging, revision

    pauses, lagging, revision = place.look("rotation", look)
    require_not_paused(pauses, "no key is renewed")
    if is_issuing and lagging:
        raise SvcError(
            f"{', '.join(lagging)}: has not loaded the newest keys; copy keys/ of an Authority "
            f"whose REVISION is {revision} there first (svc authority keys sync root status), or, "
            "if that Authority is gone, withdraw it (svc authority keys sync root withdraw) or "
            "renew with --lagging",
            reason="key_set_differs",
            fault=Fault.PRECONDITION,
        )
