"""Leases, scopes and revocations in any order: what is served is what a model says."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.discovery.offers import MOVE_SECS, SourceKey
from svc.authority.discovery.scopes import ScopeAdmin
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.state.recorder import operator
from svc.messages.discovery import PublishAsk, publication_digest
from svc.model.cluster.node import Node
from svc.model.cluster.resource import Resource, found_by
from svc.model.cluster.scope import DiscoveryScope, PublishedResource, first_admitting
from svc.model.principal import Role
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.discovery.support import LEASE_SECS, discovering
from tests.authority.house import AUTHORITY, KINDS, House, value_of
from tests.support.examples import examples

IDS = ("r1", "r2", "r3", "db1")
SCOPES = (
    pb.Scope(kinds=["tcp"]),
    pb.Scope(kinds=["ssh", "tcp"], onward_auth=["certificate"], labels={"zone": "lab"}),
    pb.Scope(kinds=["ssh"], onward_auth=["certificate", "stored_key"]),
    pb.Scope(kinds=["tcp"], connectors=["conn1"], match_labels={"tier": "x"}),
    pb.Scope(kinds=["tcp", "web"], id_prefix="r1"),
    pb.Scope(kinds=["tcp", "ssh"], onward_auth=["stored_key"], connectors=["conn1", "conn2"]),
)
ME = operator(0)
ROWS = st.dictionaries(
    st.sampled_from(IDS),
    st.tuples(st.sampled_from(["tcp", "ssh", "web"]), st.sampled_from([{}, {"tier": "x"}])),
)


@define
class Published:
    """What the model knows of one source."""

    rows: dict[str, PublishedResource]
    renewed_at: float = field()


class LeaseMachine(RuleBasedStateMachine):
    """One Authority, two Connectors, an operator, and time."""

    @initialize()
    def begin(self) -> None:
        self.house = House()
        second = self.house.node(Role.CONNECTOR, "conn2")
        self.house.refresh()
        self.nodes: list[Node] = [
            self.house.row(self.house.connector),
            self.house.row(second),
        ]
        self.active = {one.id for one in self.nodes}
        self.model: dict[tuple[str, str], Published] = {}
        self.scopes: dict[str, DiscoveryScope] = {}
        self.declared = {"db1"}
        self.reserved = {"db1"}
        self.finders: dict[str, str] = {}
        self.lead()

    def lead(self) -> None:
        """A process begins to lead."""
        writer = self.house.writer()
        self.discovery = discovering(writer, self.house.world.verifier, KINDS, self.house.clock)
        self.admin = ScopeAdmin(writer, self.discovery, AUTHORITY)
        self.catalog = CatalogAdmin(
            writer=writer,
            registrations=self.house.registrations,
            kinds=KINDS,
            scope_of=self.discovery.ids.scope_of,
            settle=self.discovery.settle_again,
        )
        self.house.state_cache.on_change(self.discovery.followed)
        self.discovery.begin()

    def look(self) -> None:
        value_of(self.discovery.look())

    @rule(at=st.integers(0, 1), source=st.sampled_from(["rack", "hall"]), rows=ROWS)
    def publish(self, at: int, source: str, rows: dict[str, tuple[str, dict[str, str]]]) -> None:
        node = self.nodes[at]
        if node.id not in self.active:
            return
        found = {id: PublishedResource(id, kind, labels) for id, (kind, labels) in rows.items()}
        ask = PublishAsk(source, tuple(found.values()))
        answer = value_of(self.discovery.publish(ask, node))
        assert answer.digest == publication_digest(ask.resources)
        before = self.model.get((node.id, ""))
        if before is not None:
            for id in found:
                before.rows.pop(id, None)
        self.model[node.id, source] = Published(found, self.now)
        refused = {one.id for one in answer.refused}
        served = {id for id in found if self.served(id) == node.id}
        # What another source of the same Connector offers as well may be served from there.
        elsewhere = {
            id
            for (other, name), one in self.model.items()
            if other == node.id and name != source
            for id in one.rows
        }
        assert refused - elsewhere == found.keys() - served - elsewhere, (refused, served)

    @rule(at=st.integers(0, 1), source=st.sampled_from(["rack", "hall"]))
    def renew(self, at: int, source: str) -> None:
        node, known = self.nodes[at], self.model.get((self.nodes[at].id, source))
        if node.id not in self.active:
            return
        rows = () if known is None else tuple(known.rows.values())
        ask = PublishAsk(source, unchanged=publication_digest(rows))
        answer = value_of(self.discovery.publish(ask, node))
        assert answer.again is (known is None)
        if known is not None:
            known.renewed_at = self.now

    @rule(seconds=st.sampled_from([1, 44, 46, 91]))
    def wait(self, seconds: int) -> None:
        """Time passes, and passes come; a process that stood still would forgive it."""
        for _ in range(seconds // 5):
            self.house.clock.advance(5)
            self.look()
        self.house.clock.advance(seconds % 5)
        self.look()
        over = self.now - LEASE_SECS
        self.model = {key: one for key, one in self.model.items() if one.renewed_at > over}

    @rule(name=st.sampled_from(["a", "b"]), form=st.sampled_from(SCOPES))
    def set_scope(self, name: str, form: pb.Scope) -> None:
        wanted = pb.Scope()
        wanted.CopyFrom(form)
        wanted.name = name
        value_of(self.admin.set_scope(pb.SetScopeRequest(scope=wanted), ME))
        self.scopes[name] = self.house.run(lambda tx: tx.scopes.get(name))

    @precondition(lambda self: self.scopes)
    @rule(data=st.data())
    def remove_scope(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.scopes)))
        value_of(self.admin.remove_scope(pb.RemoveScopeRequest(name=name), ME))
        del self.scopes[name]

    @rule(at=st.integers(0, 1))
    def revoke(self, at: int) -> None:
        if len(self.active) == 1:
            return
        id = self.nodes[at].id
        self.house.run(lambda tx: tx.nodes.revoke(id, self.house.now()))
        self.house.refresh()
        self.look()
        self.active.discard(id)
        self.model = {key: one for key, one in self.model.items() if key[0] != id}

    @rule(id=st.sampled_from(["r1", "r2"]))
    def declare(self, id: str) -> None:
        """An operator declares an id, or removes what was declared."""
        if id in self.declared:
            value_of(self.catalog.remove(pb.RemoveResourceRequest(id=id), ME))
            self.declared.discard(id)
            return
        value_of(self.catalog.add(pb.AddResourceRequest(id=id, kind="tcp"), ME))
        self.declared.add(id)
        self.reserved.add(id)

    @rule()
    def leader_lost(self) -> None:
        """Another process leads from now on: leases begin again."""
        before: dict[tuple[str, str], Published] = {}
        for one in self.live().values():
            known = self.expected(one.id)
            assert known is not None and one.assigned_to is not None
            rows = before.setdefault(
                (one.assigned_to, ""), Published({}, self.now + MOVE_SECS)
            ).rows
            rows[one.id] = known[1]
        self.model = before
        self.lead()
        self.look()

    # -- what must hold

    @property
    def now(self) -> float:
        return float(self.house.clock.seconds())

    def live(self) -> dict[str, Resource]:
        """What the catalog lets a Connector serve of what was discovered."""
        found = self.house.state_cache.state.catalog.values()
        return {one.id: one for one in found if one.is_discovered and one.assigned_to is not None}

    def served(self, id: str) -> str | None:
        """The Connector that may serve a discovered resource."""
        one = self.live().get(id)
        return None if one is None or one.lacks_mode else one.assigned_to

    def expected(self, id: str) -> tuple[set[str], PublishedResource, DiscoveryScope] | None:
        """Who may have an id, as the model says; with the offer and scope of who has it."""
        if id in self.declared or id in self.reserved:
            return None
        found: dict[str, tuple[PublishedResource, DiscoveryScope]] = {}
        for (node_id, _), published in self.model.items():
            row = published.rows.get(id)
            node = next(one for one in self.nodes if one.id == node_id)
            scope = None if row is None else first_admitting(self.scopes.values(), row, node)
            is_theirs = scope is not None and self.may_have(id, node, scope)
            if row is not None and scope is not None and row.kind in KINDS and is_theirs:
                live = self.live().get(id)
                if live is not None and row.kind == live.kind:
                    found[node_id] = row, scope
                else:
                    found.setdefault(node_id, (row, scope))
        if not found:
            return None
        live = self.live().get(id)
        holder = next(iter(found)) if live is None else live.assigned_to
        row, scope = found.get(holder or "", next(iter(found.values())))
        return set(found), row, scope

    def may_have(self, id: str, node: Node, scope: DiscoveryScope) -> bool:
        """Whether a Connector may have an id that another one found."""
        finder = self.finders.get(id, node.id)
        other = next(one for one in self.nodes if one.id == finder)
        return finder == node.id or (scope.names(node) and scope.names(other))

    @invariant()
    def found_by_whoever_may_have_it(self) -> None:
        """An id goes from one Connector to another only where a scope names both."""
        if not hasattr(self, "house"):
            return
        for one in self.house.state_cache.state.catalog.values():
            finder = found_by(one.identity)
            if finder is None:
                continue
            before = self.finders.get(one.id, finder)
            pair = [node for node in self.nodes if node.id in (before, finder)]
            names = [all(map(scope.names, pair)) for scope in self.scopes.values()]
            assert before == finder or any(names), (one, before, self.scopes)
            self.finders[one.id] = finder

    @invariant()
    def served_as_expected(self) -> None:
        if not hasattr(self, "house"):
            return
        live = self.live()
        for id in IDS:
            wanted, here = self.expected(id), live.get(id)
            assert (wanted is None) == (here is None), (id, wanted, here)
            if wanted is not None and here is not None:
                assert here.assigned_to in wanted[0], (id, wanted, here)

    @invariant()
    def labels_are_whose_they_are(self) -> None:
        """Without the operator's word no label is an access label."""
        if not hasattr(self, "house"):
            return
        given = {pair for one in self.scopes.values() for pair in one.labels.items()}
        for one in self.live().values():
            for name, value in one.labels.items():
                assert name.startswith("discovered.") or (name, value) in given, one

    @invariant()
    def signed_and_shown(self) -> None:
        """Every row is covered by a signed record; what is shown agrees with what is served.

        What was published to an earlier leader is shown as it was, until it is published again.
        """
        if not hasattr(self, "house"):
            return
        read = self.house.state_cache.reload()
        assert not value_of(read).unsigned
        rows = self.house.store.store.read("rows", lambda tx: tx.publications.rows())
        told = set(self.discovery.offers.keys())
        for row in value_of(rows):
            is_told = SourceKey(row.node_id, row.source) in told
            if is_told and not row.refused:
                assert self.served(row.resource_id) == row.node_id, row


class LeaseTests(SynchronousTestCase):
    """See the machine."""

    def test_in_any_order(self) -> None:
        """What is served follows publications, time, scopes, revocations and declarations."""
        machine = LeaseMachine.TestCase
        machine.settings = settings(
            max_examples=examples(200),
            stateful_step_count=25,
            deadline=None,
            phases=[Phase.generate],
        )
        machine("runTest").runTest()
