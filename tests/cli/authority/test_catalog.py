"""Resources, policies and the status at the operator's terminal."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.policy.admin import FIRST_POLICY
from svc.authority.registry.routes import Registered
from svc.messages.control import AGAIN
from svc.model.cluster.resource import Undeclared
from tests.cli.authority.test_members import NEW, SEEN
from tests.cli.terminal import CLUSTER, PIN, POLICY, STATUS, Authority, Place
from tests.support.proof import proves

OTHER = evolve(NEW, name="db-2", role="connector")


class TerminalTests(SynchronousTestCase):
    """One terminal, one Authority."""

    def setUp(self) -> None:
        self.place, self.authority = Place(self), Authority()

    def run_it(self, *words: str, **options: Any) -> Any:
        """Run one command against the Authority of this test."""
        return self.place.run(*words, admin=self.authority, **options)

    def records(self) -> list[Any]:
        """Every record of the log."""
        rows: list[Any] = []

        async def look() -> None:
            rows.extend(await self.authority.store.read("rows", lambda tx: tx.audit.rows(1, 1000)))

        self.successResultOf(Deferred.fromCoroutine(look()))
        return [json.loads(row.canonical) for row in rows]


class ResourceTests(TerminalTests):
    """`resources`."""

    @proves("G-CLI-10", "G-OPEN-75", "G-ERR-11", "G-POL-05")
    def test_states(self) -> None:
        """Each resource has its state: served, unserved, unassigned, or not in the catalog."""
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        add = ("resources", "add")
        first = self.run_it(
            *add, "db", "--kind", "tcp", "--node", "db-1", "--label", "env=prod", "--label", "a=b=c"
        )
        self.assertEqual(first.stdout, "added db, catalog version 1\n", first.stderr)
        self.run_it(*add, "host", "--kind", "ssh", "--node", SEEN.id)
        chosen = ("resources", "set", "host", "--onward-auth", "certificate")
        self.assertEqual(
            [self.run_it(*chosen).stdout for _ in range(2)],
            ["set host to certificate, catalog version 3\n", "host has certificate already\n"],
        )
        refused = self.run_it("resources", "set", "db", "--onward-auth", "certificate")
        self.assertIn("the kind tcp has none", refused.stderr)
        refused = self.run_it("resources", "set", "host", "--onward-auth", "magic")
        self.assertIn("must be one of certificate, passthrough, stored_key", refused.stderr)
        self.run_it(*add, "later", "--kind", "tcp")
        odd = Undeclared(id="odd", kind="tcp", node_id=SEEN.id, seen_at=1.0)
        self.authority.change(lambda tx: tx.catalog.registered(SEEN.id, {"db"}, (odd,), 1.0))
        row = self.authority.state_cache.state.catalog["db"]
        served = {"db": row.assigned}
        self.authority.registrations.add(
            Registered(
                node_id=SEEN.id,
                proxy_id="p" * 26,
                tunnel_id="t1",
                instance_id="i1",
                resources=served,
                since=0.0,
                evict=lambda reason: None,
            )
        )
        listed = self.run_it("resources", "list")
        self.assertEqual(
            listed.stdout,
            "ID     KIND  STATE           NODE  SOURCE  ONWARD AUTH  LABELS\n"
            "db     tcp   served          db-1  manual  -            a=b=c,env=prod\n"
            "host   ssh   unserved        db-1  manual  certificate  -\n"
            "later  tcp   unassigned      -     manual  -            -\n"
            "odd    tcp   not_in_catalog  db-1  -       -            -\n",
        )
        told = dict(line.split(": ", 1) for line in listed.stderr.splitlines())
        self.assertEqual(set(told), {"host", "later", "odd"})
        self.assertIn("db-1 is connected and does not declare it", told["host"])
        self.assertIn("resources assign ID --node NAME", told["later"])
        self.assertIn("db-1 offers it and may not serve it", told["odd"])
        rows = json.loads(self.run_it("resources", "list", "--json").stdout)
        self.assertEqual({one["id"]: one["problem"] for one in rows}, {"db": None, **told})
        self.run_it(*add, "odd", "--kind", "tcp", "--node", "db-1")
        odd_one = self.run_it("resources", "list").stdout.splitlines()[-1]
        self.assertEqual(odd_one.split(), ["odd", "tcp", "unserved", "db-1", "manual", "-", "-"])

    def test_a_misspelled_id(self) -> None:
        """What a Connector offers under almost the id that nobody serves is asked about."""
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        self.run_it("resources", "add", "orders-db", "--kind", "tcp", "--node", "db-1")
        odd = Undeclared(id="order-db", kind="tcp", node_id=SEEN.id, seen_at=1.0)
        self.authority.change(lambda tx: tx.catalog.registered(SEEN.id, (), (odd,), 1.0))
        self.authority.registrations.refuse(SEEN.id, "catalog_permits_none")
        told = self.run_it("resources", "list").stderr.splitlines()
        self.assertIn("orders-db: its Connector db-1 is connected, and none of", told[0])
        self.assertEqual(told[2], "orders-db and order-db: is one of the names misspelled?")

    def test_as_json(self) -> None:
        """The document holds labels as an object and null for nobody."""
        self.run_it("resources", "add", "later", "--kind", "tcp", "--label", "env=prod")
        (row,) = json.loads(self.run_it("resources", "list", "--json").stdout)
        self.assertEqual((row["labels"], row["node_id"]), ({"env": "prod"}, None))

    def test_assigned_anew(self) -> None:
        """An assignment changes hands, ends and begins again; every one stays in the history."""
        self.authority.change(lambda tx: (tx.nodes.register(SEEN), tx.nodes.register(OTHER)))
        asked: list[str] = []
        self.run_it("resources", "add", "db", "--kind", "tcp", "--node", "db-1")
        for number, node in enumerate((SEEN, OTHER)):
            self.authority.registrations.add(
                Registered(
                    node_id=node.id,
                    proxy_id="p" * 26,
                    tunnel_id=str(number),
                    instance_id="i",
                    resources={},
                    since=0.0,
                    evict=asked.append,
                )
            )
        for words, said in (
            (("assign", "db", "--node", "db-1"), "db is already assigned to db-1\n"),
            (("assign", "db", "--node", "db-2"), "assigned db to db-2, assignment 2, catalog 2\n"),
            (("unassign", "db"), "unassigned db, assignment 3, catalog 3\n"),
            (("remove", "db"), "removed db, catalog version 4\n"),
            (("add", "db", "--kind", "tcp", "--node", "db-1"), "added db, catalog version 5\n"),
        ):
            done = self.run_it("resources", *words)
            self.assertEqual(done.stdout, said, done.stderr)
        self.assertEqual(asked, [AGAIN] * 4)  # the one before and the one after; that one; the new
        shown = json.loads(self.run_it("resources", "bindings", "db", "--json").stdout)
        first, last = shown[0]["identity"], shown[-1]["identity"]
        self.assertNotEqual(first, last)
        self.assertEqual(
            [(each["node_name"], each["assignment_revision"], each["state"]) for each in shown],
            [("db-1", 1, "past"), ("db-2", 2, "past"), (None, 3, "past"), ("db-1", 1, "current")],
        )
        (row,) = json.loads(self.run_it("resources", "list", "--json").stdout)
        self.assertEqual((row["identity"], row["assignment_revision"]), (last, 1))
        self.assertIn(
            f"db-2  {OTHER.id}  2           past     {first}",
            self.run_it("resources", "bindings", "db").stdout,
        )
        details = [one["details"] for one in self.records() if one["event"] == "resource.change"]
        self.assertEqual([each.get("connector_id") for each in details], [OTHER.id, None])

    def replaced(self) -> None:
        """Two resources of db-1, which is revoked, and another Connector of its name."""
        self.authority.change(lambda tx: (tx.nodes.register(SEEN), tx.nodes.register(OTHER)))
        for name, node in (("db", "db-1"), ("host", "db-1"), ("other", "db-2")):
            done = self.run_it("resources", "add", name, "--kind", "tcp", "--node", node)
            self.assertEqual(done.status, 0, done.stderr)
        self.run_it("nodes", "revoke", "db-1")
        again = evolve(SEEN, id="c" * 26, key_sha256=b"n" * 32, audit_key=b"n" * 32)
        self.authority.change(lambda tx: tx.nodes.register(again))

    def test_a_revoked_owner(self) -> None:
        """Both lists say that the owner of a resource was revoked, and what it still owns."""
        self.replaced()
        listed = self.run_it("resources", "list").stdout.splitlines()
        self.assertEqual(
            [line.split()[2:5] for line in listed[1:]],
            [
                ["unserved", "db-1", "(revoked)"],
                ["unserved", "db-1", "(revoked)"],
                ["unserved", "db-2", "manual"],
            ],
        )
        rows = json.loads(self.run_it("resources", "list", "--json").stdout)
        self.assertEqual([row["node_state"] for row in rows], ["revoked", "revoked", "active"])
        nodes = json.loads(self.run_it("nodes", "list", "--json").stdout)
        counts = {(one["name"], one["state"]): one["resources"] for one in nodes}
        self.assertEqual(
            counts, {("db-1", "revoked"): 2, ("db-1", "active"): 0, ("db-2", "active"): 1}
        )
        self.assertIn("revoked (has 2 resources)", self.run_it("nodes", "list").stdout)

    def test_bindings_of_one_name(self) -> None:
        """Two nodes of one name are told apart in the assignments of a resource."""
        self.replaced()
        self.run_it("resources", "move", "--from", "db-1", "--to", "db-1")
        lines = self.run_it("resources", "bindings", "db").stdout.splitlines()
        self.assertEqual([line.split()[1] for line in lines], ["NODE", "db-1", "db-1"])
        self.assertEqual([line.split()[2] for line in lines[1:]], [SEEN.id, "c" * 26])

    def test_moved_together(self) -> None:
        """One command gives all of a node's resources to another, each with its record."""
        self.replaced()
        moved = self.run_it("resources", "move", "--from", "db-1", "--to", "db-1")
        self.assertEqual(
            moved.stdout,
            f"moved db, host from db-1 ({SEEN.id}, revoked) to db-1 ({'c' * 26}), "
            "catalog version 5\n",
            moved.stderr,
        )
        rows = json.loads(self.run_it("resources", "list", "--json").stdout)
        self.assertEqual([row["node_id"] for row in rows], ["c" * 26, "c" * 26, OTHER.id])
        changes = [one for one in self.records() if one["event"] == "resource.change"]
        self.assertEqual(
            [(one["resource_id"], one["details"]["connector_id"]) for one in changes],
            [("db", "c" * 26), ("host", "c" * 26)],
        )
        again = self.run_it("resources", "move", "--from", SEEN.id, "--to", "db-1")
        self.assertEqual(again.stdout, f"no resources are assigned to db-1 ({SEEN.id}, revoked)\n")
        found = json.loads(
            self.run_it("resources", "move", "--from", "c" * 26, "--to", "db-2", "--json").stdout
        )
        self.assertEqual((found["moved"], found["to"]["name"]), (["db", "host"], "db-2"))

    def test_moves_that_are_refused(self) -> None:
        """A node that is unknown, revoked or the same is refused, and nothing is moved."""
        self.replaced()
        for source, target, reason in (
            ("nobody", "db-2", "unknown_node"),
            ("db-1", "nobody", "unknown_node"),
            ("db-2", SEEN.id, "unknown_node"),
            ("db-2", "db-2", "same_node"),
            ("db-1", "db-2", "ambiguous_node"),
        ):
            done = self.run_it("resources", "move", "--from", source, "--to", target)
            self.assertEqual((done.status, done.stdout), (1, ""), (source, target))
            self.assertIn(f"({reason})", done.stderr)
        self.assertIn(SEEN.id, done.stderr)
        self.assertFalse([one for one in self.records() if one["event"] == "resource.change"])

    def test_what_is_not_there(self) -> None:
        """An unknown resource or node is refused by name, and nothing is changed."""
        for words in (("assign", "x", "--node", "db-1"), ("unassign", "x"), ("remove", "x")):
            done = self.run_it("resources", *words)
            self.assertEqual((done.status, done.stdout), (1, ""))
        self.assertIn("(unknown_resource)", done.stderr)

    def test_refusals(self) -> None:
        """An unknown kind or node is refused by name, and nothing is added."""
        kind = self.run_it("resources", "add", "r1", "--kind", "vnc")
        self.assertEqual((kind.status, kind.stdout), (1, ""))
        self.assertIn("kind: must be one of ssh, tcp", kind.stderr)
        node = self.run_it("resources", "add", "r1", "--kind", "tcp", "--node", "nobody")
        self.assertIn("(unknown_node)", node.stderr)
        self.assertEqual(self.run_it("resources", "list", "--json").stdout, "[]\n")


