"""``svc doctor`` beside running roles, and the periodic checks in them."""

from __future__ import annotations

import json
import socket
import time
from functools import cache
from threading import Event, Thread
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc import __version__
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import Ran, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.common import ROLES
from tests.system.world import around

VERSIONS = dict.fromkeys(ROLES, __version__)
LAST = "svc_doctor_last_run_timestamp_seconds"
INTERVAL = 1


@cache
def checked() -> Gateway:
    """A gateway whose Proxy checks itself each second; its Authority does not."""
    target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
    every = {"SVC_DOCTOR__CHECK_INTERVAL_SECS": str(INTERVAL)}
    return make_gateway([target], environ={PROXY: every})


def doctor(role: str, *words: str) -> Ran:
    """The command, beside the role."""
    config = str(checked().files.config(role))
    return run(svc_command("--config", config, "doctor", *words), checked().directory, seconds=60)


class BesideTests(SynchronousTestCase):
    """One-shot checks while everything runs."""

    @proves("G-DOC-03", "U-PHA-18")
    def test_healthy(self) -> None:
        """Every role passes, without one warning, and no role logs that it was checked."""
        ids = set[str]()
        for role in ROLES:
            done = doctor(role, "--json", "--strict")
            found = json.loads(done.stdout)
            self.assertEqual((done.status, done.stderr, found["result"]), (0, "", "pass"), found)
            if role == AUTHORITY:
                ids = {one["id"] for one in found["checks"]}
        self.assertLessEqual({"store.migrations", "audit.queue", "audit.log"}, ids)
        for role in ROLES:
            ends = checked().child(role).events("connection ended")
            self.assertNotIn("handshake_failed", {one.get("reason") for one in ends}, role)
        (listed,) = checked().operator("resources", "list", "--json").json
        self.assertEqual(listed["id"], "echo")

    @proves("X-18")
    def test_under_load(self) -> None:
        """Checks of a busy Authority take no lock: sessions open all the while, and none fails."""
        gateway = checked()
        person = gateway.add_person("ada", "ops")
        resident = person.up("echo")
        self.addCleanup(resident.stop)
        place, stop, opened = person.endpoint("echo"), Event(), list[bytes]()

        def open_sessions() -> None:
            while not stop.is_set():
                with socket.create_connection(place, 30) as one:
                    one.sendall(b"word")
                    opened.append(one.recv(4))

        opening = Thread(target=open_sessions)
        opening.start()
        try:
            until("a session", lambda: opened)
            before = len(opened)
            self.assertEqual(doctor(AUTHORITY).status, 0)
            during = len(opened)
        finally:
            stop.set()
            opening.join(60)
        self.assertGreater(during, before)
        self.assertEqual(set(opened), {b"word"})
        self.assertEqual(gateway.get(AUTHORITY, "/readyz")[0], 200)

    @proves("G-DOC-10", "G-CFG-06", "G-LIM-07", "X-09", "X-68")
    def test_no_series_by_hand(self) -> None:
        """Where no periodic checks are on, the command makes no series."""
        doctor(AUTHORITY)
        exposition = checked().get(AUTHORITY, "/metrics")[1]
        self.assertNotIn("svc_doctor", exposition)
        self.assertNotIn("svc_doctor", checked().get(CONNECTOR, "/metrics")[1])


