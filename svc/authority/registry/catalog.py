"""The catalog, as operators change and list it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define

from svc.authority.registry.routes import Registrations
from svc.authority.state.tables import RESOURCES, SignedRows
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.kinds import ServedKind
from svc.interfaces.store import ITransaction
from svc.model.audit.events import RESOURCE_ADD, RESOURCE_CHANGE, RESOURCE_REMOVE
from svc.model.audit.record import Actor
from svc.model.audit.state import resource_entry
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.resource import Resource, Undeclared
from svc.model.ids import is_resource_id, random_id
from svc.proto.gate.v1 import admin_pb2 as pb

_LABEL = re.compile(r"[a-z0-9][a-z0-9._/-]{0,62}\Z")
_MAX_LABELS = 64
_MAX_VALUE = 256
_RESERVED = "discovered."

NOT_IN_CATALOG = "not_in_catalog"


@define
class CatalogAdmin:
    """Adds, assigns, removes and lists resources."""

    writer: StateWriter
    registrations: Registrations
    kinds: Mapping[str, ServedKind]

    async def add(self, request: pb.AddResourceRequest, actor: Actor) -> pb.AddResourceResponse:
        """Add a resource and assign it to a Connector."""
        self._check(request)
        identity = random_id(self.writer.entropy)

        def add(tx: ITransaction) -> Resource:
            node_id = self._node(tx, request.node) if request.node else None
            wanted = Resource(
                id=request.id,
                kind=request.kind,
                labels=dict(request.labels),
                assigned_to=node_id,
                identity=identity,
            )
            added = tx.catalog.add(wanted, self.writer.now())
            labels = [f"{key}={value}" for key, value in sorted(request.labels.items())]
            self.writer.append(
                tx,
                RESOURCE_ADD,
                actor,
                resource_id=added.id,
                resource_kind=added.kind,
                catalog_version=added.revision,
                details={
                    "labels": labels,
                    "connector_id": node_id,
                    "resource_identity": identity,
                    "assignment_revision": added.assignment_revision,
                },
                state=[RESOURCES.now(tx, added.id)],
            )
            return added

        added = await self.writer.change("add a resource", add)
        return pb.AddResourceResponse(catalog_version=added.revision)

    async def assign(
        self, request: pb.AssignResourceRequest, actor: Actor
    ) -> pb.AssignResourceResponse:
        """Assign a resource to another Connector, or to none.

        Its sessions over the one before end; so does all that one serves where
        it goes on offering what is another's.
        """

        def assign(tx: ITransaction) -> tuple[Resource, Resource]:
            node_id = self._node(tx, request.node) if request.node else None
            before = self._known(tx, request.id)
            now = tx.catalog.assign(before.id, node_id, self.writer.now())
            if now != before:
                self._record_change(tx, actor, before, now)
            return before, now

        before, now = await self.writer.change("assign a resource", assign)
        return pb.AssignResourceResponse(
            catalog_version=now.revision,
            assignment_revision=now.assignment_revision,
            changed=now != before,
        )

    async def move(
        self, request: pb.MoveResourcesRequest, actor: Actor
    ) -> pb.MoveResourcesResponse:
        """Assign all resources of one node, revoked or not, to another Connector: all or none.

        What follows for sessions is as with :meth:`assign`.
        """

        def move(tx: ITransaction) -> tuple[Node, Node, list[Resource], int]:
            rows = self.writer.rows(tx)
            target = rows.node(self._node(tx, request.to))
            assert target is not None, "it was found right before"
            source = self._source(tx, rows, request, target)
            owned = [one.id for one in tx.catalog.all() if one.assigned_to == source.id]
            known = [one for one in map(rows.resource, owned) if one is not None]
            for before in known:
                now = tx.catalog.assign(before.id, target.id, self.writer.now())
                self._record_change(tx, actor, before, now)
            return source, target, known, tx.catalog.revision()

        source, target, moved, revision = await self.writer.change("move resources", move)
        return pb.MoveResourcesResponse(
            ids=[one.id for one in moved],
            to=_moved_node(target),
            catalog_version=revision,
            **{"from": _moved_node(source)},
        )

    def _source(
        self, tx: ITransaction, rows: SignedRows, request: pb.MoveResourcesRequest, target: Node
    ) -> Node:
        """The Connector of that id or name, revoked or not, that is not *target*.

        Raises:
            SvcError: ``unknown_node``, ``same_node``, or ``ambiguous_node`` where a name is not
                enough.
        """
        word = getattr(request, "from")
        named = [
            one for one in tx.nodes.all() if word in (one.id, one.name) and one.role == "connector"
        ]
        others = [one for one in named if one.id != target.id]
        if named and not others:
            raise SvcError(
                f"node {word}: --from and --to are the same node, {target.id}",
                reason="same_node",
                fault=Fault.INVALID,
            )
        if len(others) > 1:
            which = ", ".join(f"{one.id} ({one.state.value})" for one in others)
            raise SvcError(
                f"node {word}: several Connectors have had this name; give one of these ids: "
                f"{which}",
                reason="ambiguous_node",
                fault=Fault.PRECONDITION,
            )
        source = rows.node(others[0].id) if others else None
        if source is None:
            raise SvcError(
                f"node {word}: no Connector has that id or name; see `svc authority nodes list`",
                reason="unknown_node",
                fault=Fault.NOT_FOUND,
            )
        return source

    async def remove(
        self, request: pb.RemoveResourceRequest, actor: Actor
    ) -> pb.RemoveResourceResponse:
        """Remove a resource; its identity and its sessions end with it."""

        def remove(tx: ITransaction) -> int:
            known = self._known(tx, request.id)
            tx.catalog.remove(known.id, self.writer.now())
            revision = tx.catalog.revision()
            self.writer.append(
                tx,
                RESOURCE_REMOVE,
                actor,
                resource_id=known.id,
                resource_kind=known.kind,
                catalog_version=revision,
                details={"resource_identity": known.identity, "connector_id": known.assigned_to},
                state=[RESOURCES.now(tx, known.id)],
            )
            return revision

        revision = await self.writer.change("remove a resource", remove)
        return pb.RemoveResourceResponse(catalog_version=revision)

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

        def look(tx: ITransaction) -> tuple[tuple[Resource, ...], tuple[Undeclared, ...]]:
            return tx.catalog.all(), tx.catalog.undeclared()

        known, undeclared = await self.writer.read("list resources", look)
        rows = [self._row(one) for one in known]
        rows += [self._offered(one) for one in undeclared if one.id not in {r.id for r in known}]
        return pb.ListResourcesResponse(resources=rows)

    def _record_change(
        self, tx: ITransaction, actor: Actor, before: Resource, now: Resource
    ) -> None:
        digest = resource_entry(before).digest
        assert digest is not None, "the row is there"
        self.writer.append(
            tx,
            RESOURCE_CHANGE,
            actor,
            resource_id=now.id,
            resource_kind=now.kind,
            catalog_version=now.revision,
            details={
                "change": ["assigned_to"],
                "connector_id": now.assigned_to,
                "resource_identity": now.identity,
                "assignment_revision": now.assignment_revision,
                "previous_digest": digest.hex(),
            },
            state=[RESOURCES.now(tx, now.id)],
        )

    def _known(self, tx: ITransaction, resource_id: str) -> Resource:
        known = self.writer.rows(tx).resource(resource_id)
        if known is None:
            raise SvcError(
                f"resource {resource_id}: not in the catalog; see `svc authority resources list`",
                reason="unknown_resource",
                fault=Fault.NOT_FOUND,
            )
        return known

    def _check(self, request: pb.AddResourceRequest) -> None:
        if not is_resource_id(request.id):
            raise Malformed("resource id: must be a DNS label: lower-case letters, digits and -")
        if request.kind not in self.kinds:
            raise Malformed(
                f"kind: must be one of {', '.join(sorted(self.kinds))} (enabled by "
                "[plugins].kinds in the configuration)"
            )
        if len(request.labels) > _MAX_LABELS:
            raise Malformed(f"labels: at most {_MAX_LABELS}")
        for key, value in request.labels.items():
            if _LABEL.match(key) is None or key.startswith(_RESERVED):
                raise Malformed("label: lower-case letters, digits and . _ / -, at most 63")
            if len(value) > _MAX_VALUE:
                raise Malformed(f"label {key}: its value is longer than {_MAX_VALUE}")

    def _node(self, tx: ITransaction, word: str) -> str:
        known = self.writer.rows(tx).node_called(word)
        if known is None or known.state is NodeState.REVOKED or known.role != "connector":
            raise SvcError(
                f"node {word}: no active Connector has that id or name; see `svc authority "
                "nodes list`",
                reason="unknown_node",
                fault=Fault.NOT_FOUND,
            )
        return known.id

    def _row(self, one: Resource) -> pb.ResourceRow:
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
        )

    def _state(self, one: Resource) -> str:
        if self.registrations.is_served(one.assigned):
            return "served"
        if one.assigned_to is None:
            return "unassigned"
        return "departed" if one.last_served_at is not None else "unserved"

    def _offered(self, one: Undeclared) -> pb.ResourceRow:
        return pb.ResourceRow(
            id=one.id,
            kind=one.kind,
            node_id=one.node_id,
            node_name=self._name(one.node_id),
            state=NOT_IN_CATALOG,
        )

    def _node_state(self, node_id: str | None) -> str:
        known = self.writer.cache.state.nodes.get(node_id or "")
        return "" if known is None else known.state.value

    def _name(self, node_id: str | None) -> str:
        known = self.writer.cache.state.nodes.get(node_id or "")
        return "" if known is None else known.name


def _moved_node(one: Node) -> pb.MovedNode:
    return pb.MovedNode(id=one.id, name=one.name, state=one.state.value)
