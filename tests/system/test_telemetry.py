"""Health, readiness, metrics and logs of running roles, looked at with stock tools."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.processes import CUT, Child, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.common import PROFILE, ROLES, shared

KNOWN = ("/healthz", "/readyz", "/metrics")
UNKNOWN = ("/", "/metricsx", "/healthz/", "/debug", "//metrics", "/%6detrics", "/../metrics")
METHODS = ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "HEAD")
DEPLOYMENT = 'deployment="' + PROFILE.replace("\\", "\\\\").replace('"', '\\"') + '"'


def matrix(curl: str, address: str) -> dict[tuple[str, str], int]:
    """The status that curl is answered, by method and path; one connection for all."""
    asked = [*product(("GET",), (*KNOWN, *UNKNOWN)), *product(METHODS, (*KNOWN, "/nope"))]
    words = [curl]
    for method, path in asked:
        how = ["--head"] if method == "HEAD" else ["--request", method]
        show = ["--output", "/dev/null", "--write-out", "%{http_code}\\n", "--max-time", "10"]
        words += ["--silent", "--path-as-is", *show, *how, f"http://{address}{path}", "--next"]
    done = subprocess.run(words[:-1], capture_output=True, text=True, timeout=60, check=True)
    return dict(zip(asked, map(int, done.stdout.split()), strict=True))


def address_of(gateway: Gateway, role: str) -> str:
    """The telemetry listener of a role."""
    return gateway.listening(role)["telemetry"]


def check_metrics(promtool: str, exposition: str) -> str:
    """What ``promtool check metrics`` says against it; empty when it is clean."""
    done = subprocess.run(
        [promtool, "check", "metrics"], input=exposition, capture_output=True, text=True, timeout=60
    )
    return f"{done.returncode} {done.stdout}{done.stderr}".removeprefix("0 ")


def samples(exposition: str) -> list[str]:
    """The lines that are no comment."""
    return [line for line in exposition.splitlines() if not line.startswith("#")]


class SurfaceTests(SynchronousTestCase):
    """What each role's telemetry listener answers."""

    @proves("G-TEL-02", "G-TEL-06", "G-TEL-07", "G-TEL-08", "G-ERR-01", "G-ERR-02", "G-MET-02")
    def test_matrix(self) -> None:
        """curl: GET of three paths is answered, of others 404; any other method is 405."""
        curl = stock_tool("curl")
        for role in ROLES:
            for (method, path), status in matrix(curl, address_of(shared(), role)).items():
                expected = 405 if method != "GET" else 200 if path in KNOWN else 404
                self.assertEqual(status, expected, f"{role}: {method} {path}")

    @proves("G-TEL-01")
    def test_plain(self) -> None:
        """It is plain HTTP without credentials: a TLS hello is no request to it."""
        for role in ROLES:
            host, _, port = address_of(shared(), role).rpartition(":")
            with socket.create_connection((host, int(port)), 0.5) as plain:
                context = ssl.create_default_context()
                self.assertRaises(OSError, context.wrap_socket, plain, server_hostname="x")

    @proves("G-TEL-05", "G-MET-01", "G-MET-05")
    def test_metrics(self) -> None:
        """promtool finds no fault; each series begins svc_ and carries the awkward profile.

        No role needs a license, and none speaks of one.
        """
        promtool = stock_tool("promtool")
        for role in ROLES:
            exposition = shared().get(role, "/metrics")[1]
            self.assertEqual(check_metrics(promtool, exposition), "", role)
            lines = samples(exposition)
            self.assertGreater(len(lines), 2, role)
            for line in lines:
                self.assertTrue(line.startswith("svc_"), line)
                self.assertIn(DEPLOYMENT, line)
            self.assertNotIn("license", exposition)

    @proves("G-MET-03", "G-MET-07")
    def test_counters(self) -> None:
        """From one scrape to the next no counter goes down."""
        for role in ROLES:
            first, second = (shared().metrics(role) for _ in range(2))
            for name, value in first.items():
                if "_total" in name:
                    self.assertGreaterEqual(second[name], value, f"{role}: {name}")


class LogTests(SynchronousTestCase):
    """What each role has written since it was started first, at every level."""

    @proves("G-LOG-02", "G-LOG-03", "G-LOG-06", "G-LOG-11", "G-CFG-05", "X-38")
    def test_every_line(self) -> None:
        """Each line of stdout and stderr is one JSON object of the log, with the profile."""
        gateway = shared()
        for role in ROLES:
            child = gateway.child(role)
            # The last line may be half written, as may one of a process that was killed.
            lines = child.text(whole=True).split("\n")[:-1]
            records = [json.loads(line) for line in lines if not line.endswith(CUT)]
            self.assertEqual({record["profile"] for record in records}, {PROFILE}, role)
            started = [one for one in records if one["message"] == "started"]
            self.assertEqual(
                {(one["role"], one["version"] != "") for one in started}, {(role, True)}
            )
            self.assertGreater(len({record["target"] for record in records}), 2, role)