class UnservedTests(SynchronousTestCase):
    """A resource that nobody serves, as an operator and a person see it."""

    def setUp(self) -> None:
        rows = self.listed("nodes")
        (self.node,) = [one["name"] for one in rows.values() if one["role"] == CONNECTOR]

    def listed(self, noun: str) -> dict[str, Any]:
        """The rows of an operator's list, by id."""
        return {one["id"]: one for one in checked().operator(noun, "list", "--json").json}

    def problem(self, resource: str) -> str:
        """What the operator's list says of a resource; empty: nothing, or it is not there."""
        row = self.listed("resources").get(resource)
        return "" if row is None else row["problem"] or ""

    def found(self) -> dict[str, Any]:
        """What doctor says of the resources that are served."""
        checks = json.loads(doctor(AUTHORITY, "--json").stdout)["checks"]
        (one,) = [one for one in checks if one["id"] == "policy.served"]
        return {name: one[name] for name in ("severity", "message", "hint")}

    def served_again(self) -> None:
        """As it was."""
        until("it is served", lambda: self.listed("resources")["echo"]["state"] == "served", 60)

    def test_not_declared(self) -> None:
        """Everybody who looks sees it, with what to do, and no policy is blamed for it."""
        gateway = checked()
        person = gateway.add_person("dora", "ops")
        add = ("resources", "add", "ecco", "--kind", "tcp", "--node", self.node)
        gateway.operator(*add).checked()
        self.addCleanup(gateway.operator, "resources", "remove", "ecco")
        until("the Connector has registered", lambda: "not declare" in self.problem("ecco"), 60)
        self.assertEqual(self.problem("echo"), "")
        told = gateway.operator("resources", "list").stderr
        self.assertIn(f"ecco: its Connector {self.node} is connected and does not", told)
        found = self.found()
        self.assertEqual(found["severity"], "warn")
        self.assertIn("nobody serves ecco: its Connector", found["message"])
        self.assertIn("connector.resources", found["hint"])
        (row,) = [
            one
            for one in person.svc("resources", "list", "--json").checked().json
            if one["resource"] == "ecco"
        ]
        self.assertEqual(row["served"], False)
        self.assertIn("no Connector that serves it is connected", row["problem"])
        refused = person.svc("proxy-ssh", "ecco", "--kind", "tcp")
        self.assertEqual(refused.status, 1)
        self.assertNotIn("policies", refused.stderr)
        self.assertIn("but no Connector has served", refused.stderr)
        decision = refused.stderr.partition("to see why: svc why ")[2].split()[0]
        why = person.svc("why", decision).checked().stdout
        self.assertRegex(why, r"decision +not_served\n")
        self.assertRegex(why, r"policies +-\n")
        self.assertRegex(why, r"meaning +the policy allows it, but no Connector")
        self.assertRegex(why, r"what to do +check the name with `svc resources list")

    def test_misspelled(self) -> None:
        """A Connector whose only resource has another id in the catalog: both ids are told."""
        gateway = checked()
        gateway.operator("resources", "remove", "echo").checked()
        gateway.operator("resources", "add", "ecoh", "--kind", "tcp", "--node", self.node)
        try:
            until(
                "the registration is refused",
                lambda: "none of the resources" in self.problem("ecoh"),
                60,
            )
            self.assertEqual(self.listed("resources")["echo"]["state"], "not_in_catalog")
            told = gateway.operator("resources", "list").stderr
            self.assertIn("ecoh and echo: is one of the names misspelled?", told)
            self.assertIn("nobody serves ecoh", self.found()["message"])
            nodes = gateway.operator("nodes", "list").stderr
            self.assertIn("its registration is refused (catalog_permits_none)", nodes)
        finally:
            gateway.operator("resources", "remove", "ecoh")
            gateway.operator("resources", "add", "echo", "--kind", "tcp", "--node", self.node)
            self.served_again()

    def test_not_connected(self) -> None:
        """A Connector that is gone: its resources, and the node itself, say so."""
        gateway = checked()
        gateway.child(CONNECTOR).kill()
        try:
            until("it is gone", lambda: "is not connected: start it" in self.problem("echo"), 60)
            self.assertEqual(self.found()["severity"], "warn")
            (row,) = [one for one in self.listed("nodes").values() if one["role"] == CONNECTOR]
            self.assertEqual((row["state"], row["connected"]), ("active", False))
            self.assertIn("it is not connected to any Proxy", row["problem"])
        finally:
            gateway.make_child(CONNECTOR)
            gateway.start(CONNECTOR)
            self.served_again()


