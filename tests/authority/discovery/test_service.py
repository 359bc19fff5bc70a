"""One Connector publishes: what is recorded, refused and shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.discovery.offers import MOVE_SECS
from svc.authority.discovery.scopes import ScopeAdmin
from svc.authority.discovery.service import KEPT_SECS
from svc.authority.registry.admission import divide
from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.registry.listing import CatalogListing
from svc.authority.state.recorder import node, operator
from svc.compose.authority.discovery import DiscoveryStart
from svc.errors import SvcError
from svc.messages.discovery import PublishAsk, publication_digest, publish_request
from svc.model.cluster.node import Node
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.registration import DeclaredResource, Registration
from svc.model.cluster.resource import Resource
from svc.model.cluster.scope import MAX_SOURCES, DiscoveryScope, PublishedResource
from svc.model.principal import Role
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.discovery.support import LEASE_SECS, discovering
from tests.authority.house import AUTHORITY, DOWN, KINDS, Call, House, refusal_of, value_of
from tests.support.proof import proves

ME = operator(0)


def row(id: str, kind: str = "tcp", **more: Any) -> PublishedResource:
    """A published resource."""
    return PublishedResource(id, kind, more.pop("labels", {"tier": "lab"}), **more)


class ServiceCase(SynchronousTestCase):
    """A scope `lab` for tcp and ssh, and a Connector."""

    def setUp(self) -> None:
        self.house = House()
        self.counts = Counter[str]()
        self.lead()
        self.node = self.house.row(self.house.connector)
        self.scope("lab", kinds=["tcp", "ssh"], onward_auth=["certificate", "stored_key"])

    def lead(self) -> None:
        writer = self.house.writer()
        self.discovery = discovering(
            writer, self.house.world.verifier, KINDS, self.house.clock, self.counts
        )
        self.admin = ScopeAdmin(writer, self.discovery, AUTHORITY)
        self.catalog = CatalogAdmin(
            writer=writer,
            registrations=self.house.registrations,
            kinds=KINDS,
            scope_of=self.discovery.ids.scope_of,
            settle=self.discovery.settle_again,
        )
        self.listing = CatalogListing(
            writer=writer, peers=self.house.peers, scope_of=self.discovery.ids.scope_of
        )
        self.house.state_cache.on_change(self.discovery.followed)
        self.discovery.begin()

    def scope(self, name: str, **fields: Any) -> Any:
        request = pb.SetScopeRequest(scope=pb.Scope(name=name, **fields))
        return value_of(self.admin.set_scope(request, ME))

    def publish(
        self, *rows: PublishedResource, source: str = "rack", node: Node | None = None
    ) -> Any:
        """What each published resource is refused for."""
        answer = value_of(self.discovery.publish(PublishAsk(source, rows), node or self.node))
        return {one.id: one.reason for one in answer.refused}

    def look(self, seconds: float = 0) -> None:
        for _ in range(int(seconds // 5)):
            self.house.clock.advance(5)
            value_of(self.discovery.look())
        value_of(self.discovery.look())

    def known(self, id: str) -> Resource:
        return self.house.state_cache.state.catalog[id]

    def listed(self) -> dict[str, Any]:
        answer = value_of(self.listing.list_resources(pb.ListResourcesRequest(), ME))
        return {one.id: one for one in answer.resources}

    def events(self, id: str) -> list[str]:
        """What was recorded of a resource, with the reason."""
        return [
            ":".join(filter(None, (one["event"], one.get("reason"))))
            for one in self.house.records()
            if one.get("resource_id") == id
        ]


class PublishTests(ServiceCase):
    """``Publish``."""

    @proves("G-MET-54", "G-OPEN-42")
    def test_a_lease_runs_out(self) -> None:
        """What is not renewed departs, counted and recorded; found again, it is the same."""
        self.assertEqual(self.publish(row("r1")), {})
        first = self.known("r1")
        self.assertEqual((self.counts["published"], self.counts["live"]), (1, 1))
        self.look(LEASE_SECS - 5)
        self.assertEqual((self.counts["expired"], self.known("r1").assigned_to), (0, self.node.id))
        self.look(5)
        self.assertEqual((self.counts["expired"], self.counts["live"]), (1, 0))
        self.assertIsNone(self.known("r1").assigned_to)
        self.assertEqual(self.listed()["r1"].state, "departed")
        self.assertEqual(self.events("r1"), ["resource.add", "resource.depart:lease_expired"])
        self.publish(row("r1"))
        again = self.known("r1")
        self.assertEqual(
            (again.identity, again.assigned_to, again.assignment_revision),
            (first.identity, self.node.id, 3),
        )
        self.look(LEASE_SECS)
        self.house.clock.advance(KEPT_SECS - 10)
        self.look()
        self.assertIn("r1", self.house.state_cache.state.catalog)
        self.house.clock.advance(20)
        self.look()
        self.assertNotIn("r1", self.house.state_cache.state.catalog)
        self.assertEqual(self.events("r1")[-1], "resource.remove:departed")

    def second(self) -> Node:
        """Another Connector."""
        holder = self.house.node(Role.CONNECTOR, "conn2")
        self.house.refresh()
        return self.house.row(holder)

    def test_an_id_stays_its_finder_s(self) -> None:
        """Without an operator's word no other Connector ever gets it, however long it is gone."""
        second = self.second()
        self.publish(row("r1"))
        first = self.known("r1")
        self.assertEqual(self.publish(row("r1"), node=second), {"r1": "found_by_peer"})
        self.publish()
        self.assertIsNone(self.known("r1").assigned_to)
        self.assertEqual(self.events("r1"), ["resource.add", "resource.depart:withdrawn"])
        self.house.clock.advance(KEPT_SECS + 1)
        self.assertEqual(self.publish(row("r1"), node=second), {"r1": "found_by_peer"})
        self.look()
        self.assertNotIn("r1", self.house.state_cache.state.catalog)
        self.lead()
        self.assertEqual(self.publish(row("r1"), node=second), {"r1": "found_by_peer"})
        self.house.run(lambda tx: tx.nodes.revoke(self.node.id, 9.0))
        self.house.refresh()
        for named in (["conn2"], ["conn1", "nobody"]):
            self.scope("lab", kinds=["tcp"], connectors=named)
            self.assertNotIn("r1", self.house.state_cache.state.catalog, named)
        self.scope("lab", kinds=["tcp"], connectors=["conn2", self.node.id])
        self.assertEqual(self.known("r1").assigned_to, second.id)
        self.assertNotEqual(self.known("r1").identity, first.identity)

    def test_another_that_finds_it(self) -> None:
        """Who has an id keeps it; another, named with it, takes over with another identity."""
        second = self.second()
        self.scope("lab", kinds=["tcp"], connectors=["conn1", "conn2"])
        self.publish(row("r1"))
        first = self.known("r1")
        self.assertEqual(self.publish(row("r1"), node=second), {"r1": "resource_owned_by_peer"})
        self.assertEqual(self.known("r1"), first)
        self.publish()
        taken = self.known("r1")
        self.assertEqual(taken.assigned_to, second.id)
        self.assertNotEqual(taken.identity, first.identity)
        self.assertEqual(
            self.events("r1"), ["resource.add", "resource.remove:replaced", "resource.add"]
        )

    @proves("G-CLI-11", "G-SES-13", "U-PHA-19", "U-PHA-22")
    def test_states(self) -> None:
        """A resource that no scope admits, and one that waits for a mode, say so and why."""
        found = self.publish(row("r1", "postgres"), row("h1", "ssh"), row("r2"))
        self.assertEqual(found, {"r1": "no_scope", "h1": "mode_required"})
        listed = self.listed()
        self.assertEqual(
            [(listed[id].state, listed[id].refused, listed[id].scope) for id in ("r1", "h1", "r2")],
            [
                ("not_in_catalog", "no_scope", ""),
                ("mode_required", "", "lab"),
                ("unserved", "", "lab"),
            ],
        )
        self.assertEqual(listed["r2"].source, "discovered")
        self.assertEqual(dict(listed["r2"].labels), {"discovered.tier": "lab"})
        offers = tuple(
            DeclaredResource(id, kind, True) for id, kind in (("h1", "ssh"), ("r2", "tcp"))
        )
        said = Registration(
            cluster="c",
            node_id=self.node.id,
            proxy_id="p",
            nonce=b"",
            resources=offers,
            instance_id="i",
            generation=1,
            version="1",
        )
        served, withheld = divide(said, self.node, self.house.state_cache.state)
        self.assertEqual([one.id for one in served], ["r2"])
        self.assertEqual([(one.id, one.reason) for one in withheld], [("h1", "mode_required")])
        for mode, text in (
            ("passthrough", "its scope lab allows only"),
            ("magic", "must be one of"),
        ):
            refused = refusal_of(
                self.catalog.set(pb.SetResourceRequest(id="h1", onward_auth=mode), ME)
            )
            self.assertIn(text, refused.text)
        value_of(self.catalog.set(pb.SetResourceRequest(id="h1", onward_auth="stored_key"), ME))
        self.assertEqual(self.known("h1").onward_auth, OnwardAuth.STORED_KEY)
        self.assertEqual(self.publish(row("h1", "ssh"), row("r2")), {})
        self.assertEqual(self.known("h1").onward_auth, OnwardAuth.STORED_KEY)
        self.scope("lab", kinds=["tcp", "ssh"], onward_auth=["certificate"])
        self.assertEqual(self.known("h1").onward_auth, OnwardAuth.CERTIFICATE)

    def test_operators_word_stands_above(self) -> None:
        """A declared id is never a Connector's, now or later; declaring one takes it over."""
        self.assertEqual(self.publish(row("db1"), row("r1")), {"db1": "declared"})
        for refused in (
            self.catalog.remove(pb.RemoveResourceRequest(id="r1"), ME),
            self.catalog.assign(pb.AssignResourceRequest(id="r1"), ME),
        ):
            self.assertEqual(refusal_of(refused).reason, "resource_discovered")
        value_of(self.catalog.add(pb.AddResourceRequest(id="r1", kind="tcp"), ME))
        self.assertEqual(self.known("r1").source.value, "manual")
        self.assertEqual(self.listed()["r1"].refused, "")
        value_of(self.catalog.remove(pb.RemoveResourceRequest(id="r1"), ME))
        self.assertEqual(self.publish(row("r1")), {"r1": "id_reserved"})
        value_of(self.catalog.remove(pb.RemoveResourceRequest(id="db1"), ME))
        self.assertEqual(self.publish(row("db1")), {"db1": "id_reserved"})

    def test_moved_with_its_node(self) -> None:
        """What a Connector found stays behind when its resources are moved to another."""
        self.house.node(Role.CONNECTOR, "conn2")
        self.house.refresh()
        self.publish(row("r1"))
        answer = value_of(
            self.catalog.move(pb.MoveResourcesRequest(to="conn2", **{"from": "conn1"}), ME)
        )
        self.assertNotIn("r1", answer.ids)
        self.assertIn("db1", answer.ids)
        self.assertEqual(self.known("r1").assigned_to, self.node.id)

    def test_bounds(self) -> None:
        """So many sources of one Connector, and so many changes at once."""
        for at in range(MAX_SOURCES):
            self.publish(source=f"s{at}")
        refused = refusal_of(self.discovery.publish(PublishAsk("more"), self.node))
        self.assertEqual(refused.reason, "too_many_sources")
        self.discovery.changes.spend(node(self.node.id), 9_990)
        refused = refusal_of(
            self.discovery.publish(
                PublishAsk("s0", tuple(row(f"r{n}") for n in range(20))), self.node
            )
        )
        self.assertEqual((refused.reason, self.listed().get("r0")), ("too_many_requests", None))

    def test_rpc(self) -> None:
        """Only an active Connector publishes, for itself."""
        serve: Any = self.discovery.service().methods["Publish"]

        def call(holder: Any) -> Call:
            made = Call(self.house.peer(holder))
            made.give(publish_request(PublishAsk("rack", (row("r1"),))).SerializeToString(), None)
            return made

        good = call(self.house.connector)
        value_of(serve(good))
        self.assertEqual(self.known("r1").assigned_to, self.node.id)
        with self.assertRaises(SvcError):
            value_of(serve(call(self.house.proxy)))
        with self.assertRaises(SvcError):
            value_of(serve(call(self.house.ada)))
        self.house.run(lambda tx: tx.nodes.revoke(self.node.id, 9.0))
        self.house.refresh()
        self.assertEqual(self.counts["hurried"], 1)
        with self.assertRaises(SvcError) as refused:
            value_of(serve(call(self.house.connector)))
        self.assertEqual(refused.exception.reason, "revoked_node")
        self.look()
        self.assertEqual(self.events("r1")[-1], "resource.depart:revoked_node")

    def test_the_store_fails(self) -> None:
        """A publication that was not stored is refused, and settled by the next pass."""
        self.house.store.mood = "down"
        failed = refusal_of(self.discovery.publish(PublishAsk("rack", (row("r1"),)), self.node))
        self.assertEqual(failed.reason, DOWN.reason)
        self.house.store.mood = "well"
        self.assertNotIn("r1", self.house.state_cache.state.catalog)
        self.look()
        self.assertEqual(self.known("r1").assigned_to, self.node.id)
        self.assertEqual(self.publish(row("r1")), {})
        self.house.store.mood = "down"
        ask = PublishAsk("rack", unchanged=publication_digest((row("r1"),)))
        self.assertFalse(value_of(self.discovery.publish(ask, self.node)).again)

    def test_a_process_that_stood_still(self) -> None:
        """Nobody could renew meanwhile, so no lease has run out."""
        self.publish(row("r1"))
        self.look(10)
        self.house.clock.advance(LEASE_SECS * 3)
        self.look()
        self.assertEqual(self.known("r1").assigned_to, self.node.id)
        self.look(LEASE_SECS)
        self.assertIsNone(self.known("r1").assigned_to)

    def test_another_leader(self) -> None:
        """What the catalog has stays for a lease, and is renewed only by a whole publication."""
        self.publish(row("r1"), row("r2"))
        identity = self.known("r1").identity
        self.lead()
        ask = PublishAsk("rack", unchanged=publication_digest((row("r1"), row("r2"))))
        self.assertTrue(value_of(self.discovery.publish(ask, self.node)).again)
        self.look(LEASE_SECS + MOVE_SECS - 10)
        self.publish(row("r1"))
        self.assertEqual(self.known("r2").assigned_to, self.node.id)
        self.look(20)
        self.assertEqual(
            (self.known("r1").identity, self.known("r1").assigned_to), (identity, self.node.id)
        )
        self.assertIsNone(self.known("r2").assigned_to)

    def test_leases_that_nobody_renews(self) -> None:
        """What is shown of a Connector that never came back is forgotten after a lease."""
        self.house.by_sql(
            f"INSERT INTO scope_leases VALUES ('{self.node.id}', 'old', 9e9)",
            f"INSERT INTO scope_rows VALUES ('{self.node.id}', 'old', 'r9', 'tcp', '{{}}', '',"
            " 'no_scope', 1.0)",
        )
        self.look(LEASE_SECS + MOVE_SECS)
        self.assertEqual(self.listed()["r9"].state, "not_in_catalog")
        self.look(10)
        self.assertNotIn("r9", self.listed())

    def test_altered_rows(self) -> None:
        """A scope that somebody put into the table admits nothing; an altered row is left alone."""
        self.house.by_sql(
            "INSERT INTO scopes VALUES ('evil', 'postgres', '', '', '', '{}', '{\"zone\": \"x\"}',"
            " 'operator', 1, 1.0, 'local:0')"
        )
        self.assertEqual(self.publish(row("p1", "postgres")), {"p1": "no_scope"})
        self.publish(row("r1"))
        self.house.by_sql("UPDATE resources SET onward_auth = 'certificate' WHERE id = 'r1'")
        self.assertEqual(
            self.publish(row("r1", labels={"tier": "other"})), {"r1": "state_unsigned"}
        )


