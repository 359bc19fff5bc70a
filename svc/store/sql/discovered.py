"""Scopes, publications, and what changes of resources that are in the catalog."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import NoSuchRow
from svc.interfaces.discovered import ICatalogChanges, IPublications, IScopes
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource, found_by
from svc.model.cluster.scope import DiscoveryScope, PublishedRow, ScopeLease, ScopeOrigin
from svc.store.sql.catalog import Catalog
from svc.store.sql.columns import RowColumns, RowInsert, words
from svc.store.sql.statements import Statements, marks, next_revision, parts, write_all


def _pairs(text: str) -> dict[str, str]:
    """The labels of a row; of a row with anything else there a value that no record signs."""
    try:
        found = json.loads(text)
    except ValueError:
        return {"": text}
    is_sound = isinstance(found, dict) and all(isinstance(one, str) for one in found.values())
    return found if is_sound else {"": text}


def _text(labels: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(labels.items())))


def _scope(onward_auth: str, **plain: Any) -> DiscoveryScope:
    """The scope of a row; of a row with unknown words one that no record signs."""
    try:
        modes = tuple(map(OnwardAuth, onward_auth.split()))
    except ValueError:
        return DiscoveryScope(**{**plain, "kinds": ()})
    return DiscoveryScope(onward_auth=modes, **plain)


_SCOPES = RowColumns(
    _scope,
    "scopes",
    "name, kinds, onward_auth, connectors, id_prefix, match_labels, labels, origin, revision, "
    "set_at, set_by",
    kinds=words,
    connectors=words,
    match_labels=_pairs,
    labels=_pairs,
    origin=ScopeOrigin,
)
_PUT_SCOPE = RowInsert(
    "scopes",
    "name, kinds, connectors, id_prefix, origin, revision, set_at, set_by",
    also="onward_auth, match_labels, labels",
)
_LEASES = RowColumns(ScopeLease, "scope_leases", "node_id, source, expires_at")
_ROWS = RowColumns(
    PublishedRow,
    "scope_rows",
    "node_id, source, resource_id, kind, labels, scope, refused, seen_at",
    labels=_pairs,
)


@implementer(IScopes)
@frozen
class Scopes:
    """See :class:`IScopes`."""

    _db: Statements

    def put(self, scope: DiscoveryScope) -> None:
        self.remove(scope.name)
        _PUT_SCOPE(
            self._db,
            scope,
            onward_auth=" ".join(one.value for one in scope.onward_auth),
            match_labels=_text(scope.match_labels),
            labels=_text(scope.labels),
        )

    def get(self, name: str) -> DiscoveryScope | None:
        return _SCOPES.one(self._db, "WHERE name = ?", name)

    def all(self) -> tuple[DiscoveryScope, ...]:
        return _SCOPES.all(self._db, "ORDER BY name")

    def remove(self, name: str) -> bool:
        return bool(self._db.change("DELETE FROM scopes WHERE name = ?", name))


@implementer(IPublications)
@frozen
class Publications:
    """See :class:`IPublications`."""

    _db: Statements

    def put(self, lease: ScopeLease, rows: Sequence[PublishedRow]) -> None:
        self.remove(lease.node_id, lease.source)
        self._db.change(
            "INSERT INTO scope_leases (node_id, source, expires_at) VALUES (?, ?, ?)",
            lease.node_id,
            lease.source,
            lease.expires_at,
        )
        write_all(
            self._db,
            "scope_rows (node_id, source, resource_id, kind, labels, scope, refused, seen_at)",
            [
                (
                    one.node_id,
                    one.source,
                    one.resource_id,
                    one.kind,
                    _text(one.labels),
                    one.scope,
                    one.refused,
                    one.seen_at,
                )
                for one in rows
            ],
        )

    def renew(self, lease: ScopeLease) -> bool:
        return bool(
            self._db.change(
                "UPDATE scope_leases SET expires_at = ? WHERE node_id = ? AND source = ?",
                lease.expires_at,
                lease.node_id,
                lease.source,
            )
        )

    def settle(self, rows: Sequence[PublishedRow]) -> None:
        for one in rows:
            self._db.change(
                "UPDATE scope_rows SET scope = ?, refused = ?"
                " WHERE node_id = ? AND source = ? AND resource_id = ?",
                one.scope,
                one.refused,
                one.node_id,
                one.source,
                one.resource_id,
            )

    def remove(self, node_id: str, source: str) -> None:
        # The rows go with it.
        self._db.change(
            "DELETE FROM scope_leases WHERE node_id = ? AND source = ?", node_id, source
        )

    def leases(self) -> tuple[ScopeLease, ...]:
        return _LEASES.all(self._db, "ORDER BY node_id, source")

    def rows(self) -> tuple[PublishedRow, ...]:
        return _ROWS.all(self._db, "ORDER BY resource_id, node_id, source")

    def expired(self, at: float) -> tuple[ScopeLease, ...]:
        return _LEASES.all(self._db, "WHERE expires_at <= ? ORDER BY expires_at", at)


@implementer(ICatalogChanges)
@frozen
class CatalogChanges:
    """See :class:`ICatalogChanges`."""

    _db: Statements

    def describe(
        self, resource_id: str, labels: Mapping[str, str], onward_auth: OnwardAuth | None
    ) -> Resource:
        known = Catalog(self._db).get(resource_id)
        if known is None:
            raise NoSuchRow("store: there is no such resource in the catalog")
        revision = next_revision(self._db)
        self._db.change(
            "UPDATE resources SET revision = ?, onward_auth = ? WHERE id = ?",
            revision,
            None if onward_auth is None else onward_auth.value,
            resource_id,
        )
        self._db.change("DELETE FROM resource_labels WHERE resource_id = ?", resource_id)
        given = [(resource_id, name, value) for name, value in labels.items()]
        if given:
            write_all(self._db, "resource_labels (resource_id, name, value)", given)
        return evolve(known, labels=dict(labels), onward_auth=onward_auth, revision=revision)

    def owners_before(self, ids: Collection[str]) -> Mapping[str, str | None]:
        found: dict[str, str | None] = {}
        for part in parts(ids):
            sql = (
                f"SELECT resource_id, identity FROM resource_identities"
                f" WHERE resource_id IN ({marks(len(part))})"
                f" ORDER BY retired_at IS NULL, retired_at"
            )
            for resource_id, identity in self._db.all(sql, *part):
                if found.get(resource_id, "") is not None:
                    found[resource_id] = found_by(identity)
        return found

    def departed(self, before: float, limit: int) -> tuple[str, ...]:
        sql = (
            "SELECT r.id FROM resources r"
            " JOIN resource_identities i ON i.resource_id = r.id AND i.retired_at IS NULL"
            " JOIN manual_bindings b ON b.identity = i.identity AND b.state = 'current'"
            " WHERE r.source = 'discovered' AND b.node_id IS NULL AND b.bound_at < ?"
            " ORDER BY b.bound_at LIMIT ?"
        )
        return tuple(row[0] for row in self._db.all(sql, before, limit))