class ReadinessTests(SynchronousTestCase):
    """When ``/readyz`` turns, and that it never turns back at a Proxy or Connector."""

    def setUp(self) -> None:
        self.gateway = shared()
        self.addCleanup(self.all_up)

    def all_up(self) -> None:
        """Leave every role running, with its profile, as it was found."""
        for role in ROLES:
            child = self.gateway.child(role)
            if not child.is_alive:
                self.gateway.start(role)
        self.gateway.await_tunnels(1)

    def status(self, role: str, path: str = "/readyz") -> int:
        """What a path answers now."""
        return self.gateway.get(role, path)[0]

    def up(self, role: str) -> Child:
        """Start a role and wait for its telemetry listener alone."""
        child = self.gateway.start(role, ready=False)

        def look() -> bool:
            try:
                return self.status(role, "/healthz") == 200
            except OSError:
                return False

        until(f"{role} alive", lambda: self.gateway.listening(role) and look(), alive=[child])
        return child

    @proves(
        "G-TEL-03",
        "G-TEL-04",
        "G-TEL-10",
        "G-ERR-03",
        "G-RDY-02",
        "G-RDY-03",
        "G-RDY-04",
        "G-RDY-10",
        "G-ROLE-19",
        "X-27",
        "X-29",
        "X-30",
        "X-86",
    )
    def test_alone(self) -> None:
        """Each role's readiness is its own: a Proxy waits for Authority, a Connector for nobody."""
        gateway = self.gateway
        gateway.child(AUTHORITY).kill()
        for role in (PROXY, CONNECTOR):
            self.assertEqual((self.status(role), self.status(role, "/healthz")), (200, 200), role)
        gateway.child(PROXY).kill()
        self.assertEqual((self.status(CONNECTOR), self.status(CONNECTOR, "/healthz")), (200, 200))
        gateway.child(CONNECTOR).kill()
        self.up(CONNECTOR)
        gateway.await_ready(CONNECTOR)
        before = gateway.metric(CONNECTOR, "svc_connector_reconnects_total")
        until(
            "further dials",
            lambda: gateway.metric(CONNECTOR, "svc_connector_reconnects_total") > before + 1,
        )
        proxy = self.up(PROXY)
        status, body = gateway.get(PROXY, "/readyz")
        self.assertEqual((status, body.splitlines()[0]), (503, "not ready: control pool"))
        self.assertEqual(self.status(PROXY, "/healthz"), 200)
        gateway.start(AUTHORITY)
        gateway.await_ready(PROXY)
        self.assertTrue(proxy.is_alive)
        gateway.await_tunnels(1)

    @proves("G-RDY-01", "G-ROLE-24")
    def test_authority_binds_all(self) -> None:
        """An Authority with one port taken is never ready; once ready, every port accepts."""
        gateway = self.gateway
        addresses = dict(gateway.listening(AUTHORITY))
        del addresses["telemetry"]  # by itself elsewhere after each start
        self.assertLessEqual({"control", "join", "renewal"}, set(addresses))
        child = gateway.child(AUTHORITY)
        child.stop()
        host, _, port = addresses["renewal"].rpartition(":")
        with socket.create_server((host, int(port))):
            child.start()
            self.assertEqual(child.wait(), 1)
        (said,) = child.events("refused")
        self.assertIn(f"endpoints.renewal_listen: cannot listen on {host}:{port}", said["text"])
        self.assertEqual((child.events("started"), said["profile"]), ([], PROFILE))
        child.start()
        seen: list[str] = []

        def accepts(address: str) -> bool:
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host, int(port)), 10).close()
            except ConnectionRefusedError:
                return False
            return True

        def is_ready() -> bool:
            try:
                status, body = gateway.get(AUTHORITY, "/readyz")
            except (OSError, KeyError):
                return False
            seen.append(body)
            # By the moment it says so each port has to be there, not a moment later.
            return status == 200 and all(accepts(each) for each in addresses.values())

        until("every port accepts", is_ready, alive=[child])
        self.assertEqual([body for body in seen if body == "ready\n"], ["ready\n"])


class NoProfileTests(SynchronousTestCase):
    """Roles that are given no profile."""

    @proves("G-LOG-05", "G-MET-05", "G-TEL-05")
    def test_without(self) -> None:
        """Without a profile no series has the label and no line the field; promtool is content."""
        promtool = stock_tool("promtool")
        gateway = shared()
        for role in ROLES:
            child = gateway.child(role)
            given = child.environ
            child.environ = {name: each for name, each in given.items() if name != "SVC_PROFILE"}
            try:
                gateway.restart(role)
                exposition = gateway.get(role, "/metrics")[1]
                self.assertEqual(check_metrics(promtool, exposition), "", role)
                self.assertNotIn("deployment=", exposition)
                self.assertTrue(all(line.startswith("svc_") for line in samples(exposition)))
                self.assertEqual([one for one in child.events() if "profile" in one], [], role)
            finally:
                child.environ = given
                gateway.restart(role)
        gateway.await_tunnels(1)