class PolicyTests(TerminalTests):
    """`policy`."""

    def test_set_show_history(self) -> None:
        """A policy set is shown byte for byte; those before stay in the history."""
        text = "// tab\there, \x1b[31m and ü\n" + POLICY
        digest = sha256(text.encode()).hexdigest()
        done = self.run_it("policy", "set", "-", stdin=text.encode())
        self.assertEqual(done.stdout, f"policy version 2 is in force, sha256 {digest}\n")
        shown = self.run_it("policy", "show")
        self.assertEqual(shown.stdout, text)
        self.assertIn("// version 2 of 2030-03-17T17:46:40Z by local:1000", shown.stderr)
        self.assertEqual(self.run_it("policy", "show", "1").stdout, FIRST_POLICY)
        history = self.run_it("policy", "history").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in history], ["VERSION", "2", "1"])
        document = json.loads(self.run_it("policy", "show", "2", "--json").stdout)
        self.assertEqual((document["text"], document["sha256"]), (text, digest))

    def test_from_a_file(self) -> None:
        """A policy is set from a file."""
        file = self.place.base / "new.cedar"
        file.write_text(POLICY)
        self.assertEqual(self.run_it("policy", "set", str(file)).status, 0)

    def test_same_text_again(self) -> None:
        """The text that is in force makes no new version, and the command says so."""
        first = self.run_it("policy", "set", "-", stdin=POLICY.encode())
        self.assertIn("policy version 2 is in force", first.stdout)
        before = len(self.records())
        again = self.run_it("policy", "set", "-", stdin=POLICY.encode())
        self.assertEqual((again.status, again.stderr), (0, ""))
        self.assertEqual(
            again.stdout, "policy version 2 with this text is already in force; nothing changed\n"
        )
        self.assertEqual(len(self.records()), before)
        history = json.loads(self.run_it("policy", "history", "--json").stdout)
        self.assertEqual([one["policy_version"] for one in history], [2, 1])
        back = self.run_it("policy", "set", "-", stdin=FIRST_POLICY.encode())
        self.assertIn("policy version 3 is in force", back.stdout)

    def test_place_of_a_fault(self) -> None:
        """A refused policy is told with line and column."""
        text = POLICY + '\n@id("x")\npermit (principal action, resource);\n'
        line = text.count("\n")
        refused = self.run_it("policy", "set", "-", stdin=text.encode())
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn(f"policy: line {line}, column 19: unexpected token `action`", refused.stderr)

    def test_what_is_refused_before_sending(self) -> None:
        """A text that is too long or not UTF-8 is never sent, whatever feeds it."""

        def nobody(*asked: object) -> None:
            self.fail("asked")

        endless = self.place.run("policy", "set", "/dev/zero", admin=nobody)
        self.assertEqual((endless.status, endless.stdout), (64, ""))
        self.assertIn("/dev/zero: is neither a file nor a pipe", endless.stderr)
        long = self.place.base / "long.cedar"
        long.write_bytes(b"/" * 300_000)
        large = self.place.run("policy", "set", str(long), admin=nobody)
        self.assertEqual((large.status, large.stdout), (1, ""))
        self.assertIn("policy: longer than 262144 bytes", large.stderr)
        odd = self.place.run("policy", "set", "-", admin=nobody, stdin=b"// a\n// \xff\n")
        self.assertIn("policy: line 2: is not UTF-8", odd.stderr)

    def test_what_the_authority_refuses(self) -> None:
        """A policy that does not compile, or locks operators out, changes nothing."""
        broken = self.run_it("policy", "set", "-", stdin=b"permit (")
        self.assertEqual(broken.status, 1)
        self.assertIn("(policy_invalid)", broken.stderr)
        locked = self.run_it("policy", "set", "-", stdin=b"// nothing is permitted\n")
        self.assertIn("(policy_locks_out)", locked.stderr)
        missing = self.run_it("policy", "show", "7")
        self.assertIn("policy version 7: does not exist; list them: svc ", missing.stderr)
        self.assertIn(" authority policy history (unknown_version)\n", missing.stderr)
        self.assertEqual(self.run_it("policy", "show").stdout, FIRST_POLICY)


