"""What is kept of scopes and of what Connectors find: one test a promise.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import NoSuchRow
from svc.interfaces.store import ITransaction
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource, ResourceSource, found_identity
from svc.model.cluster.scope import DiscoveryScope, PublishedRow, ScopeLease, ScopeOrigin
from svc.testing.contracts.facets import NODE, registered_nodes

OTHER = "o" * 26


class DiscoveredContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_scopes_are_replaced_whole(self: Any) -> None:
        """A scope is found by its name as it was put, and the next of its name replaces it."""
        first = DiscoveryScope(
            name="lab",
            kinds=("ssh", "tcp"),
            onward_auth=(OnwardAuth.CERTIFICATE, OnwardAuth.STORED_KEY),
            connectors=("c1",),
            id_prefix="lab-",
            match_labels={"tier": "é"},
            labels={"zone": "lab", "b": ""},
            origin=ScopeOrigin.CONFIG,
            set_at=2.5,
            set_by="local:0",
        )
        second = DiscoveryScope(
            name="lab", kinds=("tcp",), revision=2, set_at=3.0, set_by="local:1"
        )
        other = DiscoveryScope(name="all", kinds=("kube",), set_at=4.0, set_by="local:1")

        def put(tx: ITransaction) -> Any:
            tx.scopes.put(first)
            before = tx.scopes.get("lab"), tx.scopes.get("none")
            tx.scopes.put(second)
            tx.scopes.put(other)
            removed = [tx.scopes.remove("none"), tx.scopes.all(), tx.scopes.remove("all")]
            return before, removed, tx.scopes.all()

        before, removed, left = await self.store.run("scopes", put)
        self.assertEqual(before, (first, None))
        self.assertEqual(removed, [False, (other, second), True])
        self.assertEqual(left, (second,))

    async def test_publications_end_with_their_lease(self: Any) -> None:
        """A publication is replaced and forgotten whole; its lease is found once it is over."""
        row = PublishedRow(
            node_id=NODE.id,
            source="rack",
            resource_id="r1",
            kind="ssh",
            labels={"tier": "lab"},
            scope="",
            refused="no_scope",
            seen_at=1.0,
        )
        other = evolve(row, source="hall", resource_id="r2")
        lease, hall = ScopeLease(NODE.id, "rack", 50.0), ScopeLease(NODE.id, "hall", 60.0)

        def publish(tx: ITransaction) -> Any:
            registered_nodes(tx)
            tx.publications.put(lease, [row, evolve(row, resource_id="r9")])
            tx.publications.put(lease, [row])
            tx.publications.put(hall, [other])
            tx.publications.settle([evolve(row, scope="lab", refused=""), evolve(row, source="x")])
            renewed = [
                tx.publications.renew(evolve(lease, expires_at=90.0)),
                tx.publications.renew(ScopeLease(NODE.id, "none", 1.0)),
            ]
            expired = [tx.publications.expired(at) for at in (59.0, 60.0, 90.0)]
            rows = tx.publications.rows()
            tx.publications.remove(NODE.id, "rack")
            tx.publications.remove(NODE.id, "none")
            return renewed, expired, rows, tx.publications.rows(), tx.publications.leases()

        renewed, expired, rows, left, leases = await self.store.run("publish", publish)
        moved = evolve(lease, expires_at=90.0)
        self.assertEqual(renewed, [True, False])
        self.assertEqual(expired, [(), (hall,), (hall, moved)])
        self.assertEqual(rows, (evolve(row, scope="lab", refused=""), other))
        self.assertEqual((left, leases), ((other,), (hall,)))

    async def test_resources_are_described(self: Any) -> None:
        """Labels and mode change with a revision; what was declared once is known for ever."""
        found = Resource(
            id="r1",
            kind="ssh",
            labels={"discovered.a": "1"},
            assigned_to=NODE.id,
            source=ResourceSource.DISCOVERED,
            onward_auth=OnwardAuth.CERTIFICATE,
            identity=found_identity(NODE.id, "x1"),
        )

        def found_again(tx: ITransaction) -> None:
            """The one id by two Connectors, the other also declared."""
            for at, finder in enumerate((NODE.id, OTHER)):
                one = evolve(found, id="r4", identity=found_identity(finder, f"x{at + 2}"))
                tx.catalog.add(evolve(one, assigned_to=None), 10.0 + at)
                tx.catalog.remove("r4", 10.5 + at)
            late = Resource("r2", "tcp", identity=found_identity(NODE.id, "x4"))
            tx.catalog.add(late, 3.0)
            tx.catalog.remove("r2", 4.0)

        def change(tx: ITransaction) -> Any:
            registered_nodes(tx)
            added = tx.catalog.add(found, 1.0)
            before = tx.catalog.get("r1"), tx.catalog.all()
            described = tx.catalog_changes.describe("r1", {"b": "2"}, None)
            after = tx.catalog.get("r1")
            tx.catalog.add(Resource("r2", "tcp", identity="old"), 1.0)
            tx.catalog.remove("r2", 2.0)
            found_again(tx)
            owners = tx.catalog_changes.owners_before(["r1", "r2", "r3", "r4"])
            tx.catalog.assign("r1", None, 5.0)
            departed = [tx.catalog_changes.departed(at, 9) for at in (5.0, 5.1)]
            return added, before, described, after, owners, departed

        told = await self.store.run("describe", change)
        added, before, described, after, owners, departed = told
        self.assertEqual(before, (added, (added,)))
        self.assertEqual(
            (added.source, added.onward_auth), (ResourceSource.DISCOVERED, OnwardAuth.CERTIFICATE)
        )
        self.assertEqual(described, after)
        self.assertEqual((after.labels, after.onward_auth), ({"b": "2"}, None))
        self.assertEqual((after.assigned, after.source), (added.assigned, added.source))
        self.assertGreater(after.revision, added.revision)
        self.assertEqual(owners, {"r1": NODE.id, "r2": None, "r4": OTHER})
        self.assertEqual(departed, [(), ("r1",)])
        with self.assertRaises(NoSuchRow):
            await self.store.run(
                "describe", lambda tx: tx.catalog_changes.describe("none", {}, None)
            )
