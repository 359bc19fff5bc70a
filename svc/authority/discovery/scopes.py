"""Scopes of discovery, as operators set and remove them, and as the configuration has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import define, evolve

from svc.authority.discovery.service import Discovery
from svc.authority.discovery.settling import SCOPE_CHANGED, SCOPE_REMOVED
from svc.authority.state.recorder import node
from svc.authority.state.tables import SCOPES
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import SCOPE_REMOVE, SCOPE_SET
from svc.model.audit.record import Actor
from svc.model.audit.rows.catalog import scope_entry
from svc.model.cluster.onward import read_onward_auth
from svc.model.cluster.scope import (
    MAX_SCOPES,
    DiscoveryScope,
    PublishedRow,
    ScopeLease,
    ScopeOrigin,
    check_scope,
)
from svc.proto.gate.v1 import admin_pb2 as pb


@define
class ScopeAdmin:
    """Sets, lists, shows and removes scopes.

    Attributes:
        own_id: Of this Authority.
    """

    writer: StateWriter
    discovery: Discovery
    own_id: str

    async def set_scope(self, request: pb.SetScopeRequest, actor: Actor) -> pb.SetScopeResponse:
        """Set a scope, in the place of the one of its name.

        What is published and was not admitted so far enters the catalog at once; what the scope
        admits no more departs, and its sessions end.
        """
        wanted = _read(request.scope)

        def change(tx: ITransaction) -> tuple[DiscoveryScope, bool]:
            known = self._known(tx, wanted.name)
            if known is not None:
                _require_own(known)
            elif len(tx.scopes.all()) >= MAX_SCOPES:
                raise SvcError(
                    f"scopes: there are {MAX_SCOPES} already; remove one first",
                    reason="too_many_scopes",
                    fault=Fault.EXHAUSTED,
                )
            return self._put(tx, known, wanted, actor, actor.id)

        scope, changed = await self.writer.change_beside_policy("set a scope", change)
        await self.discovery.scopes_changed(actor, SCOPE_CHANGED)
        return pb.SetScopeResponse(revision=scope.revision, changed=changed)

    async def list_scopes(
        self, request: pb.ListScopesRequest, actor: Actor
    ) -> pb.ListScopesResponse:
        """Every scope, with how many resources it admits now."""

        def look(tx: ITransaction) -> tuple[tuple[DiscoveryScope, ...], tuple[PublishedRow, ...]]:
            return self.writer.rows(tx).scopes(), tx.publications.rows()

        scopes, rows = await self.writer.read("list scopes", look)
        counts = Counter(one.scope for one in rows if not one.refused)
        return pb.ListScopesResponse(scopes=[_form(one, counts[one.name]) for one in scopes])

    async def show_scope(self, request: pb.ShowScopeRequest, actor: Actor) -> pb.ShowScopeResponse:
        """One scope, and what was published that is of it."""

        def look(
            tx: ITransaction,
        ) -> tuple[DiscoveryScope, Sequence[PublishedRow], Sequence[ScopeLease]]:
            known = self._required(tx, request.name)
            return known, tx.publications.rows(), tx.publications.leases()

        scope, rows, leases = await self.writer.read("show a scope", look)
        mine = [one for one in rows if one.scope == scope.name]
        ends = {(one.node_id, one.source): one.expires_at for one in leases}
        nodes = self.writer.cache.state.nodes
        return pb.ShowScopeResponse(
            scope=_form(scope, sum(not one.refused for one in mine)),
            resources=[
                pb.ScopedResource(
                    id=one.resource_id,
                    kind=one.kind,
                    node_id=one.node_id,
                    node_name=nodes[one.node_id].name if one.node_id in nodes else "",
                    source=one.source,
                    refused=one.refused,
                    expires_at=ends.get((one.node_id, one.source), 0.0),
                )
                for one in mine
            ],
        )

    async def remove_scope(
        self, request: pb.RemoveScopeRequest, actor: Actor
    ) -> pb.RemoveScopeResponse:
        """Remove a scope; what no other scope admits departs, and its sessions end."""

        def remove(tx: ITransaction) -> None:
            known = self._required(tx, request.name)
            _require_own(known)
            self._remove(tx, known, actor)

        before = self._live()
        await self.writer.change_beside_policy("remove a scope", remove)
        await self.discovery.scopes_changed(actor, SCOPE_REMOVED)
        return pb.RemoveScopeResponse(departed=len(before - self._live()))

    async def configure(self, configured: Iterable[DiscoveryScope]) -> None:
        """Set the scopes of the configuration, and remove those that it has no more.

        One of the same name that an operator had set is the configuration's from now on.
        """
        wanted = {one.name: evolve(one, origin=ScopeOrigin.CONFIG) for one in configured}
        me = node(self.own_id)

        def change(tx: ITransaction) -> None:
            for one in wanted.values():
                self._put(tx, self._known(tx, one.name), one, me, self.own_id)
            for known in self.writer.rows(tx).scopes():
                if known.origin is ScopeOrigin.CONFIG and known.name not in wanted:
                    self._remove(tx, known, me)

        await self.writer.change_beside_policy("scopes of the configuration", change)

    def _live(self) -> set[str]:
        catalog = self.writer.cache.state.catalog.values()
        return {one.id for one in catalog if one.is_discovered and one.assigned_to is not None}

    def _known(self, tx: ITransaction, name: str) -> DiscoveryScope | None:
        return self.writer.rows(tx).scope(name)

    def _required(self, tx: ITransaction, name: str) -> DiscoveryScope:
        known = self._known(tx, name)
        if known is None:
            raise SvcError(
                f"scope {name}: there is none of this name; see `svc authority scopes list`",
                reason="unknown_scope",
                fault=Fault.NOT_FOUND,
            )
        return known

    def _put(
        self,
        tx: ITransaction,
        known: DiscoveryScope | None,
        wanted: DiscoveryScope,
        actor: Actor,
        by: str,
    ) -> tuple[DiscoveryScope, bool]:
        if known is not None and known.says_as(wanted):
            return known, False
        revision = 1 if known is None else known.revision + 1
        scope = evolve(wanted, revision=revision, set_at=self.writer.now(), set_by=by)
        tx.scopes.put(scope)
        details: dict[str, object] = {
            "scope": scope.name,
            "kinds": list(scope.kinds),
            "onward_modes": [one.value for one in scope.onward_auth],
            "connectors": list(scope.connectors),
            "match_labels": _labels(scope.match_labels.items()),
            "labels": _labels(scope.labels.items()),
            "id_prefix": scope.id_prefix,
        }
        if known is not None:
            digest = scope_entry(known).digest
            assert digest is not None, "the row is there"
            details["previous_digest"] = digest.hex()
        self.writer.append(
            tx, SCOPE_SET, actor, details=details, state=[SCOPES.now(tx, scope.name)]
        )
        return scope, True

    def _remove(self, tx: ITransaction, known: DiscoveryScope, actor: Actor) -> None:
        tx.scopes.remove(known.name)
        self.writer.append(
            tx,
            SCOPE_REMOVE,
            actor,
            details={"scope": known.name},
            state=[SCOPES.now(tx, known.name)],
        )


def _require_own(known: DiscoveryScope) -> None:
    """Return if the scope is changed by commands.

    Raises:
        SvcError: ``scope_configured``.
    """
    if known.origin is ScopeOrigin.CONFIG:
        raise SvcError(
            f"scope {known.name}: is set by discovery.auto_scopes of the Authority's "
            "configuration; change it there and restart the Authority",
            reason="scope_configured",
            fault=Fault.PRECONDITION,
        )


def _labels(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(pairs)]


def _read(form: pb.Scope) -> DiscoveryScope:
    """The scope of a request.

    Raises:
        Malformed: it is none.
    """
    try:
        modes = tuple(map(read_onward_auth, form.onward_auth))
    except Malformed as e:
        raise Malformed(f"scope {form.name}: {e.text}") from None
    scope = DiscoveryScope(
        name=form.name,
        kinds=tuple(form.kinds),
        onward_auth=modes,
        connectors=tuple(form.connectors),
        id_prefix=form.id_prefix,
        match_labels=dict(form.match_labels),
        labels=dict(form.labels),
    )
    check_scope(scope)
    return scope


def _form(one: DiscoveryScope, resources: int) -> pb.Scope:
    return pb.Scope(
        name=one.name,
        kinds=one.kinds,
        onward_auth=[mode.value for mode in one.onward_auth],
        connectors=one.connectors,
        id_prefix=one.id_prefix,
        match_labels=dict(one.match_labels),
        labels=dict(one.labels),
        origin=one.origin.value,
        revision=one.revision,
        set_at=one.set_at,
        set_by=one.set_by,
        resources=resources,
    )
