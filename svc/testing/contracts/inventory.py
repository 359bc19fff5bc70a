"""What is kept of who serves what, of keys that may join and of sign-ins: one test a promise.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.store import ITransaction
from svc.model.cluster.account import PersonSecret, SecretKind
from svc.model.cluster.agent import Agent, AgentCertificate, Assertion, Delegation
from svc.model.cluster.node import ExpectedKey, TokenRole
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.resource import Binding, Resource
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.policy.requested import KeptApproval, RequestedAccess, RequestState
from svc.testing.contracts.facets import NODE, registered_nodes


class InventoryContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_expected_keys_are_used_once(self: Any) -> None:
        """A key is expected once, found by itself, and used by one of any number of attempts."""
        wanted = ExpectedKey(
            id="e1",
            role=TokenRole.PROXY,
            name="edge1",
            key_sha256=b"k" * 32,
            issuer="local:0",
            expires_at=100.0,
            names=("a.example",),
        )

        def use(tx: ITransaction) -> Any:
            tx.expected.add(wanted, 1.0)
            told = [tx.expected.use(each, 5.0) for each in ("e9", "e1", "e1")]
            found = tx.expected.get("e1"), tx.expected.of_key(b"k" * 32), tx.expected.get("e9")
            return told, found, [tx.expected.unexpired(at) for at in (99.9, 100.0)]

        told, found, unexpired = await self.store.run("use", use)
        used = evolve(wanted, used_at=5.0)
        self.assertEqual(told, [False, True, False])
        self.assertEqual(found, (used, used, None))
        self.assertEqual(unexpired, [(used,), ()])
        for twice in (evolve(wanted, id="e2"), evolve(wanted, key_sha256=b"l" * 32)):
            with self.assertRaises(AlreadyExists):
                await self.store.run("add", lambda tx, t=twice: tx.expected.add(t, 2.0))

    async def test_accounts_are_linked_once(self: Any) -> None:
        """An account is one person's; its sign-ins are found by id and by newest certificate."""
        link = IdentityLink(
            id="i1", issuer="https://id.example", subject="00u1", person_id="p1", salt=b"salt"
        )
        sign_in = SignIn(
            id="s1",
            identity_id="i1",
            person_id="p1",
            auth_time=1.5,
            began_at=2.0,
            ends_at=100.0,
            certificate_sha256=b"c" * 32,
            key_sha256=b"k" * 32,
            generation=1,
            refresh=b"\0sealed",
        )
        renewed = evolve(
            sign_in,
            certificate_sha256=b"d" * 32,
            generation=2,
            ended_at=9.0,
        )

        def use(tx: ITransaction) -> Any:
            tx.people.add(Person("p1", "ada", salt=b"s"), 1.0)
            tx.sign_ins.link(link)
            tx.sign_ins.put(sign_in)
            first = tx.sign_ins.get("s1")
            tx.sign_ins.put(renewed)
            return first, tx.sign_ins.get("s1")

        def look(tx: ITransaction) -> Any:
            found = tx.sign_ins.of("https://id.example", "00u1"), tx.sign_ins.identity("i1")
            unexpired = [tx.sign_ins.unexpired(at) for at in (99.9, 100.0)]
            return found, tx.sign_ins.of("https://id.example", "00u2"), unexpired

        first, later = await self.store.run("sign in", use)
        self.assertEqual((first, later), (sign_in, renewed))
        found, none, unexpired = await self.store.read("look", look)
        self.assertEqual((found, none, unexpired), ((link, link), None, [(renewed,), ()]))
        for twice in (evolve(link, id="i2"), evolve(link, subject="00u2")):
            with self.assertRaises(AlreadyExists):
                await self.store.run("link", lambda tx, t=twice: tx.sign_ins.link(t))
        gone = [await self.store.run("unlink", lambda tx: tx.sign_ins.unlink("i1")) for _ in "12"]
        self.assertEqual(gone, [(renewed,), ()])
        self.assertIsNone(await self.store.read("look", lambda tx: tx.sign_ins.get("s1")))

    async def test_agents(self: Any) -> None:
        """An agent has one owner and one name; its certificates and delegations are kept apart."""
        claims = Assertion("https://ci.example", "svc", {"sub": "repo:a", "ref": "main"})
        agent = Agent("agent-1", "deployer", "p1", assertion=claims, added_at=2.0)
        plain = Agent("agent-2", "backup", "p1", added_at=3.0)
        issued = AgentCertificate(
            sha256=b"c" * 32,
            serial="1",
            agent_id="agent-1",
            key_sha256=b"k" * 32,
            generation=1,
            issued_at=2.0,
            expires=50.0,
        )
        newer = evolve(issued, sha256=b"d" * 32, serial="2", generation=2, issued_at=3.0)
        delegation = Delegation(
            id="d1",
            agent_id="agent-1",
            person_id="p1",
            actions=("tcpConnect", "webConnect"),
            added_at=2.0,
            expires_at=100.0,
        )

        def use(tx: ITransaction) -> Any:
            tx.people.add(Person("p1", "ada", salt=b"s"), 1.0)
            before = tx.catalog.revision()
            for one in (agent, plain):
                tx.agents.add(one)
            for each in (issued, newer):
                tx.agent_certificates.issued(each)
            tx.delegations.add(delegation)
            tx.agents.seen("agent-1", 9.5)
            return tx.catalog.revision() - before

        def look(tx: ITransaction) -> Any:
            found, certificates, given = tx.agents, tx.agent_certificates, tx.delegations
            return (
                (found.get("agent-1"), found.named("backup"), found.get("agent-3")),
                (found.all(), found.of_owner("p1"), found.last_seen()),
                (
                    certificates.get(b"c" * 32),
                    certificates.of("agent-1"),
                    certificates.unexpired(49.0),
                ),
                (given.get("d1"), given.unexpired(99.0), given.unexpired(100.0)),
            )

        self.assertEqual(await self.store.run("use", use), 3)
        names, listed, certificates, delegations = await self.store.read("look", look)
        self.assertEqual(names, (agent, plain, None))
        self.assertEqual(listed, ((plain, agent), (plain, agent), {"agent-1": 9.5}))
        self.assertEqual(certificates, (issued, (newer, issued), (issued, newer)))
        self.assertEqual(delegations, (delegation, (delegation,), ()))

        def end(tx: ITransaction) -> Any:
            told = [tx.agents.revoke("agent-1", 5.0) for _ in "12"]
            ended = [tx.delegations.revoke("d1", 6.0) for _ in "12"]
            return told, ended, tx.agents.of_owner("p1"), tx.delegations.get("d1")

        told, ended, left, gone = await self.store.run("end", end)
        self.assertEqual((told, ended, left), ([True, False], [True, False], (plain,)))
        self.assertEqual(gone, evolve(delegation, revoked_at=6.0))
        for again in (evolve(agent, id="agent-9"), evolve(agent, name="other")):
            with self.assertRaises(AlreadyExists):
                await self.store.run("add", lambda tx, a=again: tx.agents.add(a))
        with self.assertRaises(NoSuchRow):
            await self.store.run(
                "add", lambda tx: tx.agents.add(Agent("agent-8", "stray", "nobody"))
            )

    async def test_secrets_are_kept_with_their_counters(self: Any) -> None:
        """What a person signs in by is found by person; a counter is replaced, and goes with it."""
        totp = PersonSecret(
            id="t1", person_id="p1", kind=SecretKind.TOTP, sealed=b"\0sealed", added_at=1.5
        )
        code = evolve(totp, id="e1", kind=SecretKind.ENROLLMENT, expires_at=90.5)
        key = evolve(totp, id="k1", person_id="p2", kind=SecretKind.KEY, counter=0)

        def use(tx: ITransaction) -> Any:
            tx.people.add(Person("p1", "ada", salt=b"s"), 1.0)
            tx.people.add(Person("p2", "eve", salt=b"s"), 1.0)
            for one in (totp, code, key):
                tx.secrets.add(one)
            first = tx.secrets.of("p1"), tx.secrets.get("k1"), tx.secrets.get("k9")
            for counter in (5, 7):
                tx.secrets.count("t1", counter)
            gone = [tx.secrets.remove(each) for each in ("k1", "k1")]
            return first, gone, tx.secrets.all()

        first, gone, left = await self.store.run("use", use)
        self.assertEqual(first, ((code, totp), key, None))
        self.assertEqual((gone, left), ([True, False], (code, evolve(totp, counter=7))))
        with self.assertRaises(AlreadyExists):
            await self.store.run("add", lambda tx: tx.secrets.add(evolve(totp, person_id="p2")))

    async def test_requests_for_access_are_decided_once(self: Any) -> None:
        """A request is kept and changed by its id, decided once, and gone some time after it."""
        request = RequestedAccess(
            id="r1",
            person_id="p1",
            resource_id="db1",
            resource_identity="db1-1",
            kind="tcp",
            action="tcpConnect",
            parameters={"login_user": "ada"},
            reason="an incident",
            salt=b"\0salt",
            asked_secs=60,
            uses=None,
            asked_at=1.0,
            ends_at=100.0,
        )
        approved = evolve(request, state=RequestState.APPROVED, uses=2, used=1, ends_at=90.5)
        decision = KeptApproval(
            request_id="r1",
            approver="p2",
            certificate_sha256=b"c" * 32,
            payload=b"{}",
            signature=b"\0s",
            certificate=b"\0der",
            decided_at=2.0,
            ends_at=90.5,
        )
        certificate = IssuedCertificate(
            sha256=b"c" * 32, serial="1", person_id="p2", issued_at=1.0, expires=9.0
        )

        def use(tx: ITransaction) -> Any:
            tx.people.add(Person("p1", "ada"), 1.0)
            tx.people.add(Person("p2", "eve"), 1.0)
            tx.certificates.issued(certificate)
            tx.access.put(request)
            first = tx.access.get("r1"), tx.access.decision("r1")
            tx.access.put(approved)
            tx.access.decide(decision)
            return first

        def look(tx: ITransaction) -> Any:
            found = tx.access.get("r1"), tx.access.get("r2"), tx.access.decision("r1")
            of = tx.access.of("p1", 90.0), tx.access.of("p1", 90.5), tx.access.of("p2", 1.0)
            return found, of, tx.access.unexpired(90.0), tx.access.decisions(90.5)

        self.assertEqual(await self.store.run("use", use), (request, None))
        found, of, unexpired, decisions = await self.store.read("look", look)
        self.assertEqual(found, (approved, None, decision))
        self.assertEqual((of, unexpired, decisions), (((approved,), (), ()), (approved,), ()))
        with self.assertRaises(AlreadyExists):
            await self.store.run("decide", lambda tx: tx.access.decide(decision))
        await self.store.run("forget", lambda tx: tx.access.forget(90.5, 90.5))
        self.assertEqual((await self.store.read("look", look))[0], (approved, None, decision))
        await self.store.run("forget", lambda tx: tx.access.forget(91.0, 91.0))
        self.assertEqual((await self.store.read("look", look))[0], (None, None, None))

    async def test_assignments_are_counted(self: Any) -> None:
        """Each assignment is the next of its resource; those before it stay as history."""
        await self.store.run("nodes", registered_nodes)

        def assign(tx: ITransaction) -> Any:
            tx.catalog.add(Resource("db1", "tcp"), 1.0)
            told = [tx.catalog.get("db1")]
            for at, node in ((2.0, "n1"), (3.0, "n1"), (4.0, "n2"), (5.0, None), (6.0, "n2")):
                told.append(tx.catalog.assign("db1", node, at))
            return told, tx.catalog.get("db1"), tx.bindings.of("db1"), tx.bindings.of("db9")

        told, last, bindings, none = await self.store.run("assign", assign)
        self.assertEqual(last, told[-1])
        self.assertEqual(
            [(each.assigned_to, each.assignment_revision) for each in told],
            [(None, 0), ("n1", 1), ("n1", 1), ("n2", 2), (None, 3), ("n2", 4)],
        )
        self.assertEqual(
            bindings,
            tuple(
                Binding(
                    identity="first.db1",
                    node_id=node,
                    revision=told[at].revision,
                    assignment_revision=count,
                    is_current=count == 4,
                    bound_at=at + 1.0,
                )
                for count, (at, node) in enumerate(((1, "n1"), (3, "n2"), (4, None), (5, "n2")), 1)
            ),
        )
        self.assertEqual(none, ())

    async def test_inventories_are_counted(self: Any) -> None:
        """Each change of what a Connector is meant to serve counts once; nothing else does."""

        def change(tx: ITransaction) -> Any:
            registered_nodes(tx)
            tx.nodes.register(
                evolve(NODE, id="p1", name="edge3", role="proxy", audit_key=b"p" * 32)
            )
            counts = [dict(tx.inventories.all())]
            for step in (
                lambda: tx.catalog.add(
                    Resource(id="db1", kind="tcp", labels={}, assigned_to="n1"), 1.0
                ),
                lambda: tx.catalog.add(Resource("db2", "tcp"), 1.0),
                lambda: tx.catalog.registered("n1", ["db1"], [], 2.0),
                lambda: tx.catalog.assign("db1", "n1", 3.0),
                lambda: tx.catalog.assign("db1", "n2", 4.0),
                lambda: tx.catalog.assign("db1", None, 5.0),
                lambda: tx.catalog.assign("db2", "n1", 6.0),
                lambda: tx.catalog.remove("db2", 7.0),
                lambda: tx.catalog.remove("db1", 8.0),
            ):
                step()
                counts.append(dict(tx.inventories.all()))
            return counts, tx.inventories.generation("n1"), tx.inventories.generation("n9")

        counts, one, none = await self.store.run("change", change)
        self.assertEqual(
            [(each["n1"], each["n2"]) for each in counts],
            [(1, 1), (2, 1), (2, 1), (2, 1), (2, 1), (3, 2), (3, 3), (4, 3), (5, 3), (5, 3)],
        )
        self.assertEqual((set(counts[0]), one, none), ({"n1", "n2"}, 5, 0))

    async def test_identities_end(self: Any) -> None:
        """What is added again under the same id is another, with no binding of the former."""
        again = Resource(id="db1", kind="ssh", labels={}, assigned_to="n2", identity="second")

        def renew(tx: ITransaction) -> Any:
            registered_nodes(tx)
            tx.catalog.add(Resource(id="db1", kind="tcp", labels={}, assigned_to="n1"), 1.0)
            return tx.catalog.remove("db1", 2.0), tx.catalog.add(again, 3.0), tx.catalog.get("db1")

        removed, added, found = await self.store.run("renew", renew)
        self.assertTrue(removed)
        self.assertEqual((added, added.assignment_revision), (found, 1))
        self.assertEqual(found, evolve(again, revision=added.revision))
        bindings = await self.store.read("look", lambda tx: tx.bindings.of("db1"))
        self.assertEqual(
            [(each.identity, each.node_id, each.is_current) for each in bindings],
            [("first.db1", "n1", False), ("second", "n2", True)],
        )
        for used in ("first.db1", "second"):
            await self.store.run("remove", lambda tx: tx.catalog.remove("db1", 4.0))
            with self.assertRaises(AlreadyExists):
                twice = evolve(again, identity=used)
                await self.store.run("add", lambda tx, t=twice: tx.catalog.add(t, 5.0))
