"""Resources, their labels and their assignment; each change counts one revision."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.facets import ICatalog
from svc.model.resource import Resource, ResourceSource, Undeclared
from svc.store.sql.statements import Row, Statements, next_revision

_SELECT = (
    "SELECT id, kind, assigned_to, source, revision, last_served_at, last_served_by FROM resources "
)


def _resource(row: Row, labels: Mapping[str, str]) -> Resource:
    kind, assigned_to, source, revision, served_at, served_by = row[1:]
    return Resource(
        row[0], kind, labels, assigned_to, ResourceSource(source), revision, served_at, served_by
    )


@implementer(ICatalog)
@frozen
class Catalog:
    """See :class:`ICatalog`."""

    _db: Statements

    def add(self, resource: Resource, at: float) -> Resource:
        """See :class:`ICatalog`."""
        self._require_node(resource.assigned_to)
        if self._db.one("SELECT 1 FROM resources WHERE id = ?", resource.id) is not None:
            raise AlreadyExists("store: a resource of this id is in the catalog")
        revision = next_revision(self._db)
        self._db.change(
            "INSERT INTO resources (id, kind, assigned_to, source, revision, added_at,"
            " last_served_at, last_served_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            resource.id,
            resource.kind,
            resource.assigned_to,
            resource.source.value,
            revision,
            at,
            resource.last_served_at,
            resource.last_served_by,
        )
        for name, value in resource.labels.items():
            self._db.change(
                "INSERT INTO resource_labels (resource_id, name, value) VALUES (?, ?, ?)",
                resource.id,
                name,
                value,
            )
        return evolve(resource, revision=revision)

    def get(self, resource_id: str) -> Resource | None:
        """See :class:`ICatalog`."""
        row = self._db.one(_SELECT + "WHERE id = ?", resource_id)
        if row is None:
            return None
        labels = self._db.all(
            "SELECT name, value FROM resource_labels WHERE resource_id = ? ORDER BY name",
            resource_id,
        )
        return _resource(row, {label[0]: label[1] for label in labels})

    def all(self) -> tuple[Resource, ...]:
        """See :class:`ICatalog`."""
        labels: dict[str, dict[str, str]] = {}
        for resource_id, name, value in self._db.all(
            "SELECT resource_id, name, value FROM resource_labels ORDER BY resource_id, name"
        ):
            labels.setdefault(resource_id, {})[name] = value
        rows = self._db.all(_SELECT + "ORDER BY id")
        return tuple(_resource(row, labels.get(row[0], {})) for row in rows)

    def remove(self, resource_id: str) -> bool:
        """See :class:`ICatalog`."""
        self._db.change("DELETE FROM resource_labels WHERE resource_id = ?", resource_id)
        removed = bool(self._db.change("DELETE FROM resources WHERE id = ?", resource_id))
        if removed:
            next_revision(self._db)
        return removed

    def assign(self, resource_id: str, node_id: str | None) -> Resource:
        """See :class:`ICatalog`."""
        self._require_node(node_id)
        before = self.get(resource_id)
        if before is None:
            raise NoSuchRow("store: there is no such resource in the catalog")
        revision = next_revision(self._db)
        self._db.change(
            "UPDATE resources SET assigned_to = ?, revision = ? WHERE id = ?",
            node_id,
            revision,
            resource_id,
        )
        return evolve(before, assigned_to=node_id, revision=revision)

    def registered(
        self,
        node_id: str,
        served: Collection[str],
        undeclared: Collection[Undeclared],
        at: float,
    ) -> None:
        """See :class:`ICatalog`."""
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
        """See :class:`ICatalog`."""
        rows = self._db.all(
            "SELECT resource_id, kind, node_id, seen_at FROM undeclared_resources"
            " ORDER BY resource_id, node_id"
        )
        return tuple(Undeclared(*row) for row in rows)

    def revision(self) -> int:
        """See :class:`ICatalog`."""
        row = self._db.one("SELECT value FROM revisions WHERE name = 'catalog'")
        return 0 if row is None else int(row[0])

    def _require_node(self, node_id: str | None) -> None:
        if node_id is not None:
            row = self._db.one("SELECT 1 FROM nodes WHERE id = ?", node_id)
            if row is None:
                raise NoSuchRow("store: there is no such node")
