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
from svc.model.distribution import newest, retained
from svc.model.store.migration import StoreStanding
from svc.ops.store import StorePlace, store_place

_PAUSES = "m0061_root_epochs"
"""The migration that brought the pause."""


def require_rotation(settings: RoleSettings) -> None:
    """Refuse to renew a key while rotation is paused; blocks for the store.

    Raises:
        SvcError: ``rotation_paused``.
        MigrationsPending: the store is to be migrated first; others likewise, by its standing.
        StoreUnavailable: the store does not answer.
    """
    place = _place(settings)
    if place is not None:
        # In a look of its own: a row of another table that cannot be read hides no pause.
        pauses = place.look("rotation", lambda tx: tx.keyrings.pauses())
        require_not_paused(pauses, "no key is renewed")


def require_newest_keys(settings: RoleSettings) -> None:
    """Refuse to renew an issuing CA while an Authority has not loaded the newest keys.

    What each has loaded is its own word.  Blocks for the store.

    Raises:
        SvcError: ``key_set_differs``.
        MigrationsPending: as :func:`require_rotation`.
        StoreUnavailable: the store does not answer.
    """

    def look(tx: ITransaction) -> tuple[list[str], int]:
        material, members = newest(tx.roots.key_sets()), {one.owner for one in tx.lease.members()}
        lagging = [
            one.owner
            for one in retained(tx.roots.owners())
            if material is not None and one.key_set != material.digest and one.owner in members
        ]
        return lagging, 0 if material is None else material.revision

    place = _place(settings)
    lagging, revision = ([], 0) if place is None else place.look("newest keys", look)
    if lagging:
        raise SvcError(
            f"{', '.join(lagging)}: has not loaded the newest keys; copy keys/ of an Authority "
            f"whose REVISION is {revision} there first (svc authority keys sync root status), or, "
            "if that Authority is gone, withdraw it (svc authority keys sync root withdraw) or "
            "renew with --lagging",
            reason="key_set_differs",
            fault=Fault.PRECONDITION,
        )


def _place(settings: RoleSettings) -> StorePlace | None:
    """The store, which is current; None: no Authority that knows a pause has used it."""
    place = store_place(settings)
    status = place.factory.migration_status(place.url)
    if status.standing is StoreStanding.PENDING and _PAUSES in status.ids:
        return None
    status.require_current()
    return place
