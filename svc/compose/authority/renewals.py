"""Renews what an Authority has that ends: its certificate, and the keys that it signs with."""

from __future__ import annotations

from svc.audit.checkpoint.signer import HeadWriter
from svc.compose.authority.keys import signing_key_rotation
from svc.compose.authority.license import show_license
from svc.compose.authority.parts import LeafRenewal, Parts
from svc.compose.authority.shared import SharedServices
from svc.compose.telemetry import identity_meters
from svc.pki.renewal import RenewalLoop
from svc.runtime.services import PeriodicTask


def renewals(
    p: Parts, rooms: SharedServices, heads: HeadWriter
) -> tuple[RenewalLoop, PeriodicTask]:
    """What renews our own leaf, and what follows the keys that we sign with.

    Blocks for the license: how long that is valid is told here, too.
    """
    show_license(p.settings, p.metrics)
    own = LeafRenewal(
        identity=p.identity, issuer=p.issuer, serving=p.serving, recorded=rooms.renewals.renew
    )
    leaf = RenewalLoop(
        p.identity,
        p.identity_store,
        own.renew,
        clock=p.runtime.reactor,
        now=p.runtime.now,
        entropy=p.runtime.entropy,
        on_outcome=identity_meters(p.metrics, "authority", p.identity.seconds_left),
    )
    every = p.settings.snapshot.reload_secs
    keys = signing_key_rotation(p, rooms.state_cache, heads, rooms.keys.stale)

    async def follow() -> None:
        await keys.follow()
        await rooms.identities.token_keys.follow()
        await rooms.recordings.keys.follow()

    return leaf, PeriodicTask(
        clock=p.runtime.reactor, interval=every, call=follow, what="keys that end"
    )
