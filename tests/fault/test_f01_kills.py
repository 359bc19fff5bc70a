"""F1: the Authority dies at the points of an append where a record could be lost or doubled.

By its own crash points under sessions; by ``kill -9`` in the middle of a system call, and at
each message to its database, under an operator's changes.
"""

from __future__ import annotations

import signal

from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.events import SESSION_START
from svc.testing.gateway.processes import TIMEOUT_SECS
from tests.fault import wire
from tests.fault.cluster import Cluster
from tests.fault.strace import inject
from tests.fault.tally import Tally, counted, in_long_form
from tests.support.proof import proves
from tests.system.killing import KillCase
from tests.system.traffic import Traffic

TALLY = Tally("F1", "616 of 1,200 kills: 12 to 50 at each of 24 points")
CRASHED = 137
KILLS = counted(1, 20)
"""At each of the Authority's own crash points."""

CALLS = {
    "begin": "fcntl",
    "row insert, head update": "pwrite64",
    "commit": "fdatasync",
    "commit to answer": "write",
    "acknowledge": "sendto",
    "anchor line": "fsync",
    "anchor replaced": "rename",
    "files": "openat",
}
"""Steps of an append to a file, by the system call that takes them."""

KILLS_IN_CALLS = counted(1, 50)
KILLS_AT_MESSAGES = counted(1, 12)
PAST_START = 25
"""About the commits that an Authority makes until it is ready; on a busy machine there are more."""

MOST_PAST_START = 400

VISITORS = 4


@proves("G-AUD-01", "G-OPEN-16")
class CrashPoints(KillCase):
    """No session without a record, whatever instant the Authority dies at."""

    def setUp(self) -> None:
        """Leave the Authority as it was."""
        super().setUp()
        self.addCleanup(self.set_crash, "")

    def set_crash(self, point: str) -> None:
        """Where the next Authority dies; empty: nowhere."""
        authority = self.gateway.child("authority")
        environ = {**authority.environ, "SVC_CRASH_AT": point}
        authority.environ = {k: v for k, v in environ.items() if v}

    def test_before_commit(self) -> None:
        """Dying before a commit leaves neither a session nor a grant."""
        self.crash_again_and_again("before_commit")

    def test_after_commit(self) -> None:
        """Dying after a commit leaves a record and a session that nobody was given."""
        self.assertNotIn(0, self.crash_again_and_again("after_commit"))

    def test_before_answer(self) -> None:
        """Dying before the answer leaves a record and a session that nobody was given."""
        self.assertNotIn(0, self.crash_again_and_again("before_answer"))

    def crash_again_and_again(self, point: str) -> list[int]:
        """Crash under sessions that are only opened; how many each time were given to nobody."""
        authority = self.gateway.child("authority")
        authority.stop()
        known = self.allowed()
        traffic = self.traffic(visitors=VISITORS, pile=True)
        orphans: list[int] = []
        past_start = PAST_START
        for kill in range(KILLS):
            given = len(traffic.lines("given"))
            self.crash_at(point, past_start + kill)
            while len(traffic.lines("given")) == given:
                # It made more commits before the first session: the next one lives longer.
                past_start *= 2
                self.assertLess(past_start, MOST_PAST_START, "it died before any session")
                self.crash_at(point, past_start + kill)
            TALLY.many(1)
            traffic.await_more("refused", VISITORS)
            orphans.append(self.check_grants(traffic, known) - sum(orphans))
        self.set_crash("")
        self.gateway.start("authority")
        self.check_accounts(traffic)
        return orphans

    def crash_at(self, point: str, times: int) -> None:
        """Start the Authority, and wait until it has died the given time that it came there."""
        self.set_crash(f"{point}:{times}")
        self.gateway.start("authority", ready=False)
        self.assertEqual(self.gateway.child("authority").wait(), CRASHED)

    def check_grants(self, traffic: Traffic, known: set[tuple[str, str]]) -> int:
        """Every grant is among the records; how many records nobody has the grant of."""
        given = {(one["session_uid"], one["decision_id"]) for one in traffic.lines("given")}
        recorded = self.allowed() - known
        self.assertLessEqual(given, recorded)
        self.assertEqual(self.rows_without_record(), [])
        return len(recorded - given)

    def allowed(self) -> set[tuple[str, str]]:
        """Session and decision of every record that allowed one."""
        query = "SELECT session_uid, decision_id FROM audit_log WHERE event = ?"
        allow = "json_extract(canonical, '$.decision') = 'allow'"
        return set(self.select(f"{query} AND {allow}", SESSION_START.name))

    def rows_without_record(self) -> list[str]:
        """Sessions that no record allowed."""
        allowed = self.allowed()
        rows = self.select("SELECT uid, decision_id FROM sessions")
        return [uid for uid, decision in rows if (uid, decision) not in allowed]


