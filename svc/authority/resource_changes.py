"""The record of a change of a resource, whoever makes it: an operator, or what was discovered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svc.authority.state.tables import RESOURCES
from svc.authority.state.writer import StateWriter
from svc.interfaces.store import ITransaction
from svc.model.audit.events import RESOURCE_CHANGE
from svc.model.audit.record import Actor
from svc.model.audit.rows.catalog import resource_entry
from svc.model.canonical import Json
from svc.model.cluster.resource import Resource


def record_change(
    writer: StateWriter,
    tx: ITransaction,
    actor: Actor,
    *,
    before: Resource,
    now: Resource,
    change: Sequence[str],
    more: Mapping[str, Json] | None = None,
) -> None:
    """Record that the row *before* is *now*, in the transaction that changed it.

    Args:
        change: Names of the fields that changed.
        more: Details that only this sort of change has.
    """
    digest = resource_entry(before).digest
    assert digest is not None, "the row is there"
    writer.append(
        tx,
        RESOURCE_CHANGE,
        actor,
        resource_id=now.id,
        resource_kind=now.kind,
        catalog_version=now.revision,
        details={
            "change": list(change),
            "connector_id": now.assigned_to,
            "resource_identity": now.identity,
            "assignment_revision": now.assignment_revision,
            "previous_digest": digest.hex(),
            **onward_detail(now),
            **(more or {}),
        },
        state=[RESOURCES.now(tx, now.id)],
    )


def onward_detail(one: Resource) -> dict[str, str]:
    """How its Connector signs on at the target, as a record names it; nothing where none is set."""
    return {} if one.onward_auth is None else {"onward_auth": one.onward_auth.value}
