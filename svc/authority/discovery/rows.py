"""Brings the catalog's discovered resources in line with what was settled, each change recorded."""

from __future__ import annotations

from attrs import frozen

from svc.authority.discovery.settlement import WantedResource
from svc.authority.resource_changes import onward_detail, record_change
from svc.authority.state.tables import RESOURCES
from svc.authority.state.writer import StateWriter
from svc.interfaces.store import ITransaction
from svc.model.audit.events import (
    RESOURCE_ADD,
    RESOURCE_DEPART,
    RESOURCE_REMOVE,
)
from svc.model.audit.record import Actor
from svc.model.cluster.resource import Resource, ResourceSource, found_identity
from svc.model.ids import random_id


@frozen
class DiscoveredRows:
    """Adds, changes, returns and lets go of discovered resources, in the caller's transaction."""

    writer: StateWriter

    def bring(
        self, tx: ITransaction, actor: Actor, known: Resource | None, wanted: WantedResource
    ) -> bool:
        """Make the catalog hold *wanted*; whether anything changed."""
        if known is not None and not wanted.is_same_as(known):
            self.remove(tx, actor, known, "replaced")
            known = None
        if known is None:
            self._add(tx, actor, wanted)
            return True
        now, change = known, list[str]()
        if dict(known.labels) != dict(wanted.labels):
            change.append("labels")
        if known.onward_auth is not wanted.onward_auth:
            change.append("onward_auth")
        if change:
            now = tx.catalog_changes.describe(known.id, wanted.labels, wanted.onward_auth)
        if known.assigned_to != wanted.node_id:
            change.append("assigned_to")
            now = tx.catalog.assign(known.id, wanted.node_id, self.writer.now())
        if change:
            labels = [f"{name}={value}" for name, value in sorted(now.labels.items())]
            record_change(
                self.writer,
                tx,
                actor,
                before=known,
                now=now,
                change=change,
                more={"labels": labels, "scope": wanted.scope},
            )
        return bool(change)

    def depart(self, tx: ITransaction, actor: Actor, known: Resource, reason: str) -> bool:
        """Let nobody serve it any more; whether anybody might until now.

        It stays in the catalog for a while: who finds it again brings the same resource back.
        """
        if known.assigned_to is None:
            return False
        now = tx.catalog.assign(known.id, None, self.writer.now())
        self.writer.append(
            tx,
            RESOURCE_DEPART,
            actor,
            resource_id=now.id,
            resource_kind=now.kind,
            catalog_version=now.revision,
            reason=reason,
            details={
                "connector_id": known.assigned_to,
                "resource_identity": now.identity,
                "assignment_revision": now.assignment_revision,
            },
            state=[RESOURCES.now(tx, now.id)],
        )
        return True

    def remove(self, tx: ITransaction, actor: Actor, known: Resource, reason: str) -> None:
        """Take it out of the catalog; its identity ends."""
        tx.catalog.remove(known.id, self.writer.now())
        self.writer.append(
            tx,
            RESOURCE_REMOVE,
            actor,
            resource_id=known.id,
            resource_kind=known.kind,
            catalog_version=tx.catalog.revision(),
            reason=reason,
            details={"resource_identity": known.identity, "connector_id": known.assigned_to},
            state=[RESOURCES.now(tx, known.id)],
        )

    def _add(self, tx: ITransaction, actor: Actor, wanted: WantedResource) -> None:
        added = tx.catalog.add(
            Resource(
                id=wanted.id,
                kind=wanted.kind,
                labels=wanted.labels,
                assigned_to=wanted.node_id,
                source=ResourceSource.DISCOVERED,
                onward_auth=wanted.onward_auth,
                identity=found_identity(wanted.node_id, random_id(self.writer.entropy)),
            ),
            self.writer.now(),
        )
        self.writer.append(
            tx,
            RESOURCE_ADD,
            actor,
            resource_id=added.id,
            resource_kind=added.kind,
            catalog_version=added.revision,
            details={
                "labels": [f"{name}={value}" for name, value in sorted(added.labels.items())],
                "connector_id": added.assigned_to,
                "resource_identity": added.identity,
                "assignment_revision": added.assignment_revision,
                "scope": wanted.scope,
                **onward_detail(added),
            },
            state=[RESOURCES.now(tx, added.id)],
        )
