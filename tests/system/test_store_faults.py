"""A store that stalls or fails under an append: no grant, no dial, and no restart to heal."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from svc.testing.processes import until
from tests.proof import proves
from tests.system.killing import KillCase
from tests.system.traffic import Traffic
from tests.system.world import around

OPENS = 3
UNAVAILABLE = {"authority_unreachable", "store_unavailable"}
"""The reasons people may be given: nothing that says a decision was made."""


class StoreFaults(KillCase):
    """What happens to people who ask for sessions meanwhile."""

    @proves("G-AUD-01")
    def test_a_store_that_stalls(self) -> None:
        """While another process holds the store's write lock nothing opens; then things go on."""
        self.check_nothing_opens(self.locked, 1)

    @proves("G-AUD-01")
    def test_a_store_that_fails(self) -> None:
        """While no byte can be written to the disk nothing opens; then things go on."""
        self.check_nothing_opens(self.full, 2 * OPENS)

    def check_nothing_opens(
        self, fault: Callable[[], AbstractContextManager[None]], refusals: int
    ) -> None:
        """Let people ask during the fault until so many were refused, and after it."""
        traffic = self.traffic(visitors=OPENS)
        traffic.await_more("echoed", OPENS)
        authority = self.gateway.child("authority")
        with fault():
            self.await_settled(traffic)
            given, seen = len(traffic.lines("given")), around().seen()
            traffic.await_more("refused", refusals, 60)
            self.assertEqual((len(traffic.lines("given")), around().seen()), (given, seen))
            self.assertTrue(authority.is_alive)
        traffic.await_more("echoed", OPENS, 60)
        reasons = {line["reason"] for line in traffic.lines("refused")}
        self.assertEqual(reasons - UNAVAILABLE, set())
        self.check_accounts(traffic)
        self.check_shown(traffic)

    def await_settled(self, traffic: Traffic) -> None:
        """Wait until what was granted before the fault has run its course."""
        until(
            "sessions from before are over",
            lambda: len(traffic.lines("over")) == len(traffic.lines("given")),
            alive=[traffic.child],
        )

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