class StatusTests(TerminalTests):
    """`status`."""

    def test_text(self) -> None:
        """One line a fact; a Connector has a line of its own if it serves too little."""
        self.assertEqual(
            self.run_it("status").stdout,
            "version          0.11.0-rc.7\n"
            f"cluster          {CLUSTER}\n"
            f"authority id     {STATUS.authority_id}\n"
            "leader           authority-1\n"
            f"ca pin           {PIN}\n"
            "ready            no\n"
            "not ready        policy,store\n"
            "policy version   1\n"
            "catalog version  3\n"
            "store            m0067_last (67)\n"
            "audit seq        12\n"
            f"last hash        {STATUS.audit_head}\n"
            "last event       policy.activate\n"
            "last event at    2027-01-15T08:00:00Z\n"
            "state seq        0\n"
            "unsigned         none\n"
            "unsigned count   0\n"
            "proxies          1\n"
            "connectors       2\n"
            "open sessions    4\n"
            "audit queue      7 rows waiting (2 held)\n"
            "root             epoch 1, material revision 4, preparation: epoch 2\n"
            "rotation         paused\n"
            "served           3 of 5 resources\n"
            "\n"
            "CONNECTOR  CONNECTED  SERVED\n"
            "c2         no         0 of 2\n",
        )

    def test_json(self) -> None:
        """One document with the same facts."""
        document = json.loads(self.run_it("status", "--json").stdout)
        self.assertEqual((document["ready"], document["not_ready"]), (False, ["policy", "store"]))
        self.assertEqual(document["open_sessions"], 4)
        self.assertEqual(document["store"], {"level": "m0067_last", "count": 67})
        self.assertEqual([one["resources_served"] for one in document["serving"]], [3, 0])


