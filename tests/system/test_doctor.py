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
