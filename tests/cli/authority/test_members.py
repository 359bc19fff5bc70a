"""Nodes, persons and groups at the operator's terminal."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.routes import Registered
from svc.model.audit.events import KEY_EXPECT, KEY_WITHDRAW, NODE_REVOKE, TOKEN_CREATE
from svc.model.cluster.health import CheckFound, NodeHealth
from svc.model.cluster.node import Leaf, Node
from svc.model.cluster.token import parse_token
from svc.model.doctor import CheckSeverity
from tests.cli.terminal import LESS, NOW, PIN, POLICY, Authority, Place
from tests.support.proof import proves

SEEN = Node(
    id="a" * 26,
    name="db-1",
    role="connector",
    key_sha256=b"k" * 32,
    audit_key=b"a" * 32,
    leaf=Leaf("5f", b"k" * 32, NOW + 3600),
    enrolled_at=NOW - 60,
    last_seen=NOW - 5,
    version="0.11.0-rc.7\x1b[2J",
)
NEW = Node(
    id="b" * 26,
    name="edge",
    role="proxy",
    key_sha256=b"l" * 32,
    audit_key=b"b" * 32,
    leaf=Leaf("60", b"l" * 32, NOW - 1),
    enrolled_at=NOW - 60,
)


SICK = NodeHealth(
    node_id=SEEN.id,
    at=NOW,
    version="0.11.0",
    worst=CheckSeverity.FAIL,
    failed=1,
    warnings=1,
    found=(
        CheckFound("store.reachable", CheckSeverity.FAIL),
        CheckFound("identity.certificate", CheckSeverity.WARN),
    ),
)
UNCHECKED = NodeHealth(node_id=NEW.id, at=NOW, version="0.11.0", worst=None, failed=0, warnings=0)


def _register(tx: Any) -> None:
    tx.nodes.register(SEEN)
    tx.nodes.register(NEW)


def _report(reports: list[NodeHealth], tx: Any) -> None:
    tx.health.put(reports)


class NodeTests(SynchronousTestCase):
    """`nodes`."""

    def setUp(self) -> None:
        self.place, self.authority = Place(self), Authority()

    def run_it(self, *words: str, **options: Any) -> Any:
        """Run one command against the Authority of this test."""
        return self.place.run(*words, admin=self.authority, **options)

    @proves("X-37", "G-OPEN-07")
    def test_add_prints_the_token_alone(self) -> None:
        """Stdout is the token and nothing else; how to join with it goes to stderr."""
        added = self.run_it("nodes", "add", "edge", "--role", "proxy", "--public-name", "g.example")
        self.assertEqual(added.status, 0, added.stderr)
        token = added.stdout.removesuffix("\n")
        self.assertEqual(parse_token(token).text, token)
        self.assertNotIn(token, added.stderr)
        self.assertEqual(
            added.stderr,
            "token of the proxy edge: valid for one join until 2030-03-17T18:46:40Z\n"
            "store it on that machine in a file with mode 0600, owned by the role's user;\n"
            "its configuration needs:\n"
            "\n"
            'cluster = "c1.example.test"\n'
            "[join]\n"
            'token_file = "/path/of/that/file"\n'
            f'ca_pin = "{PIN}"\n'
            'authority = "127.0.0.1:7402"\n',
        )
        self.assertEqual(self.recorded(), [TOKEN_CREATE.name])

    def test_connector_joins_through_a_proxy(self) -> None:
        """A Connector's join lines name no join listener; its life is as long as asked for."""
        added = self.run_it("nodes", "add", "db-1", "--role", "connector", "--ttl", "60")
        self.assertIn("until 2030-03-17T17:47:40Z", added.stderr)
        self.assertTrue(
            added.stderr.endswith(f'ca_pin = "{PIN}"\n[endpoints]\nproxy = ["HOST:PORT"]\n')
        )

    def test_proxy_of_the_same_configuration(self) -> None:
        """With `svc all` the lines name the Proxy's own address, as people dial it."""
        for listen, names, expected in (
            ("127.0.0.1:7443", '["g.example"]', "g.example:7443"),
            ("127.0.0.1:7443", "[]", "127.0.0.1:7443"),
            ("0.0.0.0:7443", "[]", "HOST:7443"),
            ("127.0.0.1:0", "[]", "HOST:PORT"),
        ):
            place = Place(self)
            with place.config.open("a") as file:
                file.write(f'[endpoints]\npublic_listen = "{listen}"\npublic_names = {names}\n')
            node = place.run("nodes", "add", "db", "--role", "connector", admin=self.authority)
            self.assertIn(f'proxy = ["{expected}"]\n', node.stderr)
            person = place.run("persons", "add", "ana", admin=self.authority)
            self.assertTrue(
                person.stderr.endswith(f"svc join --proxy {expected} --ca-pin {PIN}\n"),
                person.stderr,
            )

    @proves("G-OPEN-75")
    def test_list_is_aligned(self) -> None:
        """The list is aligned; an empty value is a dash, and no terminal obeys a node's words."""
        self.authority.change(_register)
        self.assertEqual(
            self.run_it("nodes", "list").stdout,
            "NAME  ROLE       STATE   CONNECTED  VERSION             ID\n"
            f"db-1  connector  active  no         0.11.0-rc.7\\x1b[2J  {SEEN.id}\n"
            f"edge  proxy      active  no         -                   {NEW.id}\n",
        )

    def test_what_is_wrong(self) -> None:
        """A node that is active and away, or out of date, is told with what to do."""
        self.authority.change(_register)
        told = self.problems()
        self.assertIn("should have been renewed", told["db-1"])
        self.assertIn("not connected to any Proxy: start it", told["db-1"])
        self.assertIn("has expired: start it, have it join again", told["edge"])
        self.assertIn("not connected to the Authority", told["edge"])
        self.authority.registrations.refuse(SEEN.id, "resource_owned_by_peer")
        self.assertIn("is refused (resource_owned_by_peer)", self.problems()["db-1"])
        renewed = Leaf("61", b"l" * 32, NOW + 86400)
        fresh = [
            evolve(
                one,
                id=id,
                name=f"{one.name}-2",
                leaf=renewed,
                key_sha256=id[:16].encode() * 2,
                audit_key=id[:16].encode() * 2,
            )
            for one, id in ((SEEN, "c" * 26), (NEW, "d" * 26))
        ]
        self.authority.change(lambda tx: [tx.nodes.register(one) for one in fresh])
        self.register("c" * 26, NEW.id)
        for proxy in (NEW.id, "d" * 26):
            self.authority.peers.enter(proxy)
        told = self.problems()
        self.assertEqual(set(told), {"db-1", "edge"})
        shown = json.loads(self.run_it("nodes", "list", "--json").stdout)
        rows = {one["name"]: one for one in shown}
        one, missing = (rows["db-1-2"][name] for name in ("proxy_names", "missing_proxies"))
        self.assertEqual((one, missing), (["edge"], ["edge-2"]))
        self.assertEqual(rows["edge"]["problem"], told["edge"])
        listed = self.run_it("nodes", "list").stdout.splitlines()
        self.assertEqual(
            {line.split()[0]: line.split("active")[1].split("  ")[1] for line in listed[1:]},
            {"db-1": "no", "db-1-2": "1 of 2", "edge": "yes", "edge-2": "yes"},
        )

    def test_a_wrong_clock(self) -> None:
        """A clock that differs by what breaks sessions is told; a report that waited is not."""
        self.authority.change(_register)
        for secs, said in ((14, ""), (15, "15 s ahead of"), (-74, ""), (-75, "75 s behind")):
            self.authority.change(partial(_report, [evolve(SICK, clock_secs=secs)]))
            told = self.problems()["db-1"]
            self.assertIn(said, told)
            self.assertEqual(bool(said), "its clock is" in told, told)

    def problems(self) -> dict[str, str]:
        """What stands below the list, by node."""
        told = self.run_it("nodes", "list").stderr.splitlines()
        return dict(line.split(": ", 1) for line in told)

    def register(self, node_id: str, proxy_id: str) -> None:
        """A Connector registers through a Proxy."""
        self.authority.registrations.add(
            Registered(
                node_id=node_id,
                proxy_id=proxy_id,
                tunnel_id="t1",
                instance_id="i1",
                resources={},
                since=0.0,
                evict=lambda reason: None,
            )
        )

    @proves("X-35", "G-CLI-04")
    def test_health_of_the_sick(self) -> None:
        """`--health` shows what each node reported last, and exits 0 whatever that is."""
        self.authority.change(_register)
        shown = self.run_it("nodes", "list", "--health")
        self.assertEqual(shown.status, 0)
        first, second = shown.stdout.splitlines()[1:]
        self.assertRegex(first, r"2030-03-17T18:46:40Z  2030-03-17T17:46:35Z  -  +-  +-$")
        self.assertRegex(second, r"2030-03-17T17:46:39Z  -  +-  +-  +-$")
        self.authority.change(partial(_report, [SICK, evolve(UNCHECKED, at=NOW - 180.5)]))
        shown = self.run_it("list-nodes", "--health")
        self.assertEqual(shown.status, 0)
        first, second = shown.stdout.splitlines()[1:]
        both = "store.reachable,identity.certificate"
        self.assertTrue(first.endswith(f"2030-03-17T17:46:40Z  fail               {both}"), first)
        self.assertRegex(second, r"2030-03-17T17:43:39Z  unchecked \(stale\)  -$")

    @proves("G-OPEN-78", "G-OPEN-18")
    def test_health_as_json(self) -> None:
        """Every field of a node is there; a report is stale once it is older than 3 minutes."""
        self.authority.change(_register)
        for age, is_stale in ((179.5, False), (180.5, True)):
            reports = [SICK, evolve(UNCHECKED, at=NOW - age)]
            self.authority.change(partial(_report, reports))
            first, second = json.loads(self.run_it("list-nodes", "--health", "--json").stdout)
            self.assertEqual(second["health"]["stale"], is_stale)
        fields = "id name role state version leaf_serial leaf_expires epoch_capability"
        shown = {name: (first[name], second[name]) for name in fields.split()}
        self.assertEqual(
            shown,
            {
                "id": (SEEN.id, NEW.id),
                "name": (SEEN.name, NEW.name),
                "role": ("connector", "proxy"),
                "state": ("active", "active"),
                "version": (SEEN.version, None),
                "leaf_serial": (SEEN.leaf.serial, NEW.leaf.serial),
                "leaf_expires": ("2030-03-17T18:46:40Z", "2030-03-17T17:46:39Z"),
                "epoch_capability": (0, None),
            },
        )
        self.assertEqual(
            first["health"],
            {
                "at": "2030-03-17T17:46:40Z",
                "stale": False,
                "version": "0.11.0",
                "worst": "fail",
                "failed": 1,
                "warnings": 1,
                "found": [
                    {"id": "store.reachable", "severity": "fail"},
                    {"id": "identity.certificate", "severity": "warn"},
                ],
                "clock_secs": 0,
            },
        )
        self.assertEqual(first["last_seen"], first["health"]["at"])
        unknown = {name: second["health"][name] for name in ("worst", "failed", "warnings")}
        self.assertEqual(set(unknown.values()), {None})
        self.run_it("nodes", "revoke", NEW.name)
        rows = json.loads(self.run_it("list-nodes", "--health", "--json").stdout)
        self.assertEqual([one["state"] for one in rows], ["active", "revoked"])

    @proves("G-OPEN-75", "X-37")
    def test_list_as_json(self) -> None:
        """With --json stdout is one document, with null for what is not known."""
        self.authority.change(_register)
        shown = self.run_it("nodes", "list", "--json")
        self.assertEqual(shown.stderr, "")
        first, second = json.loads(shown.stdout)
        self.assertEqual(first["version"], SEEN.version)
        self.assertEqual((second["version"], second["last_seen"]), (None, None))
        self.assertNotIn("\x1b", shown.stdout)

    def test_revoke(self) -> None:
        """A node is revoked by its name, once; the change is on record."""
        self.authority.change(_register)
        revoked = self.run_it("nodes", "revoke", "db-1", "--reason", "stolen")
        self.assertEqual(revoked.stdout, f"revoked {SEEN.id}, 0 tunnel(s) ended\n")
        self.assertEqual(self.recorded(), [NODE_REVOKE.name])
        self.assertIn("revoked", self.run_it("nodes", "list").stdout.splitlines()[1])

    @proves("U-PHA-21", "X-89")
    def test_publication(self) -> None:
        """Every Connector publishes by hand; another way is refused as not in this version."""
        self.authority.change(_register)
        rows = json.loads(self.run_it("nodes", "list", "--json").stdout)
        self.assertEqual([one["publication"] for one in rows], ["manual", None])
        for words in ((), ("--set", "manual")):
            self.assertEqual(self.run_it("nodes", "publication", "db-1", *words).stdout, "manual\n")
        refused = self.run_it("nodes", "publication", "db-1", "--set", "automatic")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn("(publication_not_here)", refused.stderr)
        self.assertIn("(unknown_node)", self.run_it("nodes", "publication", "edge").stderr)
        self.assertEqual(self.recorded(), [])

    def test_expected_keys(self) -> None:
        """A key is expected, shown while its time lasts, and withdrawn."""
        words = ("nodes", "expect", "edge", "--role", "proxy", "--ttl", "60")
        said = self.run_it(*words, "--key", "ab" * 32)
        self.assertTrue(said.stdout.startswith("expected "), said.stderr)
        (row,) = json.loads(self.run_it("nodes", "expected", "--json").stdout)
        self.assertEqual((row["name"], row["key_sha256"], row["used"]), ("edge", "ab" * 32, False))
        done = self.run_it("nodes", "unexpect", row["id"])
        self.assertEqual(done.stdout, f"{row['id']} may no longer join\n")
        self.assertEqual(
            self.run_it("nodes", "expected").stdout.splitlines()[1].split()[:3],
            ["edge", "proxy", "used"],
        )
        self.assertEqual(self.recorded(), [KEY_EXPECT.name, KEY_WITHDRAW.name])
        self.assertEqual(self.run_it(*words, "--key", "xy").status, 64)

    def test_inventories(self) -> None:
        """A Connector shows what it is meant to serve and what it serves by; a Proxy neither."""
        self.authority.change(_register)
        served = Registered(
            node_id=SEEN.id,
            proxy_id="p" * 26,
            tunnel_id="t1",
            instance_id="i1",
            resources={},
            since=0.0,
            evict=lambda reason: None,
            inventory=1,
        )
        self.authority.registrations.add(served)
        self.run_it("resources", "add", "db", "--kind", "tcp", "--node", "db-1")
        rows = json.loads(self.run_it("nodes", "list", "--json").stdout)
        self.assertEqual(
            [(one["inventory_generation"], one["inventory_served"]) for one in rows],
            [(2, 1), (None, None)],
        )

    def test_refusal_names_its_reason(self) -> None:
        """A refusal of the Authority is one line on stderr with its reason word; status 1."""
        refused = self.run_it("nodes", "revoke", "nobody")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        listed = f"see `svc --config {self.place.config} authority nodes list`"
        told = f"svc: node nobody: not in the registry; {listed} (unknown_node)\n"
        self.assertEqual(refused.stderr, told)

    def test_policy_decides_about_operators(self) -> None:
        """An operator whom the policy does not permit gets the refusal, and no token is made."""
        self.assertEqual(self.run_it("policy", "set", "-", stdin=LESS.encode()).status, 0)
        refused = self.run_it("nodes", "add", "edge", "--role", "proxy")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn("manageNodes (denied)", refused.stderr)
        self.assertEqual(self.run_it("nodes", "list").status, 0)
        self.assertEqual(self.run_it("policy", "set", "-", stdin=POLICY.encode()).status, 0)

    def recorded(self) -> list[str]:
        """The events on record since the Authority began."""
        found: list[str] = []

        def look(tx: Any) -> None:
            found.extend(json.loads(row.canonical)["event"] for row in tx.audit.rows(2, 100))

        self.authority.change(look)
        return [one for one in found if one != "state.adopt"]


