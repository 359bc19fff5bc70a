"""What the facets of who and what keep: one test a promise of ``svc.interfaces.facets``.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import AlreadyExists, Malformed, NoSuchRow
from svc.interfaces.store import ITransaction
from svc.model.cluster.node import (
    KeptToken,
    Leaf,
    Node,
    NodeState,
    RegistryRenewal,
    Spending,
    TokenRecord,
    TokenRole,
)
from svc.model.cluster.person import IssuedCertificate, Person, PersonState
from svc.model.cluster.resource import Resource, Undeclared

TOKEN = TokenRecord(
    id="t1",
    secret_sha256=b"s" * 32,
    role=TokenRole.PROXY,
    expires_at=100.0,
    bound_to="edge1",
    names=("a.example", "b.example"),
)
NODE = Node(
    id="n1",
    name="edge1",
    role="connector",
    key_sha256=b"k" * 32,
    audit_key=b"a" * 32,
    leaf=Leaf("01", b"k" * 32, 500.0),
    enrolled_at=10.0,
)
NODE = evolve(NODE, names=("a.example", "b.example"))
OTHER = evolve(NODE, id="n2", name="edge2", audit_key=b"b" * 32)
PERSON = Person("p1", "ada", groups=("dev", "ops"), salt=b"salt")


def _people(tx: ITransaction) -> None:
    tx.people.add_group("ops", 1.0)
    tx.people.add_group("dev", 1.0)
    tx.people.add(PERSON, 2.0)


def registered_nodes(tx: ITransaction) -> None:
    """Two nodes, as most promises need them."""
    tx.nodes.register(NODE)
    tx.nodes.register(OTHER)


class FacetContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_tokens_are_spent_once(self: Any) -> None:
        """A token is good once; each further attempt is told apart and spends nothing."""

        def spend(tx: ITransaction) -> list[Spending]:
            tx.tokens.add(TOKEN, 1.0)
            tries = [("t9", b"s" * 32, 5.0), ("t1", b"x" * 32, 5.0), ("t1", b"s" * 32, 100.0)]
            tries += [("t1", b"s" * 32, 99.9), ("t1", b"s" * 32, 99.9)]
            return [tx.tokens.spend(*each).outcome for each in tries]

        self.assertEqual(
            await self.store.run("spend", spend),
            [
                Spending.UNKNOWN,
                Spending.WRONG_SECRET,
                Spending.EXPIRED,
                Spending.SPENT,
                Spending.ALREADY_SPENT,
            ],
        )

    async def test_tokens_say_what_they_are_bound_to(self: Any) -> None:
        """Spending a token gives the token as it was added."""
        await self.store.run("add", lambda tx: tx.tokens.add(TOKEN, 1.0))
        with self.assertRaises(AlreadyExists):
            await self.store.run("again", lambda tx: tx.tokens.add(TOKEN, 1.0))
        spent = await self.store.run("spend", lambda tx: tx.tokens.spend("t1", b"s" * 32, 2.0))
        self.assertEqual(spent.token, TOKEN)

    async def test_tokens_are_withdrawn(self: Any) -> None:
        """A withdrawn token is no longer listed and cannot be spent."""

        def withdraw(tx: ITransaction) -> Any:
            tx.tokens.add(TOKEN, 1.0)
            before = tx.tokens.waiting(2.0), tx.tokens.waiting(100.0)
            first, second = tx.tokens.withdraw("t1", 2.0), tx.tokens.withdraw("t1", 2.0)
            spent = tx.tokens.spend("t1", b"s" * 32, 3.0).outcome
            return before, first, second, tx.tokens.waiting(2.0), spent

        self.assertEqual(
            await self.store.run("withdraw", withdraw),
            (((TOKEN,), ()), True, False, (), Spending.ALREADY_SPENT),
        )

    async def test_texts_that_not_every_database_keeps(self: Any) -> None:
        """NUL and lone surrogates are refused in the same way everywhere, written or asked for."""
        for text in ("a\0b", "\ud800"):
            for attempt in (
                lambda tx, name=text: tx.people.add_group(name, 1.0),
                lambda tx, name=text: tx.people.named(name),
            ):
                with self.assertRaises(Malformed):
                    await self.store.run("attempt", attempt)
        self.assertEqual(await self.store.read("look", lambda tx: tx.people.groups()), ())

    async def test_tokens_that_have_not_expired(self: Any) -> None:
        """A token is found whether it is spent or not; the list ends with its time."""

        def look(tx: ITransaction) -> Any:
            tx.tokens.add(TOKEN, 1.0)
            before = tx.tokens.get("t1")
            tx.tokens.spend("t1", b"s" * 32, 2.0)
            lists = [tx.tokens.unexpired(at) for at in (99.0, 100.0)]
            return before, tx.tokens.get("t1"), lists, tx.tokens.get("t9")

        spent = KeptToken(TOKEN, 2.0)
        self.assertEqual(
            await self.store.run("look", look), (KeptToken(TOKEN), spent, [(spent,), ()], None)
        )

    async def test_nodes_are_registered_once(self: Any) -> None:
        """A node is found by id, name and key; its id, active name and audit key are taken."""
        await self.store.run("register", lambda tx: tx.nodes.register(NODE))
        for double in (
            evolve(OTHER, id="n1"),
            evolve(OTHER, name="edge1"),
            evolve(OTHER, audit_key=b"a" * 32),
        ):
            with self.assertRaises(AlreadyExists):
                await self.store.run("double", lambda tx, node=double: tx.nodes.register(node))
        found = await self.store.read(
            "find", lambda tx: (tx.nodes.get("n1"), tx.nodes.named("edge1"), tx.nodes.get("n9"))
        )
        self.assertEqual(found, (NODE, NODE, None))
        keyed = await self.store.read(
            "find", lambda tx: [tx.nodes.keyed(each * 32) for each in (b"a", b"b")]
        )
        self.assertEqual(keyed, [NODE, None])

    async def test_nodes_are_revoked_for_ever(self: Any) -> None:
        """A revoked node stays in the list, its name is free, its id and its key are not."""

        def revoke(tx: ITransaction) -> Any:
            registered_nodes(tx)
            first, second = tx.nodes.revoke("n1", 5.0), tx.nodes.revoke("n1", 6.0)
            with self.assertRaises(AlreadyExists):
                tx.nodes.register(evolve(NODE, id="n3"))
            tx.nodes.register(evolve(NODE, id="n3", audit_key=b"c" * 32))
            states = [(node.id, node.state) for node in tx.nodes.all()]
            renewed = tx.nodes.renewed("n1", 1, Leaf("02", b"z" * 32, 9.0))
            named = tx.nodes.named("edge1")
            return first, second, states, named and named.id, renewed

        gone, here = NodeState.REVOKED, NodeState.ACTIVE
        self.assertEqual(
            await self.store.run("revoke", revoke),
            (
                True,
                False,
                [("n1", gone), ("n3", here), ("n2", here)],
                "n3",
                RegistryRenewal.REVOKED,
            ),
        )

    async def test_a_generation_renews_once(self: Any) -> None:
        """The newest generation renews; an older one is a clone unless its answer was lost."""
        second, stolen = Leaf("02", b"2" * 32, 600.0), Leaf("66", b"6" * 32, 600.0)

        def renew(tx: ITransaction) -> Any:
            tx.nodes.register(NODE)
            told = [
                tx.nodes.renewed("n9", 1, second),
                tx.nodes.renewed("n1", 1, second),
                tx.nodes.renewed("n1", 1, stolen),
                tx.nodes.renewed("n1", 1, evolve(second, serial="03")),
                tx.nodes.renewed("n1", 9, second),
            ]
            node = tx.nodes.get("n1")
            return told, node and node.generation, node and node.leaf

        told, generation, leaf = await self.store.run("renew", renew)
        self.assertEqual(
            told,
            [
                RegistryRenewal.UNKNOWN,
                RegistryRenewal.RENEWED,
                RegistryRenewal.CLONE,
                RegistryRenewal.REPEATED,
                RegistryRenewal.CLONE,
            ],
        )
        self.assertEqual((generation, leaf), (2, evolve(second, serial="03")))

    async def test_nodes_are_seen(self: Any) -> None:
        """A registration leaves when and which version; an unknown node leaves nothing."""

        def see(tx: ITransaction) -> Any:
            tx.nodes.register(NODE)
            tx.nodes.seen("n1", 33.5, "0.11.0")
            tx.nodes.seen("n9", 33.5, "0.11.0")
            return tx.nodes.all()

        seen = evolve(NODE, last_seen=33.5, version="0.11.0")
        self.assertEqual(await self.store.run("see", see), (seen,))

    async def test_people(self: Any) -> None:
        """A person is found by id, by name and in the list, with groups in order."""
        await self.store.run("add", _people)
        found = await self.store.read(
            "find", lambda tx: (tx.people.get("p1"), tx.people.named("ada"), *tx.people.all())
        )
        self.assertEqual(found, (PERSON, PERSON, PERSON))
        with self.assertRaises(AlreadyExists):
            await self.store.run("add", lambda tx: tx.people.add(evolve(PERSON, id="p2"), 3.0))
        with self.assertRaises(NoSuchRow):
            await self.store.run(
                "add", lambda tx: tx.people.add(Person("p3", "b", groups=("x",)), 3.0)
            )

    async def test_memberships_change(self: Any) -> None:
        """Groups are replaced as a whole; an unknown person or group changes nothing."""
        await self.store.run("add", _people)
        await self.store.run("set", lambda tx: tx.people.set_groups("p1", ["ops"]))
        for person, groups in (("p9", ["ops"]), ("p1", ["nobody"])):
            with self.assertRaises(NoSuchRow):
                await self.store.run(
                    "set", lambda tx, p=person, g=groups: tx.people.set_groups(p, g)
                )
        person = await self.store.read("get", lambda tx: tx.people.get("p1"))
        self.assertEqual(person.groups, ("ops",))

    async def test_people_are_revoked(self: Any) -> None:
        """A person is revoked once, and stays in the list."""
        await self.store.run("add", _people)
        told = await self.store.run(
            "revoke", lambda tx: (tx.people.revoke("p1", 3.0), tx.people.revoke("p1", 4.0))
        )
        person = await self.store.read("get", lambda tx: tx.people.get("p1"))
        self.assertEqual((told, person.state), ((True, False), PersonState.REVOKED))

    async def test_people_are_disabled(self: Any) -> None:
        """A person is disabled and enabled; one who is revoked is neither, however it came."""
        await self.store.run("add", _people)
        told = await self.store.run(
            "change",
            lambda tx: (
                tx.people_changes.enable("p1"),
                tx.people_changes.disable("p1"),
                tx.people_changes.disable("p1"),
                tx.people_changes.enable("p1"),
                tx.people_changes.disable("p1"),
                tx.people.get("p1").state,
                tx.people.revoke("p1", 3.0),
                tx.people_changes.enable("p1"),
                tx.people_changes.disable("p1"),
                tx.people.get("p1").state,
            ),
        )
        self.assertEqual(told[:6], (False, True, False, True, True, PersonState.DISABLED))
        self.assertEqual(told[6:], (True, False, False, PersonState.REVOKED))

    async def test_certificates(self: Any) -> None:
        """A certificate belongs to a known person, is kept once and revoked once."""
        old = IssuedCertificate(
            sha256=b"1" * 32, serial="01", person_id="p1", issued_at=1.0, expires=50.0
        )
        new = IssuedCertificate(
            sha256=b"2" * 32, serial="02", person_id="p1", issued_at=2.0, expires=60.0
        )
        await self.store.run("add", _people)
        for each in (old, new):
            await self.store.run("issue", lambda tx, c=each: tx.certificates.issued(c))
        with self.assertRaises(AlreadyExists):
            await self.store.run("issue", lambda tx: tx.certificates.issued(old))
        orphan = evolve(new, sha256=b"3" * 32, serial="03", person_id="p9")
        with self.assertRaises(NoSuchRow):
            await self.store.run("issue", lambda tx: tx.certificates.issued(orphan))

        def revoke(tx: ITransaction) -> Any:
            told = tx.certificates.revoke(old.sha256, 9.0), tx.certificates.revoke(old.sha256, 9.5)
            return told, tx.certificates.of("p1"), tx.certificates.get(b"9" * 32)

        gone = evolve(old, revoked_at=9.0)
        unexpired = await self.store.read(
            "unexpired", lambda tx: [tx.certificates.unexpired(at) for at in (49.0, 50.0, 60.0)]
        )
        self.assertEqual(unexpired, [(old, new), (new,), ()])
        self.assertEqual(await self.store.run("revoke", revoke), ((True, False), (new, gone), None))

        def sign_out(tx: ITransaction) -> Any:
            for each in (old, new):
                tx.certificates.revoke(each.sha256, 11.0, signed_out=True)
            left = tx.certificates.of("p1")
            told = (
                tx.certificates.revoke(new.sha256, 12.0),
                tx.certificates.revoke(new.sha256, 13.0),
            )
            return left, told, tx.certificates.get(new.sha256)

        out = evolve(new, revoked_at=11.0, signed_out=True)
        self.assertEqual(
            await self.store.run("sign out", sign_out),
            ((out, gone), (True, False), evolve(out, signed_out=False)),
        )

    async def test_catalog(self: Any) -> None:
        """A resource keeps its labels, is assigned to a known node, and is removed once."""
        wanted = Resource("db1", "tcp", {"env": "prod", "tier": "1"})
        await self.store.run("nodes", registered_nodes)
        added = await self.store.run("add", lambda tx: tx.catalog.add(wanted, 1.0))
        self.assertEqual(added, evolve(wanted, revision=added.revision))
        with self.assertRaises(AlreadyExists):
            await self.store.run("add", lambda tx: tx.catalog.add(wanted, 1.0))
        for resource, node in (("db1", "n9"), ("db9", "n1")):
            with self.assertRaises(NoSuchRow):
                await self.store.run(
                    "assign", lambda tx, r=resource, n=node: tx.catalog.assign(r, n, 1.5)
                )
        assigned = await self.store.run("assign", lambda tx: tx.catalog.assign("db1", "n1", 2.0))
        seen = await self.store.read("see", lambda tx: (tx.catalog.get("db1"), tx.catalog.all()))
        self.assertEqual(seen, (assigned, (assigned,)))
        self.assertEqual((assigned.assigned_to, dict(assigned.labels)), ("n1", dict(wanted.labels)))
        told = await self.store.run(
            "remove", lambda tx: (tx.catalog.remove("db1", 3.0), tx.catalog.remove("db1", 3.0))
        )
        self.assertEqual((told, await self._resources()), ((True, False), ()))

    async def test_registrations_are_remembered(self: Any) -> None:
        """The catalog knows who served what last, and what may not be served."""

        def register(tx: ITransaction) -> Any:
            registered_nodes(tx)
            tx.catalog.add(Resource(id="db1", kind="tcp", labels={}, assigned_to="n1"), 1.0)
            tx.catalog.registered(
                "n1", ["db1"], [Undeclared(id="old", kind="tcp", node_id="n1", seen_at=5.0)], 5.0
            )
            tx.catalog.registered(
                "n2", [], [Undeclared(id="web", kind="ssh", node_id="n2", seen_at=6.0)], 6.0
            )
            tx.catalog.registered(
                "n1", ["db1"], [Undeclared(id="ssh1", kind="ssh", node_id="n1", seen_at=7.0)], 7.0
            )
            return tx.catalog.get("db1"), tx.catalog.undeclared()

        resource, undeclared = await self.store.run("register", register)
        self.assertEqual((resource.last_served_at, resource.last_served_by), (7.0, "n1"))
        self.assertEqual(
            [(each.id, each.node_id) for each in undeclared], [("ssh1", "n1"), ("web", "n2")]
        )

    async def test_catalog_revision(self: Any) -> None:
        """Every change of what decisions look at counts once; a registration does not."""

        def changes(tx: ITransaction) -> list[int]:
            registered_nodes(tx)
            counts = [tx.catalog.revision()]
            for change in (
                lambda: tx.people.add_group("ops", 1.0),
                lambda: tx.people.add(Person("p1", "ada"), 1.0),
                lambda: tx.people.set_groups("p1", ["ops"]),
                lambda: tx.catalog.add(Resource("db1", "tcp"), 1.0),
                lambda: tx.catalog.assign("db1", "n1", 1.0),
                lambda: tx.people.revoke("p1", 1.0),
                lambda: tx.catalog.remove("db1", 1.0),
            ):
                change()
                counts.append(tx.catalog.revision() - counts[0])
            tx.catalog.registered("n1", [], [], 2.0)
            return [*counts[1:], tx.catalog.revision() - counts[0]]

        self.assertEqual(await self.store.run("change", changes), [1, 2, 3, 4, 5, 6, 7, 7])

    async def _resources(self: Any) -> Any:
        return await self.store.read("all", lambda tx: tx.catalog.all())
