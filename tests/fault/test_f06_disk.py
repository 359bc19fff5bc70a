"""F6: a disk that is full, or fails, under an append: no grant, no dial, no restart to heal."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from tests.fault.cluster import Cluster
from tests.fault.strace import inject
from tests.fault.tally import Tally, in_long_form, sampled
from tests.store.places import migrated_url, run_child
from tests.support.proof import proves
from tests.system.killing import KillCase
from tests.system.traffic import Traffic
from tests.system.world import around

TALLY = Tally("F6")
OPENS = 3
WRITES = {("pwrite64", "ENOSPC"): 70, ("pwrite64", "EIO"): 30}
OTHERS = {
    ("fdatasync", "EIO"): 60,
    ("fdatasync", "ENOSPC"): 10,
    ("fsync", "EIO"): 9,
    ("rename", "ENOSPC"): 3,
    ("openat", "EMFILE"): 18,
}
"""Calls that fail, how, and at which of a thread's calls: the first, the second, up to here."""

UNAVAILABLE = {
    "authority_unreachable",
    "store_unavailable",
    "store_full",
    "audit_head_unsigned",
}
"""The reasons people may be given: nothing that says a decision was made."""


class StoreFaults(KillCase):
    """What happens to people who ask for sessions meanwhile."""

    @proves("G-AUD-01")
    def test_a_store_that_stalls(self) -> None:
        """While another process holds the store's write lock nothing opens; then things go on."""
        self.check_nothing_opens(self.locked, 0)

    @proves("G-AUD-01")
    def test_a_store_that_fails(self) -> None:
        """While no byte can be written to the disk nothing opens; then things go on."""
        self.check_nothing_opens(self.full, OPENS)

    @proves("G-AUD-01")
    def test_a_disk_that_loses(self) -> None:
        """While nothing can be made durable nothing opens; then things go on."""
        self.check_nothing_opens(self.losing, OPENS)

    def check_nothing_opens(
        self, fault: Callable[[], AbstractContextManager[None]], refusals: int
    ) -> None:
        """Let people ask during the fault until so many more were refused, and after it."""
        traffic = self.traffic(visitors=OPENS)
        traffic.await_more("echoed", OPENS)
        authority = self.gateway.child("authority")
        with TALLY.one(), fault():
            self.await_settled(traffic)
            given, seen = len(traffic.lines("given")), around().seen()
            traffic.await_more("refused", refusals, 60)
            self.assertEqual((len(traffic.lines("given")), around().seen()), (given, seen))
            self.assertTrue(authority.is_alive)
        with TALLY.timed():
            traffic.await_more("echoed", OPENS, 60)
        reasons = {line["reason"] for line in traffic.lines("refused")}
        self.assertEqual(reasons - UNAVAILABLE, set())
        self.check_accounts(traffic)
        self.check_shown(traffic)

    def await_settled(self, traffic: Traffic) -> None:
        """Wait until what was granted before the fault has run its course.

        Each visitor asks for one session after the other: who was refused has no answer on the
        way from before.
        """
        before = len(traffic.lines("refused"))

        def are_over() -> bool:
            refused = {line["visitor"] for line in traffic.lines("refused")[before:]}
            over = len(traffic.lines("over")) == len(traffic.lines("given"))
            return len(refused) == OPENS and over

        until("sessions from before are over", are_over, alive=[traffic.child])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock."""
        with closing(sqlite3.connect(self.gateway.files.store, timeout=10)) as store:
            store.isolation_level = None
            store.execute("BEGIN IMMEDIATE")
            yield
            store.execute("ROLLBACK")

    @contextmanager
    def full(self) -> Iterator[None]:
        """Let the Authority write to no file."""
        pid = self.gateway.child("authority").pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Let every write to the disk fail that is to last."""
        strace = inject(self.gateway.child("authority").pid, "fdatasync", "error=EIO", "1+")
        try:
            yield
        finally:
            strace.end()


class Positions(SynchronousTestCase):
    """One call fails, and the process goes on as if it had not."""

    @in_long_form
    @proves("G-AUD-01")
    def test_each_write(self) -> None:
        """Whichever it is, what was acknowledged is there, once; and the next append succeeds."""
        self.check(WRITES)

    @in_long_form
    @proves("G-AUD-01")
    def test_each_other_call(self) -> None:
        """The same where what was written is made to last, and around the anchor."""
        self.check(OTHERS)

    def check(self, faults: Mapping[tuple[str, str], int]) -> None:
        """Let one call after the other fail."""
        cluster = Cluster.on_file(self)
        cluster.start()
        appender = cluster.appender()
        appender.await_acked()
        child = cluster.child()
        for (call, error), positions in faults.items():
            for position in sampled(positions):
                strace = inject(child.pid, call, f"error={error}", f"{position}")
                try:
                    strace.await_hit()
                finally:
                    strace.end()
                with TALLY.one():
                    with TALLY.timed():
                        appender.await_acked(2)
                    self.assertTrue(child.is_alive)
                    cluster.check_rows()
        cluster.gateway.await_ready("authority")
        cluster.check()


_FULL_DISK = """
import resource, sys
from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import react
from svc.errors import StoreUnavailable
from svc.store.sqlite.factory import SqliteFactory
from tests.store.places import path_of, real_needs
import os

async def main():
    url = sys.argv[1]
    store = SqliteFactory().open(url, real_needs())
    add = lambda n: store.run("append", lambda tx: tx.audit.append(b'{"n":"%s"}' % (b"x" * n)).seq)
    assert await add(10) == 1
    size = os.path.getsize(path_of(url) + "-wal")
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv[2]), hard))
    refused = 0
    for _ in range(3):
        try:
            await add(20000)
        except StoreUnavailable:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    seq = await add(10)
    head = await store.read("head", lambda tx: (tx.audit.head().seq, len(tx.audit.rows(1, 99))))
    await store.close()
    print(refused, seq == head[0] == head[1], seq >= 2)

react(lambda _: ensureDeferred(main()))
"""


class FullDiskTests(SynchronousTestCase):
    """A disk that is full refuses, and heals without a restart."""

    def test_no_false_answer(self) -> None:
        """Each call on a full disk is refused; once there is room the store goes on, whole."""
        for room in ("0", "5000"):
            done = run_child(_FULL_DISK, migrated_url(self), room)
            self.assertEqual(
                (done.stdout.split(), done.status), (["3", "True", "True"], 0), done.stderr
            )
