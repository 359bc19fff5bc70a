"""Resources, their labels and their identities; each change counts one revision.

Who serves a resource is in its bindings (``svc.store.sql.bindings``); a change
of both is one of this module's.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.facets import ICatalog
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource, ResourceSource, Undeclared
from svc.store.sql.bindings import bind, unbind
from svc.store.sql.columns import RowColumns
from svc.store.sql.inventories import count_change
from svc.store.sql.statements import Statements, next_revision

_RESOURCES = RowColumns(
    Resource,
    "resources r"
    " JOIN resource_identities i ON i.resource_id = r.id AND i.retired_at IS NULL"
    " LEFT JOIN manual_bindings b ON b.identity = i.identity AND b.state = 'current'",
    "r.id, r.kind, b.node_id AS assigned_to, r.source, r.revision, r.last_served_at, "
    "r.last_served_by, r.onward_auth, i.identity, "
    "coalesce(b.assignment_revision,0) AS assignment_revision",
    source=ResourceSource,
    onward_auth=OnwardAuth,
)
_UNDECLARED = RowColumns(
    Undeclared, "undeclared_resources", "resource_id AS id, kind, node_id, seen_at"
)


@implementer(ICatalog)
@frozen
class Catalog:
    """See :class:`ICatalog`."""

    _db: Statements

    def add(self, resource: Resource, at: float) -> Resource:
        self._require_node(resource.assigned_to)
        if self._db.one("SELECT 1 FROM resources WHERE id = ?", resource.id) is not None:
            raise AlreadyExists(f"resource {resource.id}: already exists")
        identified = self._db.change(
            "INSERT INTO resource_identities (identity, resource_id, kind, first_seen)"
            " VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            resource.identity,
            resource.id,
            resource.kind,
            at,
        )
        if not identified:
            raise AlreadyExists(
                f"resource {resource.id}: another resource already had this identity"
            )
        added = evolve(resource, revision=next_revision(self._db), assignment_revision=0)
        self._insert(added, at)
        if added.assigned_to is not None:
            bind(self._db, added, added.assigned_to, added.revision, at)
            count_change(self._db, added.assigned_to, at)
            added = evolve(added, assignment_revision=1)
        return added

    def _insert(self, added: Resource, at: float) -> None:
        self._db.change(
            "INSERT INTO resources (id, kind, source, revision, added_at,"
            " last_served_at, last_served_by, onward_auth) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            added.id,
            added.kind,
            added.source.value,
            added.revision,
            at,
            added.last_served_at,
            added.last_served_by,
            None if added.onward_auth is None else added.onward_auth.value,
        )
        for name, value in added.labels.items():
            self._db.change(
                "INSERT INTO resource_labels (resource_id, name, value) VALUES (?, ?, ?)",
                added.id,
                name,
                value,
            )

    def get(self, resource_id: str) -> Resource | None:
        found = _RESOURCES.one(self._db, "WHERE r.id = ?", resource_id)
        if found is None:
            return None
        labels = self._db.all(
            "SELECT name, value FROM resource_labels WHERE resource_id = ? ORDER BY name",
            resource_id,
        )
        return evolve(found, labels=dict(labels))

    def all(self) -> tuple[Resource, ...]:
        labels: dict[str, dict[str, str]] = {}
        for resource_id, name, value in self._db.all(
            "SELECT resource_id, name, value FROM resource_labels ORDER BY resource_id, name"
        ):
            labels.setdefault(resource_id, {})[name] = value
        found = _RESOURCES.all(self._db, "ORDER BY r.id")
        return tuple(evolve(one, labels=labels.get(one.id, {})) for one in found)

    def remove(self, resource_id: str, at: float) -> bool:
        known = self.get(resource_id)
        if known is None:
            return False
        unbind(self._db, known)
        count_change(self._db, known.assigned_to, at)
        self._db.change(
            "UPDATE resource_identities SET retired_at = ? WHERE identity = ?", at, known.identity
        )
        self._db.change("DELETE FROM resource_labels WHERE resource_id = ?", resource_id)
        self._db.change("DELETE FROM resources WHERE id = ?", resource_id)
        next_revision(self._db)
        return True

    def assign(self, resource_id: str, node_id: str | None, at: float) -> Resource:
        self._require_node(node_id)
        before = self.get(resource_id)
        if before is None:
            raise NoSuchRow("store: there is no such resource in the catalog")
        if before.assigned_to == node_id:
            return before
        revision = next_revision(self._db)
        self._db.change("UPDATE resources SET revision = ? WHERE id = ?", revision, resource_id)
        unbind(self._db, before)
        bind(self._db, before, node_id, revision, at)
        for changed in (before.assigned_to, node_id):
            count_change(self._db, changed, at)
        return evolve(
            before,
            assigned_to=node_id,
            revision=revision,
            assignment_revision=before.assignment_revision + 1,
        )

    def registered(
        self,
        node_id: str,
        served: Collection[str],
        undeclared: Collection[Undeclared],
        at: float,
    ) -> None:
        for resource_id in served:
            self._db.change(
                "UPDATE resources SET last_served_at = ?, last_served_by = ? WHERE id = ?",
                at,
                node_id,
                resource_id,
            )
        self._db.change("DELETE FROM undeclared_resources WHERE node_id = ?", node_id)
        for each in undeclared:
            self._db.change(
                "INSERT INTO undeclared_resources (node_id, resource_id, kind, seen_at)"
                " VALUES (?, ?, ?, ?)",
                node_id,
                each.id,
                each.kind,
                at,
            )

    def undeclared(self) -> tuple[Undeclared, ...]:
        return _UNDECLARED.all(self._db, "ORDER BY resource_id, node_id")

    def revision(self) -> int:
        row = self._db.one("SELECT value FROM revisions WHERE name = 'catalog'")
        return 0 if row is None else int(row[0])

    def _require_node(self, node_id: str | None) -> None:
        if node_id is not None:
            row = self._db.one("SELECT 1 FROM nodes WHERE id = ?", node_id)
            if row is None:
                raise NoSuchRow("store: there is no such node")
