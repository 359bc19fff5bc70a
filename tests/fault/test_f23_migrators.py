"""F23: several who migrate at once, one who never lets go, one who dies, and a pooler between."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.store.migrate import migrations_folder
from svc.store.postgres.factory import PostgresFactory
from svc.store.sqlite.location import lock_path
from svc.testing.gateway.files import free_ports
from svc.testing.gateway.postgres import USER
from svc.testing.gateway.processes import Child, die_with_parent, until
from tests.fault.cluster import Cluster
from tests.fault.duel import LEASE_SECS
from tests.fault.strace import inject
from tests.fault.tally import Tally, counted, in_long_form
from tests.store.places import ROOT
from tests.store.test_postgres_migrate import HOLDING, dump
from tests.support.proof import proves
from tests.support.tools import stock_tool

TALLY = Tally("F23")
OLDER = "m0078"
"""The first migration that the older Authorities did not know."""

ROUNDS = counted({2: 1}, {2: 25, 4: 25})
"""How often so many migrate at once, on each backend."""

_HOLDING_FILE = """
import sys, time
from svc.store.engine.lock import take_lock
held = take_lock(sys.argv[1], "serving", time.time)
assert held
print("held", flush=True)
sys.stdin.read()
"""
_POOLER = """\
[databases]
store = host=127.0.0.1 port={server} dbname={name} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = extra_float_digits,options
"""


class Migrators(SynchronousTestCase):
    """Real commands on one store."""

    @proves("U-MIG-11", "U-MIG-13", "G-LIM-03", "G-STORE-01")
    def test_at_once_on_a_file(self) -> None:
        """One of them applies everything; the others wait, and find nothing to apply."""
        self.check_rounds(Cluster.on_file(self))

    @proves("U-MIG-11", "U-MIG-13")
    def test_at_once_on_a_database(self) -> None:
        """Each migration is applied by one of them, once, and all end well."""
        self.check_rounds(Cluster.on_postgres(self))

    @proves("U-MIG-11", "U-MIG-13")
    def test_authorities_that_start_at_once(self) -> None:
        """Two migrate at their start: each migration is applied by one of them, and both serve."""
        names = ("authority", "second")
        cluster = Cluster.on_postgres(self, names, lease_secs=LEASE_SECS)
        for name in names:
            self.assertNotIn("store_auto_migrate", cluster.gateway.files.table(name))
            cluster.start(name, ready=False)
        for name in names:
            cluster.gateway.await_ready(name)
        (other,) = (name for name in names if '"standing by"' in cluster.child(name).text())
        (leader,) = {*names} - {other}
        cluster.child(leader).kill()
        # Each writes down what it applied when it leads.
        recorded = "SELECT canonical FROM audit_log WHERE event = %r ORDER BY seq"
        starts = recorded % "role.start"
        until("the other one leads", lambda: len(cluster.select(starts)[0]) == 2)
        told = [json.loads(row) for (row,) in cluster.select(recorded % "store.migrate")[0]]
        applied = [id for one in told for id in one["details"]["migrations"]]
        ledger = [id for (id,) in cluster.select("SELECT id FROM svc_migrations ORDER BY id")[0]]
        self.assertEqual((sorted(applied), len(ledger)), (ledger, 85))

    @proves("U-NOTE-17")
    def test_authorities_one_after_the_other(self) -> None:
        """All were stopped at an older level: the first migrates, the other finds it current."""
        names, older = ("authority", "second"), Path(os.path.abspath(self.mktemp()))
        older.mkdir()
        for path in migrations_folder().iterdir():
            if path.name < OLDER:
                shutil.copy(path, older)
        cluster = Cluster.on_postgres(self, names, lease_secs=LEASE_SECS)
        factory = PostgresFactory(monotonic, folder=lambda: older)
        before = factory.migrate(cluster.url, "older", lambda: 0.0, lambda: 0.0).applied
        self.assertEqual(len(before), 77)
        whole = "SELECT * FROM svc_migrations ORDER BY id"
        cluster.start("authority")
        after_the_first = cluster.select(whole)[0]
        self.assertIn("current", cluster.command("store", "migrate", "--check"))
        cluster.start("second")
        cluster.standing_by("second")
        self.assertEqual(cluster.select(whole)[0], after_the_first)
        recorded = "SELECT canonical FROM audit_log WHERE event = 'store.migrate'"
        rows = [json.loads(row) for (row,) in cluster.select(f"{recorded} ORDER BY seq")[0]]
        told = [tuple(one["details"]["migrations"]) for one in rows]
        ledger = [id for (id,) in cluster.select("SELECT id FROM svc_migrations ORDER BY id")[0]]
        self.assertEqual(told, [before, tuple(ledger[len(before) :])])

    def check_rounds(self, cluster: Cluster) -> None:
        """Let so many run at once, so many times."""
        for runs, rounds in ROUNDS.items():
            for _ in range(rounds):
                with TALLY.one():
                    cluster.empty()
                    with TALLY.timed():
                        children = [cluster.begun("store", "migrate") for _ in range(runs)]
                        ended = [child.wait() for child in children]
                    said = [child.text() for child in children]
                    self.assertEqual(ended, [0] * runs, said)
                    self.check_once(cluster, said)

    def check_once(self, cluster: Cluster, said: list[str]) -> None:
        """All were applied, and nobody says so of one that another applied."""
        (applied,) = cluster.select("SELECT count(*) FROM svc_migrations")[0][0]
        told = [int(number) for one in said for number in re.findall(r"applied (\d+)", one)]
        self.assertEqual(sum(told), applied)
        self.assertIn("current", cluster.command("store", "migrate", "--check"))

    def holding(self, cluster: Cluster) -> subprocess.Popen[str]:
        """Somebody who has the store's lock, and keeps it."""
        script, place = HOLDING, cluster.url
        if not cluster.url:
            script, place = _HOLDING_FILE, lock_path(str(cluster.gateway.files.store))
            Path(place).parent.mkdir(mode=0o700, exist_ok=True)
        child = subprocess.Popen(
            [sys.executable, "-c", script, place],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        assert child.stdout is not None
        self.assertTrue(child.stdout.readline())
        return child

    @in_long_form
    @proves("U-MIG-10", "X-19", "G-LIM-01")
    def test_held_121_seconds(self) -> None:
        """After 120 s, on both backends, the run gives up with status 5 and names the holder."""
        clusters = [Cluster.on_file(self), Cluster.on_postgres(self)]
        holders = [self.holding(cluster) for cluster in clusters]
        began = monotonic()
        runs = [cluster.begun("store", "migrate") for cluster in clusters]
        for run, holder in zip(runs, holders, strict=True):
            with TALLY.one():
                self.assertEqual(run.wait(130), 5, run.text())
                self.assertIn(f"pid {holder.pid} on ", run.text())
        TALLY.tell_longest("gave up after", monotonic() - began)
        self.assertGreaterEqual(monotonic() - began, 120)

    @proves("U-OPEN-10", "X-19")
    def test_the_holder_is_killed(self) -> None:
        """Whoever waited goes on at once, and migrates."""
        for cluster in counted((Cluster.on_postgres,), (Cluster.on_file, Cluster.on_postgres)):
            for _ in range(counted(1, 20)):
                self.check_killed(cluster(self))

    def check_killed(self, cluster: Cluster) -> None:
        """Kill who holds while somebody waits."""
        holder = self.holding(cluster)
        run = cluster.begun("store", "migrate")
        self.await_waiting(cluster, run)
        with TALLY.one():
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait()
            with TALLY.timed():
                self.assertEqual(run.wait(), 0, run.text())
            self.check_once(cluster, [run.text()])

    def await_waiting(self, cluster: Cluster, run: Child) -> None:
        """Until a run has come to the store: what follows is its wait."""
        if cluster.url:
            asked = f"application_name LIKE 'svc pid {run.pid} on %'"
            count = f"SELECT count(*) FROM pg_stat_activity WHERE {asked}"
            until("it waits", lambda: cluster.select(count)[0][0][0], alive=[run])
            return
        strace = inject(run.pid, "flock", "delay_exit=1", "1+")
        try:
            strace.await_hit()
        finally:
            strace.end()

    @proves("U-OPEN-10")
    def test_a_pooler_between(self) -> None:
        """Through PgBouncer in transaction mode the store is refused, told why, and untouched."""
        program = stock_tool("pgbouncer")
        cluster = Cluster.on_postgres(self)
        pooler = self.pooler(program, cluster)
        files = cluster.gateway.files
        url = f"postgresql://{USER}@127.0.0.1:{pooler}/store?sslmode=disable"
        files.write("authority", files.table("authority") | {"store_url": url})
        with TALLY.one():
            ran = cluster.ran("store", "migrate")
            self.assertEqual(ran.status, 1, ran.stderr)
            self.assertIn("there is a connection pooler between", ran.stderr)
            self.assertEqual(dump(cluster.url), [])

    def pooler(self, program: str, cluster: Cluster) -> int:
        """A pooler before the cluster's database; its port."""
        port, directory = free_ports()[0], Path(tempfile.mkdtemp(prefix="svc-pooler-"))
        self.addCleanup(shutil.rmtree, directory)
        directory.chmod(0o755)  # it refuses root, and may be another user
        name, way = cluster.url.rpartition("/")[2], cluster.ways["authority"]
        config = directory / "pgbouncer.ini"
        text = _POOLER.format(server=way.port, name=name, user=USER, port=port)
        config.write_text(text)
        who: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            who = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        log = (directory / "log").open("wb")
        self.addCleanup(log.close)
        child = subprocess.Popen(
            [program, str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,
            **who,
        )
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        said = directory / "log"
        until("it listens", lambda: "process up" in said.read_text() or child.poll() is not None)
        self.assertIsNone(child.poll(), said.read_text())
        return port
