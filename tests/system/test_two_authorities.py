"""Two Authorities on one PostgreSQL store: the one that writes is killed, and the other goes on."""

from __future__ import annotations

import os
import shutil
import socket

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway import Gateway, init_gateway
from svc.testing.person import Person
from svc.testing.processes import run, svc_command, until
from svc.testing.settings import POLICY, Target
from tests.postgres import connected, empty_database
from tests.proof import proves
from tests.system.world import around

KILLS = 10 if os.environ.get("SVC_LONG") == "1" else 2
LEASE_SECS = 2
NAMES = ("authority", "authority2")
MOVES = "svc_authority_pool_moves_total"


@proves("G-ROLE-11", "G-CFG-10", "G-CFG-11", "G-OPEN-49")
class TwoAuthorities(SynchronousTestCase):
    """A gateway whose Proxy knows both."""

    def setUp(self) -> None:
        """One Authority leads, the other stands by; one session is open."""
        echo = Target("echo", f"127.0.0.1:{around().ports['echo']}")
        self.gateway = init_gateway([echo], numbers={"store_lease_secs": LEASE_SECS})
        self.addCleanup(self.gateway.end)
        self.url = empty_database(self)
        self.configure(self.gateway, self.url)
        self.gateway.make_authority()
        self.gateway.make_child(NAMES[1], "authority")
        self.gateway.roles[NAMES[1]].start()
        self.await_standing_by(NAMES[1])
        self.gateway.make_proxy()
        self.gateway.set_policy(POLICY)
        self.gateway.make_connector([echo])
        self.gateway.await_tunnels(1)
        self.person: Person = self.gateway.add_person("ada", "ops")
        self.person.up("echo")
        self.given = 0

    def configure(self, gateway: Gateway, url: str) -> None:
        """Both use the database; each has its own directory and ports, and the cluster's keys."""
        files, more = gateway.files, {"store_url": url, "plugins.stores": ["postgresql"]}
        files.write("authority", files.table("authority") | more)
        own = files.table("authority")
        other = files.state(NAMES[1])
        other.mkdir(mode=0o700)
        shutil.copytree(files.state("authority") / "keys", other / "keys")
        own["state_dir"] = str(other)
        for name in ("control_listen", "join_listen", "renewal_listen"):
            own[f"endpoints.{name}"] = f"127.0.0.1:{_free_port()}"
        files.write(NAMES[1], own)
        failover = {"endpoints.authority_failover": [own["endpoints.control_listen"]]}
        files.write("proxy", files.table("proxy") | failover)

    def await_standing_by(self, name: str) -> None:
        """Until it has said so in this life."""
        child = self.gateway.roles[name]
        until(f"{name} stands by", lambda: '"standing by"' in child.text(), alive=[child])

    def open(self) -> socket.socket:
        """A session that echoes; tried until it opens."""
        opened: socket.socket = until(
            "a session opens", self.try_to_open, alive=[self.gateway.roles["proxy"]]
        )
        self.given += 1
        return opened

    def try_to_open(self) -> socket.socket | None:
        """A session that echoes, or None where it was refused."""
        session = socket.socket()
        session.settimeout(20)
        try:
            session.connect(self.person.endpoint("echo"))
            session.sendall(b"hello\n")
            if session.recv(6) == b"hello\n":
                return session
        except OSError:
            pass  # reset by the resident: refused
        session.close()
        return None

    @proves("G-HA-03", "G-MET-25", "G-AUD-01")
    def test_the_leader_is_killed_again_and_again(self) -> None:
        """Sessions go on, new ones open with the other, no record is lost and the log verifies."""
        staying = self.open()
        self.addCleanup(staying.close)
        for kill in range(KILLS):
            leader, other = NAMES[kill % 2], NAMES[(kill + 1) % 2]
            for _ in range(3):
                self.open().close()
            self.gateway.roles[leader].kill()
            self.open().close()
            staying.sendall(b"still\n")
            self.assertEqual(staying.recv(6), b"still\n")
            self.assertEqual(self.gateway.metric("proxy", MOVES), kill + 1)
            self.gateway.roles[leader].start()
            self.await_standing_by(leader)
            self.gateway.await_ready(leader)
            self.assertIn("verified", self.operator(other, "audit", "verify"))
        self.check_records(NAMES[KILLS % 2])

    def check_records(self, name: str) -> None:
        """Every session that was given is on record, once."""
        with connected(self.url) as cursor:
            cursor.execute("SELECT session_uid FROM audit_log WHERE event = 'session.start'")
            recorded = [uid for (uid,) in cursor.fetchall()]
            cursor.execute("SELECT count(*), max(seq) FROM audit_log")
            self.assertEqual(*cursor.fetchone())
        self.assertEqual(len(recorded), len(set(recorded)))
        # An answer that was lost with its Authority leaves a record of a session nobody had.
        self.assertGreaterEqual(len(recorded), self.given)

    def operator(self, name: str, *words: str) -> str:
        """What a command says with the configuration of one of them."""
        config = str(self.gateway.files.config(name))
        command = svc_command("--config", config, "authority", *words)
        return run(command, self.gateway.directory).checked().stdout

    @proves("G-HA-01", "G-RDY-07", "G-POL-01", "G-POL-04", "G-MET-45")
    def test_who_stands_by_says_who_leads(self) -> None:
        """It is ready, a command to it is refused with the leader's id, and it has his policy."""
        leader = self.gateway.status()["authority_id"]
        config = str(self.gateway.files.config(NAMES[1]))
        refused = run(
            svc_command("--config", config, "authority", "status"), self.gateway.directory
        )
        self.assertNotEqual(refused.status, 0)
        self.assertIn(leader, refused.stderr)
        self.assertEqual(self.gateway.get(NAMES[1], "/readyz")[0], 200)
        for version in (2, 3):
            for series in ("svc_policy_version_stored", "svc_policy_version_applied"):
                self.gateway.await_metric(NAMES[1], series, version)
            self.gateway.set_policy(f"{POLICY}// version {version + 1}")
        self.check_a_new_issuing_ca()

    def check_a_new_issuing_ca(self) -> None:
        """Who leads puts it in force; the other one says that it lacks it until it has it."""
        self.gateway.operator("keys", "renew", "spiffe")
        stale = "svc_ca_bundle_stale"
        self.gateway.await_metric(NAMES[1], stale, 1, kind="spiffe")
        self.assertEqual(self.gateway.metric(NAMES[1], stale, kind="host_tls"), 0)
        self.assertEqual(self.gateway.metric(NAMES[0], stale), 0)
        source, target = (self.gateway.files.state(name) / "keys" for name in NAMES)
        for name in ("spiffe.key", "spiffe.pem"):
            shutil.copy(source / name, target / name)
        self.gateway.await_metric(NAMES[1], stale, 0, kind="spiffe")
        eve = self.gateway.add_person("eve", "ops")
        self.assertTrue(eve.directory.exists())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
