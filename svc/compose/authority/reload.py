"""What of an Authority a reload of its configuration changes, and its record in the audit log."""

from __future__ import annotations

from svc.authority.limits import AskRates
from svc.authority.state.recorder import node, operator
from svc.compose.authority.parts import Parts
from svc.compose.budgets import AT_AUTHORITY, change_authority_rates
from svc.compose.reload.keys import ReloadableKeys
from svc.interfaces.store import ITransaction
from svc.model.audit.events import CONFIG_RELOAD
from svc.model.canonical import Json


def reloads_of_authority(p: Parts, rates: AskRates, reloads: ReloadableKeys) -> None:
    """Add this Authority's keys, and have reloads of this process recorded while it leads."""
    me = p.identity.principal.id

    async def record(uid: int | None, keys: tuple[str, ...], digest: str) -> None:
        if not p.serving.is_on:
            return  # a standby writes nothing; the reload is in its log
        actor = node(me) if uid is None else operator(uid)
        details: dict[str, Json] = {"keys": list(keys), "config_sha256": digest}
        if uid is not None:
            details["local_uid"] = uid

        def append(tx: ITransaction) -> None:
            p.recorder.append(tx, CONFIG_RELOAD, actor, node_id=me, details=details)

        await p.store.run("configuration reloaded", append)

    reloads.recorded_by(record)
    reloads.on(*AT_AUTHORITY, apply=lambda changed: change_authority_rates(rates, changed.limits))