class PeriodicTests(SynchronousTestCase):
    """The Proxy's own checks."""

    @proves("G-DOC-09", "G-CFG-06", "G-MET-36")
    def test_interval(self) -> None:
        """The time of the last run is close to now, and moves on by the interval."""
        times = set[float]()

        def three() -> bool:
            times.add(checked().metric(PROXY, LAST))
            return len(times - {0.0}) >= 3

        until("three runs", three)
        first, second, third = sorted(times - {0.0})[:3]
        for begun, after in ((first, second), (second, third)):
            self.assertGreaterEqual(after - begun, INTERVAL)
        self.assertLess(abs(time.time() - third), 10)

    @proves("G-MET-33", "G-MET-34", "G-MET-35", "G-DOC-05", "G-OPEN-28")
    def test_break_one_thing(self) -> None:
        """What is broken goes from 0 to 3 and back, is counted, and is logged once each time."""
        gateway, check = checked(), "identity.state_directory"
        state = gateway.files.state(PROXY)

        def status() -> float:
            return gateway.metric(PROXY, "svc_doctor_check_status", id=check, category="identity")

        gateway.await_metric(PROXY, "svc_doctor_failed", 0)
        self.assertEqual(status(), 0)
        state.chmod(0o755)
        try:
            until("it fails", lambda: status() == 3)
            self.assertEqual(gateway.metric(PROXY, "svc_doctor_failed"), 1)
            by_hand = json.loads(doctor(PROXY, "--json").stdout)
            self.assertEqual(by_hand["result"], "finding")
        finally:
            state.chmod(0o700)
        until("it is well again", lambda: status() == 0)
        samples = gateway.metrics(PROXY)
        values = [value for name, value in samples.items() if "doctor_check_status" in name]
        self.assertEqual(len(values), len(by_hand["checks"]))
        self.assertEqual(values.count(3), samples["svc_doctor_failed"])
        self.assertEqual(values.count(2), samples["svc_doctor_warnings"])
        told = gateway.child(PROXY).events("a check found something")
        self.assertEqual([one["severity"] for one in told if one["check"] == check], ["fail"])


class ReportedTests(SynchronousTestCase):
    """What the nodes report to Authority, as an operator lists it."""

    def health(self) -> dict[str, dict[str, Any]]:
        """The last report of every node that has reported, by role."""
        ran = checked().operator("list-nodes", "--health", "--json")
        self.assertEqual(ran.status, 0)
        return {row["role"]: row["health"] for row in ran.json if row["health"] is not None}

    @proves("G-CLI-04", "G-CLI-05", "G-OPEN-78", "X-35")
    def test_reports(self) -> None:
        """Every node reports; a stopped one keeps its report, and a sick one is listed with 0."""
        gateway = checked()
        until("everybody reported", lambda: set(self.health()) == set(ROLES), 60)
        first = self.health()
        self.assertEqual({role: one["version"] for role, one in first.items()}, VERSIONS)
        self.assertEqual({one["stale"] for one in first.values()}, {False})
        self.assertIsNotNone(first[PROXY]["worst"])
        self.assertEqual(first[AUTHORITY]["worst"], None)  # it makes no checks
        gateway.child(CONNECTOR).kill()
        kept = self.health()[CONNECTOR]
        # One more report may have come before the kill.
        self.assertGreaterEqual(kept["at"], first[CONNECTOR]["at"])
        self.assertEqual({**kept, "at": ""}, {**first[CONNECTOR], "at": ""})
        self.addCleanup(gateway.start, CONNECTOR)
        self.addCleanup(gateway.make_child, CONNECTOR)
        self.addCleanup(gateway.child(CONNECTOR).kill)
        gateway.environ[CONNECTOR] = {
            "SVC_DOCTOR__CHECK_INTERVAL_SECS": "1",
            "SVC_TELEMETRY__METRICS_LISTEN": '"0.0.0.0:0"',
        }
        self.addCleanup(gateway.environ.pop, CONNECTOR)
        gateway.make_child(CONNECTOR)
        gateway.start(CONNECTOR)
        self.addCleanup(gateway.child(CONNECTOR).kill)
        until("it reports again", lambda: self.health()[CONNECTOR]["worst"] == "warn", 60)
        sick = self.health()[CONNECTOR]
        self.assertGreater(sick["at"], first[CONNECTOR]["at"])
        self.assertEqual(sick["found"], [{"id": "network.telemetry_bind", "severity": "warn"}])
        shown = gateway.operator("list-nodes", "--health")
        self.assertEqual(shown.status, 0)
        self.assertRegex(shown.stdout, "warn +network.telemetry_bind")
