"""Each role under twistd: the same process, in our log's format and with our exit statuses."""

from __future__ import annotations

import http.client
import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.processes import Child, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY
from tests.support.files import contents_below
from tests.support.proof import proves
from tests.system.common import shared
from tests.system.starts import Start, faults
from tests.system.test_hangup import hang_up
from tests.system.test_start_refusals import CONNECTOR as CONNECTOR_CONFIG
from tests.system.test_start_refusals import PROXY as PROXY_CONFIG

SCRIPT = (str(Path(sys.executable).parent / "twistd"),)
FORKED = (sys.executable, "-m", "tests.support.twistd")


LEAN = ("--reactor", "svc")


def twistd(
    role: str, config: str, *options: str, program: Sequence[str] = FORKED
) -> tuple[str, ...]:
    """The command line of a role, in the foreground."""
    return (*program, "-n", "--pidfile=", *options, f"svc-{role}", "--config", config)


@contextmanager
def instead(gateway: Gateway, role: str, *options: str) -> Iterator[Child]:
    """A role of a gateway under twistd; under ``svc`` again at the end."""
    child = gateway.child(role)
    child.stop()
    before: Sequence[str] = child.words
    child.words = twistd(role, str(gateway.files.config(role)), *options)
    try:
        yield child
    finally:
        child.kill()
        child.words = before
        gateway.start(role)


class RoleTests(SynchronousTestCase):
    """The roles of a running gateway, each in turn."""

    def in_turn(self, role: str, *options: str) -> None:
        """Start it under twistd, see it at work, end it by SIGTERM."""
        gateway = shared()
        with instead(gateway, role, *options) as child:
            gateway.start(role)
            gateway.await_tunnels(1)
            self.assertEqual(gateway.get(role, "/readyz"), (200, "ready\n"))
            hang_up(gateway, role)
            self.assertEqual(child.stop(), 0)
            self.assertEqual(len(child.events()), len(child.text().splitlines()))
            self.assertTrue(all("profile" in event for event in child.events()))
            (started,) = child.events("started")
            (stopping,) = child.events("stopping")
            self.assertEqual((started["role"], stopping["role"]), (role, role))
            self.assertFalse((gateway.directory / "twistd.pid").exists())

    def test_authority(self) -> None:
        """An Authority."""
        self.in_turn(AUTHORITY)

    def test_proxy(self) -> None:
        """A Proxy, on the lean reactor."""
        self.in_turn(PROXY, *LEAN)

    def test_connector(self) -> None:
        """A Connector."""
        self.in_turn(CONNECTOR)

    def test_client(self) -> None:
        """A person's resident; a second one says so and ends with 1."""
        person = shared().add_person("cy", "ops")  # whose resident runs nowhere else
        config = str(person.directory / "client.toml")
        words = twistd("client", config)
        child = Child(
            name="twistd-client", words=words, home=person.home, log=person.home / "twistd.log"
        )
        child.start()
        try:
            until("status", lambda: person.status().get("running"), alive=[child])
            again = Child(
                name="again", words=words, home=person.home, log=person.home / "again.log"
            )
            again.start()
            self.assertEqual(again.wait(), 1)
            self.assertIn("svc: svc up is already running from ", again.text())
            self.assertEqual(child.stop(), 0)
        finally:
            child.end()


class AllTests(SynchronousTestCase):
    """``svc all``, alone."""

    @proves("G-OPEN-43", "G-CFG-09")
    def test_all(self) -> None:
        """What ``svc init --all`` wrote becomes ready in one process; SIGTERM ends it with 0.

        Without migrating by itself it waits, up and not ready, for the store to be migrated, and
        goes on then; should a newer build have done it, the process ends with 4.
        """
        directory = Path(self.mktemp()).absolute()
        directory.mkdir(0o700, parents=True)
        public, first, *_ = free_ports()
        made = ["--public-port", str(public), "--authority-port", str(first)]
        run(svc_command("init", "--all", *made, str(directory / "gw")), directory).checked()
        (store,) = directory.glob("gw/**/store.db")
        migrated = directory / "migrated.db"
        store.rename(migrated)
        words = twistd("all", str(directory / "gw" / "all.toml"), program=SCRIPT)
        environ = {
            "SVC_TELEMETRY__METRICS_LISTEN": '"127.0.0.1:0"',
            "SVC_STORE_AUTO_MIGRATE": "false",
        }
        child = Child(
            name="all", words=words, home=directory, log=directory / "log", environ=environ
        )
        try:
            listening = self.waiting(child, directory)
            self.assertLessEqual({"public", "control", "join", "renewal"}, set(listening))
            migrated.rename(store)
            until("ready", lambda: self.status(listening["telemetry"]) == 200, alive=[child])
            self.assertEqual(child.stop(), 0)

            store.rename(migrated)
            child.words = twistd("all", str(directory / "gw" / "all.toml"))
            self.waiting(child, directory)
            with sqlite3.connect(migrated) as connection:
                connection.execute("INSERT INTO svc_migrations VALUES ('m9999_x', 'x', 1, 'y')")
            connection.close()
            migrated.rename(store)
            self.assertEqual(child.wait(), 4)
            self.assertIn("does not know (m9999_x)", child.text())
        finally:
            child.end()

    def waiting(self, child: Child, directory: Path) -> dict[str, str]:
        """Start it over no store, and see it wait for the migration; what it listens on."""
        child.start()
        listening = until("listeners", lambda: self.listening(directory), alive=[child])
        self.assertEqual(self.status(listening["telemetry"], "/healthz"), 200)
        self.assertEqual(self.status(listening["telemetry"]), 503)
        until("it says so", lambda: "migrations are pending" in child.text(), alive=[child])
        self.assertIn("m0001_store_facts, m0002_revisions, ", child.text())
        return listening

    def listening(self, directory: Path) -> dict[str, str] | None:
        """What it says it listens on, wherever its state is."""
        for path, data in contents_below(directory):
            if path.name == "listening.json":
                found: dict[str, str] = json.loads(data)
                return found
        return None

    def status(self, address: str, path: str = "/readyz") -> int:
        """The status that a GET is answered with."""
        connection = http.client.HTTPConnection(address, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()


class RefusalTests(SynchronousTestCase):
    """What ends a start ends it under twistd, too."""

    def test_refused(self) -> None:
        """The same sentence, the same status, nothing on stdout."""
        found = faults(
            [
                Start(
                    label="key",
                    words=twistd("proxy", "{dir}/c.toml", program=SCRIPT),
                    config=PROXY_CONFIG + "[telemetri]",
                    says=("svc: telemetri: unknown key; did you mean telemetry?",),
                ),
                Start(
                    label="filter",
                    words=twistd("connector", "{dir}/c.toml"),
                    config=CONNECTOR_CONFIG,
                    says=("svc: RUST_LOG: item 1: unknown level",),
                    environ={"RUST_LOG": "svc=loud"},
                ),
                Start(
                    label="identity",
                    words=twistd("proxy", "{dir}/c.toml"),
                    config=PROXY_CONFIG,
                    says=('{"timestamp":"', '"text":"join.token_file: no identity'),
                    environ={"SVC_LOG_FORMAT": "json"},
                ),
                Start(
                    label="shared directory",
                    words=twistd("proxy", "{dir}/c.toml"),
                    config=PROXY_CONFIG,
                    says=("svc: STATE_DIRECTORY: ", "/var/lib/svc/proxy"),
                    status=238,
                    environ={"STATE_DIRECTORY": "/var/lib/svc"},
                ),
            ],
            Path(self.mktemp()).absolute(),
        )
        self.assertEqual(found, [], "\n\n".join(found))
