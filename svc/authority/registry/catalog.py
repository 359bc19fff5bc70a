"""The catalog, as operators change and list it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from attrs import define

from svc.authority.registry.routes import Registrations
from svc.authority.resource_changes import record_change
from svc.authority.state.tables import RESOURCES, SignedRows
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.kinds import ServedKind
from svc.interfaces.store import ITransaction
from svc.model.audit.events import RESOURCE_ADD, RESOURCE_REMOVE
from svc.model.audit.record import Actor
from svc.model.cluster.labels import check_labels
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.onward import NEEDS_ONWARD_AUTH, OnwardAuth, read_onward_auth
from svc.model.cluster.resource import Resource
from svc.model.cluster.scope import DECLARED
from svc.model.ids import is_resource_id, random_id
from svc.proto.gate.v1 import admin_pb2 as pb


@define
class CatalogAdmin:
    """Adds, assigns, removes and lists resources.

    Attributes:
        scope_of: The scope that admits a discovered resource; empty: none, or not known.
        settle: Settles again what Connectors publish under an id, of which an operator changed
            something.
    """

    writer: StateWriter
    registrations: Registrations
    kinds: Mapping[str, ServedKind]
    scope_of: Callable[[Resource], str]
    settle: Callable[[str], Awaitable[object]]

    async def add(self, request: pb.AddResourceRequest, actor: Actor) -> pb.AddResourceResponse:
        """Add a resource and assign it to a Connector."""
        self._check(request)
        mode = read_onward_auth(request.onward_auth) if request.onward_auth else None
        identity = random_id(self.writer.entropy)

        def add(tx: ITransaction) -> Resource:
            node_id = self._node(tx, request.node) if request.node else None
            found = self.writer.rows(tx).resource(request.id)
            if found is not None and found.is_discovered:
                # An operator's word stands above what a Connector found.
                self._remove(tx, found, actor, DECLARED)
            wanted = Resource(
                id=request.id,
                kind=request.kind,
                labels=dict(request.labels),
                assigned_to=node_id,
                onward_auth=mode,
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
                    **({} if mode is None else {"onward_auth": mode.value}),
                },
                state=[RESOURCES.now(tx, added.id)],
            )
            return added

        added = await self.writer.change("add a resource", add)
        await self.settle(added.id)
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
            _require_declared(before)
            now = tx.catalog.assign(before.id, node_id, self.writer.now())
            if now != before:
                record_change(
                    self.writer, tx, actor, before=before, now=now, change=["assigned_to"]
                )
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
            found = (one for one in map(rows.resource, owned) if one is not None)
            # What it found, the other one finds by itself.
            known = [one for one in found if not one.is_discovered]
            for before in known:
                now = tx.catalog.assign(before.id, target.id, self.writer.now())
                record_change(
                    self.writer, tx, actor, before=before, now=now, change=["assigned_to"]
                )
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
            if known.assigned_to is not None:
                _require_declared(known)
            return self._remove(tx, known, actor)

        revision = await self.writer.change("remove a resource", remove)
        await self.settle(request.id)
        return pb.RemoveResourceResponse(catalog_version=revision)

    def _remove(
        self, tx: ITransaction, known: Resource, actor: Actor, reason: str | None = None
    ) -> int:
        tx.catalog.remove(known.id, self.writer.now())
        revision = tx.catalog.revision()
        self.writer.append(
            tx,
            RESOURCE_REMOVE,
            actor,
            resource_id=known.id,
            resource_kind=known.kind,
            catalog_version=revision,
            reason=reason,
            details={"resource_identity": known.identity, "connector_id": known.assigned_to},
            state=[RESOURCES.now(tx, known.id)],
        )
        return revision

    async def set(self, request: pb.SetResourceRequest, actor: Actor) -> pb.SetResourceResponse:
        """Choose how the target of a resource is signed on to."""
        mode = read_onward_auth(request.onward_auth)

        def choose(tx: ITransaction) -> tuple[Resource, Resource]:
            before = self._known(tx, request.id)
            _require_mode_needed(before.id, before.kind)
            self._require_in_scope(tx, before, mode)
            if before.onward_auth is mode:
                return before, before
            now = tx.catalog_changes.describe(before.id, before.labels, mode)
            record_change(self.writer, tx, actor, before=before, now=now, change=["onward_auth"])
            return before, now

        before, now = await self.writer.change("choose an onward mode", choose)
        await self.settle(now.id)
        return pb.SetResourceResponse(catalog_version=now.revision, changed=now != before)

    def _require_in_scope(self, tx: ITransaction, known: Resource, mode: OnwardAuth) -> None:
        """Return if a discovered resource may have this mode: its scope has to allow it."""
        name = self.scope_of(known) if known.is_discovered else ""
        scope = self.writer.rows(tx).scope(name) if name else None
        if scope is not None and mode not in scope.onward_auth:
            allowed = ", ".join(one.value for one in scope.onward_auth) or "none"
            raise Malformed(f"onward_auth: its scope {scope.name} allows only {allowed}")

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
        check_labels(request.labels)
        if request.onward_auth:
            _require_mode_needed(request.id, request.kind)

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


def _moved_node(one: Node) -> pb.MovedNode:
    return pb.MovedNode(id=one.id, name=one.name, state=one.state.value)


def _require_declared(one: Resource) -> None:
    """Return if a resource is an operator's to assign and to remove.

    Raises:
        SvcError: ``resource_discovered``.
    """
    if one.is_discovered:
        raise SvcError(
            f"resource {one.id}: a Connector found it; change its scope (`svc authority scopes`) "
            "or its source, or declare it yourself with `svc authority resources add`",
            reason="resource_discovered",
            fault=Fault.PRECONDITION,
        )


def _require_mode_needed(resource_id: str, kind: str) -> None:
    if kind not in NEEDS_ONWARD_AUTH:
        raise Malformed(
            f"resource {resource_id}: onward_auth is for the kinds "
            f"{', '.join(sorted(NEEDS_ONWARD_AUTH))}; the kind {kind} has none"
        )