class EpochTests(TerminalTests):
    """`epochs`."""

    @proves("G-CLI-13", "G-OPEN-60", "U-FLT-04")
    def test_activate(self) -> None:
        """It names who would lose SSH, is recorded once, and is never taken back."""
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        self.run_it("resources", "add", "host", "--kind", "ssh", "--node", SEEN.id)
        asked = self.run_it("epochs", "activate")
        self.assertIn(SEEN.name, asked.stdout)
        self.assertIn("nothing was changed", asked.stderr)
        self.assertEqual(json.loads(self.run_it("epochs", "status", "--json").stdout)["epoch"], 0)
        done = self.run_it("epochs", "activate", "--yes")
        self.assertIn("epoch 1 is in force\n", done.stdout, done.stderr)
        self.assertIn("lose their SSH resources", done.stdout)
        again = self.run_it("epochs", "activate", "--epoch", "1", "--yes", "--json")
        self.assertFalse(json.loads(again.stdout)["changed"])
        told = [one for one in self.records() if one["event"] == "epoch.activate"]
        self.assertEqual([one["details"]["generation"] for one in told], [1])
        for decided in ((), ("--yes",)):
            later = self.run_it("epochs", "activate", "--epoch", "2", *decided)
            self.assertEqual((later.status, later.stdout), (1, ""))
            self.assertIn("knows epochs up to 1; upgrade it first", later.stderr)

    def test_nobody_affected(self) -> None:
        """What would be lost is told where it is nothing, too."""
        asked = self.run_it("epochs", "activate")
        self.assertEqual(asked.stdout, "epoch 0 is in force\nno Connector would lose SSH\n")
