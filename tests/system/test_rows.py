"""Series, commands and health of a running gateway, a row of the checklist at a time."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc import __version__
from svc.config.keys import KEYS
from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import environment, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.common import ROLES, eve, shared
from tests.system.second_writer import removed, stored, taken_over
from tests.system.test_health import probes, root_of
from tests.system.test_roles import bea, through

RUN_BY = "make fault"

APPLIED, STORED = "svc_policy_version_applied", "svc_policy_version_stored"


def versions(gateway: Gateway) -> tuple[float, float]:
    """The policy version applied, and the one that the latest reload pass saw."""
    told = gateway.metrics(AUTHORITY)
    labelled = {name.partition("{")[0]: value for name, value in told.items()}
    return labelled[APPLIED], labelled[STORED]


def store_of(gateway: Gateway) -> sqlite3.Connection:
    """The Authority's store, beside it."""
    return sqlite3.connect(gateway.files.store, timeout=10, isolation_level=None)


class AssignmentTests(SynchronousTestCase):
    """Who may serve a resource, as an operator changes it."""

    def test_taken_and_given_back(self) -> None:
        """A resource that is taken away loses its sessions at once; given back it opens again."""
        gateway, person = shared(), bea()
        node: dict[str, Any] = until("it serves what it is meant to", lambda: self.served(gateway))
        held = self.held(person)
        told = gateway.operator("resources", "unassign", "echo").stdout
        self.assertIn("unassigned echo, assignment ", told)
        self.assertEqual(held.wait(30), 1)
        refused = person.svc("proxy-ssh", "echo", "--kind", "tcp")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        gateway.operator("resources", "assign", "echo", "--node", node["name"])
        until("echo is served", lambda: self.row(gateway)["state"] == "served")
        self.assertEqual(through(person), b"word")
        after: dict[str, Any] = until("it knows of both", lambda: self.served(gateway))
        self.assertEqual(after["inventory_served"], node["inventory_served"] + 2)
        bindings = gateway.operator("resources", "bindings", "echo", "--json").json
        self.assertEqual(
            [one["node_name"] for one in bindings][-3:], [node["name"], None, node["name"]]
        )

    def served(self, gateway: Gateway) -> dict[str, Any] | None:
        """The Connector, once it serves the newest generation."""
        node: dict[str, Any] = self.connector(gateway)
        is_served = node["inventory_served"] == node["inventory_generation"]
        return node if is_served else None

    def held(self, person: GatewayPerson) -> subprocess.Popen[bytes]:
        """A session of its own that passes bytes and stays."""
        process = subprocess.Popen(
            svc_command("proxy-ssh", "echo", "--kind", "tcp"),
            env=environment(person.home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stdin is not None and process.stdout is not None
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        process.stdin.write(b"held")
        process.stdin.flush()
        self.assertEqual(process.stdout.read(4), b"held")
        return process

    def connector(self, gateway: Gateway) -> dict[str, Any]:
        """The registry's row of the Connector that serves the resource, or did."""
        rows: list[dict[str, Any]] = gateway.operator("nodes", "list", "--json").json
        bindings = gateway.operator("resources", "bindings", "echo", "--json").json
        names = [one["node_name"] for one in bindings if one["node_name"]]
        return next(one for one in rows if one["name"] == names[-1])

    def row(self, gateway: Gateway) -> dict[str, Any]:
        """The catalog's row of the resource."""
        rows: list[dict[str, Any]] = gateway.operator("resources", "list", "--json").json
        return next(one for one in rows if one["id"] == "echo")


class StatusTests(SynchronousTestCase):
    """What is compared before and after an upgrade."""

    @proves("U-VER-02", "U-VER-03", "U-VER-04", "U-OPEN-19", "U-NOTE-37")
    def test_versions_and_serving(self) -> None:
        """One command tells policy, catalog, schema, leader, last record and what is served."""
        gateway = shared()
        gateway.await_ready(AUTHORITY)
        before = until("all is served", lambda: self.whole(gateway))
        gateway.operator("resources", "unassign", "vault")
        try:
            after = gateway.status()
            self.assertEqual(after["catalog_version"], before["catalog_version"] + 1)
            self.assertEqual(after["policy_version"], before["policy_version"])
            self.assertEqual(after["store"], before["store"])
            self.assertEqual(after["leader"], before["leader"])
            newest = gateway.operator("audit", "show", "--json", "--last", "50").json
            seqs = {one["seq"]: one["event"] for one in newest}
            self.assertEqual(seqs[after["audit_seq"]], after["last_event"])
            self.assertIn("resource.change", seqs.values())
            self.assertEqual(self.meant(after), self.meant(before) - 1)
            self.assertEqual((after["version"], after["ready"]), (__version__, True))
            gateway.verify()
            for role in ROLES:
                paths = ("/healthz", "/readyz")
                told = [gateway.get(role, path)[0] for path in paths]
                self.assertEqual(told, [200, 200], role)
        finally:
            node = next(one for one in before["serving"] if one["resources"])["node_name"]
            gateway.operator("resources", "assign", "vault", "--node", node)
            until("all is served", lambda: self.whole(gateway))
        gateway.child(CONNECTOR).stop()
        try:
            gone = until(
                "the loss is told", lambda: None if self.whole(gateway) else gateway.status()
            )
            self.assertIn(False, [one["connected"] for one in gone["serving"]])
        finally:
            gateway.start(CONNECTOR)
            gateway.await_tunnels(1)

    def whole(self, gateway: Gateway) -> dict[str, Any] | None:
        """The status, once whatever is assigned to a connected Connector is served."""
        told = gateway.status()
        less = [one for one in told["serving"] if one["resources"] != one["resources_served"]]
        return None if less else told

    def meant(self, told: dict[str, Any]) -> int:
        """How many resources are assigned."""
        return sum(one["resources"] for one in told["serving"])


class KeyTests(SynchronousTestCase):
    """Joining without a token."""

    @proves("U-NOTE-13")
    def test_joins_by_its_key(self) -> None:
        """A Connector says which key it has; once that is expected it joins with no token."""
        gateway = shared()
        gateway.files.add_connector("keyed", [GatewayTarget("keyed", "127.0.0.1:1")])
        table = gateway.files.table("keyed")
        del table["join.token_file"]
        gateway.files.write("keyed", table | {"join.by_key": True})
        child = gateway.make_child("keyed", CONNECTOR)
        self.addCleanup(gateway.roles.pop, "keyed")
        self.addCleanup(child.end)
        child.start()
        self.assertEqual(child.wait(), 1)
        found = re.search("this node's key is ([0-9a-f]{64})", child.text())
        assert found is not None, child.tail()
        words = ("nodes", "expect", "keyed", "--role", "connector", "--key", found[1])
        gateway.operator(*words)
        gateway.start("keyed")
        joined = gateway.files.state("keyed") / "identity" / "current"
        until("keyed joined", joined.exists, alive=[child])
        self.assertFalse(gateway.files.token("keyed").exists())
        expected = gateway.operator("nodes", "expected", "--json").json
        (row,) = [one for one in expected if one["name"] == "keyed"]
        self.assertEqual((row["name"], row["used"]), ("keyed", True))
        gateway.operator("nodes", "revoke", "keyed")


class DecisionTests(SynchronousTestCase):
    """What is counted of decisions."""

    @proves("G-MET-10", "G-MET-11")
    def test_issuance(self) -> None:
        """Allowed, denied and served by nobody: each moves its decision by one, and is timed."""
        gateway, person = shared(), bea()
        gateway.operator("resources", "add", "idle", "--kind", "tcp")
        until("idle is known", lambda: "idle" in {one["resource"] for one in person.listed()})
        words = ("allow", "deny", "not_served")
        before, timed = self.decisions(gateway, words), self.timed(gateway)
        self.assertEqual(through(person), b"word")
        for resource in ("vault", "idle"):
            refused = person.svc("proxy-ssh", resource, "--kind", "tcp")
            self.assertEqual((refused.status, refused.stdout), (1, ""))
            self.assertIn("to see why: svc why ", refused.stderr)
        after = self.decisions(gateway, words)
        self.assertEqual([now - then for now, then in zip(after, before, strict=True)], [1.0] * 3)
        self.assertEqual(self.timed(gateway), timed + 3)

    def timed(self, gateway: Gateway) -> float:
        """How many issuance decisions have their time in the histogram."""
        name = "svc_authorize_duration_seconds_count"
        return gateway.metric(AUTHORITY, name, action="connect")

    def decisions(self, gateway: Gateway, words: tuple[str, ...]) -> list[float]:
        """The issuance counter by decision."""
        name = "svc_authorize_total"
        return [gateway.metric(AUTHORITY, name, action="connect", decision=word) for word in words]


class RefusalTests(SynchronousTestCase):
    """What somebody is told who may view nothing."""

    @proves("G-OPEN-06")
    def test_hidden_and_invented(self) -> None:
        """A resource that is hidden and a name that never was are refused in the same words."""
        shared()
        texts = set()
        for name in ("echo", "vault", "nosuch"):
            refused = eve().svc("proxy-ssh", name, "--kind", "tcp")
            self.assertEqual((refused.status, refused.stdout), (1, ""))
            self.assertIn("reason denied", refused.stderr)
            texts.add(re.sub("[0-9a-f]{32}", "ID", refused.stderr.replace(name, "NAME")))
        self.assertEqual(len(texts), 1, texts)


class PolicyVersionTests(SynchronousTestCase):
    """The policy version that is stored and the one that decides."""

    def setUp(self) -> None:
        self.gateway = shared()
        self.text = self.gateway.operator("policy", "show", "--json").json["text"]

    @proves("G-MET-43", "G-MET-44", "G-LIM-02", "G-POL-01")
    def test_versions_of_another_writer(self) -> None:
        """A reload pass, each 10 s by default, applies what it finds stored unless refused."""
        [default] = [key.default for key in KEYS if key.path == "snapshot.reload_secs"]
        self.assertEqual(default, 10)
        gateway = self.gateway
        number = int(versions(gateway)[0])
        gateway.set_policy(self.text + "// the next\n")
        until("in force", lambda: versions(gateway) == (number + 1, number + 1))
        number = stored(gateway, self.text + "// by another\n") - 1
        until("in force", lambda: versions(gateway) == (number + 1, number + 1))
        version = stored(gateway, "permit everything")
        try:
            until("seen", lambda: versions(gateway) == (number + 1, version))
            self.assertEqual(gateway.status()["policy_version"], number + 1)
        finally:
            removed(gateway, version)
        until("seen", lambda: versions(gateway) == (number + 1, number + 1))
        taken_over(gateway)
        until("still", lambda: versions(gateway) == (number + 1, number + 1))

    @proves("G-ROLE-06")
    def test_history(self) -> None:
        """Each change gets the next version, which is reported; the history lists them all."""
        gateway, number = self.gateway, int(versions(self.gateway)[0])
        for text in ("// one more\n", "// and another\n"):
            gateway.set_policy(self.text + text)
        until("in force", lambda: versions(gateway) == (number + 2, number + 2))
        self.assertEqual(gateway.status()["policy_version"], number + 2)
        history = gateway.operator("policy", "history", "--json").json
        listed = [row["policy_version"] for row in history]
        self.assertEqual(listed[:3], [number + 2, number + 1, number])

    @proves("X-49")
    def test_stored_moves_at_a_pass_only(self) -> None:
        """Setting a policy moves what is applied at once; what is stored waits for the pass."""
        gateway = self.gateway
        gateway.configure(AUTHORITY, {"snapshot.reload_secs": 600})
        try:
            gateway.restart(AUTHORITY)
            number, seen = versions(gateway)
            self.assertEqual(seen, number)
            gateway.set_policy(self.text + "// moved\n")
            self.assertEqual(versions(gateway), (number + 1, number))
        finally:
            gateway.configure(AUTHORITY, {"snapshot.reload_secs": 1})
            gateway.restart(AUTHORITY)
            gateway.await_tunnels(1)
        until("the pass", lambda: versions(gateway) == (number + 1, number + 1))


class BoundTests(SynchronousTestCase):
    """What a stranger can do to the series."""

    @proves("G-MET-04", "G-LIM-05", "X-14")
    def test_names_of_callers(self) -> None:
        """Invented methods, paths and verbs make no series and appear in none."""
        gateway = shared()
        canary = "canary6f2a"
        methods = [f"/gate.v1.{canary}{number}/Open" for number in range(20)]
        methods += [f"/gate.v1.Session/{canary}{number}" for number in range(20)]
        methods += ["/gate.v1.Session/Why", "/gate.v1.Relay/Open"]
        ask = {"address": gateway.public, "root": root_of(), "methods": methods}
        before = set(gateway.metrics(PROXY))
        gateway.get(PROXY, f"/{canary}?{canary}={canary}")
        probes(ask)
        self.assertLess(len(set(gateway.metrics(PROXY)) - before), 5)
        for role in ROLES:
            self.assertNotIn(canary, gateway.get(role, "/metrics")[1])


class LivenessTests(SynchronousTestCase):
    """``/healthz`` of a role whose surroundings fail."""

    @proves("X-86", "G-TEL-03")
    def test_store_held(self) -> None:
        """An Authority whose store is held by another writer still says that it is alive."""
        gateway = shared()
        with closing(store_of(gateway)) as store:
            store.execute("BEGIN IMMEDIATE")
            begun = time.monotonic()
            while time.monotonic() < begun + 1.5:  # longer than its reload pass
                self.assertEqual(gateway.get(AUTHORITY, "/healthz")[0], 200)
            store.execute("ROLLBACK")
        gateway.await_ready(AUTHORITY)


class CommandTests(SynchronousTestCase):
    """The program's own words."""

    @proves("G-CLI-25")
    def test_version(self) -> None:
        """`svc --version` prints the version and nothing else."""
        ran = run(svc_command("--version"), shared().directory)
        self.assertEqual((ran.status, ran.stderr), (0, ""))
        self.assertIn(__version__, ran.stdout)

    @proves("G-GEN-03")
    def test_another_program_s_file(self) -> None:
        """Nobody reads the agent tool's file, from which an open would not come back."""
        gateway, person = shared(), bea()
        for place in (person.home, gateway.directory, gateway.files.state(PROXY)):
            tools = place / ".tool"
            tools.mkdir()
            self.addCleanup(shutil.rmtree, tools)
            os.mkfifo(tools / "config.toml")
        config = ("--config", str(gateway.files.config(PROXY)))
        for words in (("--version",), ("contexts", "list"), (*config, "doctor", "--role", "proxy")):
            self.assertIn(run(svc_command(*words), person.home).status, (0, 2), words)
        gateway.operator("nodes", "list")
        gateway.restart(PROXY)
        gateway.await_tunnels(1)
        self.assertEqual(through(person), b"word")

    @proves("G-CLI-01")
    def test_configuration_before_or_after(self) -> None:
        """`--config` is taken before the command, and after it as well."""
        gateway = shared()
        config = ("--config", str(gateway.files.config(AUTHORITY)))
        before = run(svc_command(*config, "authority", "nodes", "list"), gateway.directory)
        after = run(svc_command("authority", "nodes", "list", *config), gateway.directory)
        self.assertEqual((before.status, after.status), (0, 0), after.stderr)
        self.assertIn(PROXY, before.stdout)
        self.assertEqual(after.stdout, before.stdout)