class Recovering(SynchronousTestCase):
    """An Authority without a gateway around it; an operator adds group after group."""

    def started(self, cluster: Cluster) -> Cluster:
        """Up, and under way."""
        cluster.start()
        cluster.appender().await_acked()
        return cluster

    def kill_in_call(self, cluster: Cluster, call: str, kill: int) -> None:
        """Kill as it enters a system call: the first of a thread, the second, up to the sixth."""
        strace = inject(cluster.child().pid, call, "signal=SIGKILL", f"{kill % 6 + 1}")
        try:
            cluster.child().wait(TIMEOUT_SECS)
        finally:
            strace.end()
        self.recover(cluster)

    def recover(self, cluster: Cluster) -> None:
        """After a death: start, nothing else, and see that everything is there."""
        (appender,) = cluster.appenders
        with TALLY.one():
            self.assertEqual(cluster.child().wait(), -signal.SIGKILL)
            with TALLY.timed():
                cluster.start(ready=False)
                appender.await_acked()
                cluster.gateway.await_ready("authority")
            cluster.check_rows()


@proves("G-AUD-01", "G-ROLE-10")
class FileKills(Recovering):
    """Killed by the kernel as it enters a system call."""

    def check(self, *steps: str) -> None:
        """Kill in each of these steps."""
        cluster = self.started(Cluster.on_file(self))
        for step in steps:
            for kill in range(KILLS_IN_CALLS):
                self.kill_in_call(cluster, CALLS[step], kill)
        cluster.check()

    @in_long_form
    def test_before_the_commit(self) -> None:
        """Killed while it writes, what was acknowledged before is there, whole and once."""
        self.check("begin", "row insert, head update", "commit")

    @in_long_form
    def test_after_the_commit(self) -> None:
        """Killed between commit and answer, a record stands that nobody was told of."""
        self.check("commit to answer", "acknowledge")

    @in_long_form
    def test_at_the_anchor(self) -> None:
        """Killed while a head is put beside the store, the log verifies up to the head before."""
        self.check("anchor line", "anchor replaced", "files")


@proves("G-AUD-01", "G-ROLE-10")
class DatabaseKills(Recovering):
    """Killed at a message to the database, before it goes on or before its answer does."""

    def check(self, is_after: bool, *marks: bytes) -> None:
        """Kill at each of these."""
        cluster = self.started(Cluster.on_postgres(self))
        for mark in marks:
            for _ in range(KILLS_AT_MESSAGES):
                self.kill(cluster, wire.Trap(mark, is_after, lambda: self.dead(cluster)))
                self.recover(cluster)
        cluster.check()

    def kill(self, cluster: Cluster, trap: wire.Trap) -> None:
        """Let the trap spring."""
        cluster.ways["authority"].watcher = trap
        self.assertTrue(trap.sprung.wait(TIMEOUT_SECS))
        cluster.ways["authority"].watcher = None

    def dead(self, cluster: Cluster) -> bool:
        """Kill it; the message is lost with it."""
        cluster.child().kill()
        return False

    @in_long_form
    def test_before_a_message(self) -> None:
        """What it was about to ask is not done, and what was acknowledged is."""
        self.check(False, *wire.STEPS)

    def test_before_an_answer(self) -> None:
        """What it asked is done or undone as a whole."""
        self.check(True, *counted((wire.COMMIT,), wire.STEPS))

    @in_long_form
    def test_at_the_anchor(self) -> None:
        """Killed while a head is put beside the store, the log verifies up to the head before."""
        cluster = self.started(Cluster.on_postgres(self))
        for step in ("anchor line", "anchor replaced", "acknowledge"):
            for kill in range(KILLS_AT_MESSAGES):
                self.kill_in_call(cluster, CALLS[step], kill)
        cluster.check()
