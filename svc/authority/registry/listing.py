"""The catalog as operators list it: each resource with its state, and what Connectors offer."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.registry.coverage import Coverage, CoverageLook
from svc.authority.registry.peers import PeerProxies
from svc.authority.state.writer import StateWriter
from svc.interfaces.store import ITransaction
from svc.model.audit.record import Actor
from svc.model.cluster.labels import as_discovered
from svc.model.cluster.registration import GATE_NOT_OFFERED
from svc.model.cluster.resource import Resource, ResourceSource, Undeclared
from svc.model.cluster.scope import MODE_REQUIRED, PublishedRow
from svc.model.cluster.unserved import NOT_IN_CATALOG, REGISTERING
from svc.proto.gate.v1 import admin_pb2 as pb


@define
class CatalogListing:
    """Lists resources and their assignments.

    Attributes:
        peers: Knows who serves what, and through which Proxies.
        scope_of: The scope that admits a discovered resource; empty: none, or not known.
    """

    writer: StateWriter
    peers: PeerProxies
    scope_of: Callable[[Resource], str]

    async def list_bindings(
        self, request: pb.ListBindingsRequest, actor: Actor
    ) -> pb.ListBindingsResponse:
        """Every assignment of resources with this id, including removed ones."""
        found = await self.writer.read("list bindings", lambda tx: tx.bindings.of(request.id))
        rows = [
            pb.BindingRow(
                identity=one.identity,
                node_id=one.node_id or "",
                node_name=self._name(one.node_id),
                revision=one.revision,
                assignment_revision=one.assignment_revision,
                current=one.is_current,
                bound_at=int(one.bound_at),
            )
            for one in found
        ]
        return pb.ListBindingsResponse(bindings=rows)

    async def list_resources(
        self, request: pb.ListResourcesRequest, actor: Actor
    ) -> pb.ListResourcesResponse:
        """The catalog with each resource's state, and what Connectors offer in addition."""

        def read(
            tx: ITransaction,
        ) -> tuple[tuple[Resource, ...], tuple[Undeclared, ...], tuple[PublishedRow, ...]]:
            return tx.catalog.all(), tx.catalog.undeclared(), tx.publications.rows()

        known, undeclared, published = await self.writer.read("list resources", read)
        ids = {one.id for one in known}
        offered = {(one.id, one.node_id) for one in undeclared}
        look = CoverageLook(self.peers, self.writer.cache.state, offered)
        rows = [self._row(one, look.of(one)) for one in known]
        rows += [self._published(one) for one in published if one.resource_id not in ids]
        told = ids | {one.resource_id for one in published}
        rows += [self._offered(one) for one in undeclared if one.id not in told]
        return pb.ListResourcesResponse(resources=rows)

    def _row(self, one: Resource, coverage: Coverage) -> pb.ResourceRow:
        return pb.ResourceRow(
            id=one.id,
            kind=one.kind,
            labels=dict(one.labels),
            node_id=one.assigned_to or "",
            node_name=self._name(one.assigned_to),
            state=self._state(one),
            revision=one.revision,
            source=one.source.value,
            identity=one.identity,
            assignment_revision=one.assignment_revision,
            node_state=self._node_state(one.assigned_to),
            onward_auth="" if one.onward_auth is None else one.onward_auth.value,
            scope=self.scope_of(one) if one.is_discovered else "",
            problem=coverage.problem,
            problem_reason=coverage.reason,
            proxies=map(self._name, coverage.proxies),
            missing=map(self._name, coverage.missing),
        )

    def _state(self, one: Resource) -> str:
        if self.peers.registrations.is_served(one.assigned):
            return "served"
        if self.peers.registrations.is_without_gate(one.id, one.assigned_to):
            return GATE_NOT_OFFERED
        if one.assigned_to is None:
            return "departed" if one.is_discovered else "unassigned"
        if one.lacks_mode:
            return MODE_REQUIRED
        return "departed" if one.last_served_at is not None else "unserved"

    def _offered(self, one: Undeclared) -> pb.ResourceRow:
        return pb.ResourceRow(
            id=one.id,
            kind=one.kind,
            node_id=one.node_id,
            node_name=self._name(one.node_id),
            state=NOT_IN_CATALOG,
            problem=NOT_IN_CATALOG,
        )

    def _published(self, one: PublishedRow) -> pb.ResourceRow:
        return pb.ResourceRow(
            id=one.resource_id,
            kind=one.kind,
            labels=as_discovered(one.labels),
            node_id=one.node_id,
            node_name=self._name(one.node_id),
            state=NOT_IN_CATALOG,
            source=ResourceSource.DISCOVERED.value,
            scope=one.scope,
            refused=one.refused,
            problem=one.refused or REGISTERING,
        )

    def _node_state(self, node_id: str | None) -> str:
        known = self.writer.cache.state.nodes.get(node_id or "")
        return "" if known is None else known.state.value

    def _name(self, node_id: str | None) -> str:
        known = self.writer.cache.state.nodes.get(node_id or "")
        return "" if known is None else known.name