class ScopeTests(ServiceCase):
    """Scopes, by command and by configuration."""

    @proves("G-CLI-14")
    def test_set_narrowed_and_removed(self) -> None:
        """A scope admits what waits, at once; narrowed or removed, its resources depart."""
        self.publish(row("r1"), row("p1", "postgres"))
        self.scope("all", kinds=["postgres"], labels={"zone": "db"})
        self.assertEqual(self.known("p1").labels, {"discovered.tier": "lab", "zone": "db"})
        self.assertFalse(self.scope("all", kinds=["postgres"], labels={"zone": "db"}).changed)
        self.scope("all", kinds=["postgres"], labels={"zone": "dbs"})
        self.assertEqual(self.known("p1").labels["zone"], "dbs")
        self.scope("all", kinds=["postgres"], match_labels={"tier": "prod"})
        self.assertIsNone(self.known("p1").assigned_to)
        answer = value_of(self.admin.remove_scope(pb.RemoveScopeRequest(name="lab"), ME))
        self.assertEqual((answer.departed, self.known("r1").assigned_to), (1, None))
        self.assertEqual(
            self.events("p1"), ["resource.add", "resource.change", "resource.depart:scope_changed"]
        )
        self.assertEqual(self.events("r1")[-1], "resource.depart:scope_removed")
        names = [one["event"] for one in self.house.records("scope.set")]
        self.assertEqual(len(names), 4)
        [removed] = self.house.records("scope.remove")
        self.assertEqual((removed["details"]["scope"], removed["actor"]["id"]), ("lab", ME.id))
        shown = value_of(self.admin.list_scopes(pb.ListScopesRequest(), ME))
        self.assertEqual([(one.name, one.revision) for one in shown.scopes], [("all", 3)])
        for refused in (
            self.admin.remove_scope(pb.RemoveScopeRequest(name="none"), ME),
            self.admin.show_scope(pb.ShowScopeRequest(name="none"), ME),
        ):
            self.assertEqual(refusal_of(refused).reason, "unknown_scope")
        asked = self.admin.set_scope(
            pb.SetScopeRequest(scope=pb.Scope(name="ssh", kinds=["ssh"])), ME
        )
        self.assertIn("scope ssh: onward_auth is required", refusal_of(asked).text)

    def test_shown(self) -> None:
        """What was published in a scope, until when, and why some of it is not served."""
        self.publish(row("r1"), row("h1", "ssh"))
        shown = value_of(self.admin.show_scope(pb.ShowScopeRequest(name="lab"), ME))
        self.assertEqual(
            [(one.id, one.source, one.refused) for one in shown.resources],
            [("h1", "rack", "mode_required"), ("r1", "rack", "")],
        )
        self.assertEqual(shown.scope.resources, 1)
        before = shown.resources[0].expires_at
        self.assertEqual(before, self.house.now() + LEASE_SECS)
        self.house.clock.advance(30)
        ask = PublishAsk("rack", unchanged=publication_digest((row("r1"), row("h1", "ssh"))))
        value_of(self.discovery.publish(ask, self.node))
        shown = value_of(self.admin.show_scope(pb.ShowScopeRequest(name="lab"), ME))
        self.assertEqual(shown.resources[0].expires_at, before + 30)

    def test_altered_where_the_configuration_has_it(self) -> None:
        """An Authority begins all the same, and the altered scope admits nothing."""
        lab = DiscoveryScope(name="lab", kinds=("tcp",))
        value_of(self.admin.configure([lab]))
        self.house.by_sql("UPDATE scopes SET kinds = 'tcp postgres'")
        began = DiscoveryStart(self.admin, self.discovery, (lab,))
        value_of(began.start())
        self.assertEqual(
            self.publish(row("r1"), row("p1", "postgres")), {"r1": "no_scope", "p1": "no_scope"}
        )

    @proves("G-CFG-13", "G-OPEN-62")
    def test_of_the_configuration(self) -> None:
        """It is set and removed by the configuration alone, and replaces one of its name."""
        lab = DiscoveryScope(name="lab", kinds=("tcp",))
        other = DiscoveryScope(name="other", kinds=("ssh",), onward_auth=(OnwardAuth.PASSTHROUGH,))
        value_of(self.admin.configure([lab, other]))
        value_of(self.admin.configure([lab, other]))
        shown = value_of(self.admin.list_scopes(pb.ListScopesRequest(), ME)).scopes
        self.assertEqual(
            [(one.name, one.origin, one.revision) for one in shown],
            [("lab", "config", 2), ("other", "config", 1)],
        )
        for refused in (
            self.admin.set_scope(pb.SetScopeRequest(scope=pb.Scope(name="lab", kinds=["tcp"])), ME),
            self.admin.remove_scope(pb.RemoveScopeRequest(name="other"), ME),
        ):
            self.assertEqual(refusal_of(refused).reason, "scope_configured")
        self.scope("mine", kinds=["tcp"])
        value_of(self.admin.configure([evolve(lab, kinds=("ssh",), onward_auth=other.onward_auth)]))
        shown = value_of(self.admin.list_scopes(pb.ListScopesRequest(), ME)).scopes
        self.assertEqual(
            [(one.name, one.origin, one.revision) for one in shown],
            [("lab", "config", 3), ("mine", "operator", 1)],
        )
        self.assertEqual(self.house.records("scope.set")[-1]["actor"]["id"], AUTHORITY)
