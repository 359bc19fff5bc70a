"""The catalog, as operators change and list it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from attrs import define

from svc.authority.facts import Knowledge
from svc.authority.records import Recorder
from svc.authority.registrations import Registrations
from svc.authority.signed_rows import resource_now
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.kinds import IResourceKind
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit import Actor
from svc.model.events import RESOURCE_ADD
from svc.model.ids import is_resource_id
from svc.model.node import NodeState
from svc.model.resource import Resource, Undeclared
from svc.proto.gate.v1 import admin_pb2 as pb

_LABEL = re.compile(r"[a-z0-9][a-z0-9._/-]{0,62}\Z")
_MAX_LABELS = 64
_MAX_VALUE = 256
_RESERVED = "discovered."

NOT_IN_CATALOG = "not_in_catalog"


@define
class CatalogDesk:
    """Adds and lists resources."""

    knowledge: Knowledge
    registrations: Registrations
    kinds: Mapping[str, IResourceKind]
    store: IStore
    recorder: Recorder
    now: Callable[[], float]

    async def add(self, request: pb.AddResourceRequest, actor: Actor) -> pb.AddResourceResponse:
        """Add a resource and assign it to a Connector."""
        self._check(request)

        def add(tx: ITransaction) -> Resource:
            node_id = self._node(tx, request.node) if request.node else None
            added = tx.catalog.add(
                Resource(request.id, request.kind, dict(request.labels), node_id), self.now()
            )
            labels = [f"{key}={value}" for key, value in sorted(request.labels.items())]
            self.recorder.append(
                tx,
                RESOURCE_ADD,
                actor,
                resource_id=added.id,
                resource_kind=added.kind,
                catalog_version=added.revision,
                details={"labels": labels, "connector_id": node_id},
                state=[resource_now(tx, added.id)],
            )
            return added

        added = await self.store.run("add a resource", add)
        await self.knowledge.refresh()
        if added.assigned_to is not None:
            self.registrations.ask_again(added.assigned_to)
        return pb.AddResourceResponse(catalog_version=added.revision)

    async def list_resources(
        self, request: pb.ListResourcesRequest, actor: Actor
    ) -> pb.ListResourcesResponse:
        """The catalog with each resource's state, and what Connectors offer beside it."""

        def look(tx: ITransaction) -> tuple[tuple[Resource, ...], tuple[Undeclared, ...]]:
            return tx.catalog.all(), tx.catalog.undeclared()

        known, undeclared = await self.store.read("list resources", look)
        rows = [self._row(one) for one in known]
        rows += [self._offered(one) for one in undeclared if one.id not in {r.id for r in known}]
        return pb.ListResourcesResponse(resources=rows)

    def _check(self, request: pb.AddResourceRequest) -> None:
        if not is_resource_id(request.id):
            raise Malformed("resource id: a DNS label: lower-case letters, digits and -")
        if request.kind not in self.kinds:
            raise Malformed(
                f"kind: one of {', '.join(sorted(self.kinds))} "
                "(enabled by [plugins].kinds in the configuration)"
            )
        if len(request.labels) > _MAX_LABELS:
            raise Malformed(f"labels: at most {_MAX_LABELS}")
        for key, value in request.labels.items():
            if _LABEL.match(key) is None or key.startswith(_RESERVED):
                raise Malformed("label: lower-case letters, digits and . _ / -, at most 63")
            if len(value) > _MAX_VALUE:
                raise Malformed(f"label {key}: its value is longer than {_MAX_VALUE}")

    def _node(self, tx: ITransaction, word: str) -> str:
        known = self.recorder.rows(tx).node_called(word)
        if known is None or known.state is NodeState.REVOKED or known.role != "connector":
            raise SvcError(
                f"node {word}: no active Connector of that id or name; "
                "see `svc authority nodes list`",
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
        )

    def _state(self, one: Resource) -> str:
        if self.registrations.is_served(one.id):
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

    def _name(self, node_id: str | None) -> str:
        known = self.knowledge.facts.nodes.get(node_id or "")
        return "" if known is None else known.name