class PersonTests(SynchronousTestCase):
    """`persons` and `groups`."""

    def setUp(self) -> None:
        self.place, self.authority = Place(self), Authority()

    def test_add_and_list(self) -> None:
        """A person is added with groups; stdout is the token, the pin to join by on stderr."""
        added = self.place.run(
            "persons",
            "add",
            "ana",
            "--group",
            "ops",
            "--group",
            "db",
            "--create-groups",
            admin=self.authority,
        )
        token = added.stdout.removesuffix("\n")
        self.assertEqual(parse_token(token).text, token)
        self.assertIn(f"svc join --proxy HOST:PORT --ca-pin {PIN}\n", added.stderr)
        listed = self.place.run("persons", "list", admin=self.authority).stdout.splitlines()
        self.assertEqual(listed[0].split(), ["NAME", "STATE", "GROUPS", "ID"])
        self.assertEqual(listed[1].split()[:3], ["ana", "active", "db,ops"])
        (person,) = json.loads(
            self.place.run("persons", "list", "--json", admin=self.authority).stdout
        )
        self.assertEqual((person["name"], person["groups"]), ("ana", ["db", "ops"]))

    def groups_of(self, name: str) -> list[str]:
        """The groups that the list tells for a person."""
        listed = self.place.run("persons", "list", "--json", admin=self.authority)
        (found,) = [one for one in json.loads(listed.stdout) if one["name"] == name]
        return list(found["groups"])

    def test_who_is_there_is_not_widened(self) -> None:
        """Adding somebody who is there gives a token, and another group only where that is said."""
        ana = ("persons", "add", "ana")
        for group in ("ops", "db"):
            self.place.run("groups", "add", group, admin=self.authority)
        self.place.run(*ana, "--group", "ops", admin=self.authority)
        for words in ((), ("--group", "ops")):
            again = self.place.run(*ana, *words, admin=self.authority)
            self.assertEqual((again.status, self.groups_of("ana")), (0, ["ops"]), again.stderr)
        wider = self.place.run(*ana, "--group", "ops", "--group", "db", admin=self.authority)
        self.assertEqual((wider.status, wider.stdout), (1, ""))
        self.assertIn("person ana: already exists, in ops; to add ana to db", wider.stderr)
        self.assertIn("--join-groups", wider.stderr)
        self.assertEqual(self.groups_of("ana"), ["ops"])
        said = self.place.run(*ana, "--group", "db", "--join-groups", admin=self.authority)
        self.assertEqual((said.status, self.groups_of("ana")), (0, ["db", "ops"]))

    def test_group_must_be_there(self) -> None:
        """A group that nobody made is refused with how to make it, and nothing is added."""
        refused = self.place.run("persons", "add", "ana", "--group", "opps", admin=self.authority)
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        self.assertIn("group opps: does not exist", refused.stderr)
        self.assertIn(f"svc --config {self.place.config} authority groups add opps", refused.stderr)
        listed = self.place.run("persons", "list", "--json", admin=self.authority)
        self.assertEqual(listed.stdout, "[]\n")

    def test_empty_lists(self) -> None:
        """A list of nothing prints nothing and says so, or is an empty document."""
        said = self.place.run("persons", "list", admin=self.authority)
        self.assertEqual((said.status, said.stdout, said.stderr), (0, "", "no rows\n"))
        self.assertEqual(
            self.place.run("persons", "list", "--json", admin=self.authority).stdout, "[]\n"
        )

    def test_groups(self) -> None:
        """A group is added once; adding it again changes nothing and says so."""
        first = self.place.run("groups", "add", "ops", admin=self.authority)
        again = self.place.run("groups", "add", "ops", admin=self.authority)
        self.assertEqual(
            (first.stdout, again.stdout), ("added ops\n", "group ops already exists\n")
        )
        self.assertEqual(again.status, 0)
