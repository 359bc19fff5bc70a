"""The drain judges rows in threads, and those of the next look while it writes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ingest.drain import BATCH, PART
from svc.errors import StoreUnavailable
from svc.model.audit.spool import SpoolRow
from tests.authority.house import House
from tests.authority.spools import Leader, Origin, Reading


class OverlapTests(SynchronousTestCase):
    """A leader, and a Proxy with an audit key."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.origin = Origin(self.house, "edge7")

    def rows(self, count: int) -> list[SpoolRow]:
        """The spool's first rows."""
        return [self.origin.first, *(self.origin.noted() for _ in range(count - 1))]

    def test_many(self) -> None:
        """Rows of several looks, judged in parts by threads, come into the log in their order."""
        rows = self.rows(2 * BATCH + PART + 3)
        bad = BATCH + PART
        come = [
            evolve(row, signature=bytes(64)) if at == bad else row for at, row in enumerate(rows)
        ]
        self.leader.inject(*come)
        with ThreadPoolExecutor(3) as pool:
            self.leader.drains.in_thread = lambda call: in_order(pool.submit(call))
            self.leader.drain()
        logged = [each["spool"]["n"] for each in self.house.records() if "spool" in each]
        self.assertEqual(logged, [n for n in range(1, len(rows) + 1) if n != bad + 1])
        self.assertEqual((self.leader.held, self.leader.holds()), (["forged"], ["forged"]))

    def test_the_next_look_fails(self) -> None:
        """Rows that were judged are taken even if those after them cannot be read."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        read, looks = self.leader.drains.store.read, iter(range(9))

        async def once(desc: str, fn: Any) -> Any:
            if next(looks):
                raise StoreUnavailable("gone")
            return await read(desc, fn)

        self.leader.drains.store = Reading(self.house.store, once)
        draining = Deferred.fromCoroutine(self.leader.drains.drain())
        self.failureResultOf(draining, StoreUnavailable)
        self.assertEqual(self.leader.logged(rows), [1, 1])

    def test_a_write_fails_while_the_next_are_judged(self) -> None:
        """The look at what follows ends with it, and nothing of it is taken."""
        rows = self.rows(2)
        self.leader.inject(*rows)
        read, asked = self.leader.drains.store.read, list[Deferred[Any]]()

        async def first(desc: str, fn: Any) -> Any:
            if asked or self.house.store.mood != "well":
                return await asked[-1]
            found = await read(desc, fn)
            self.house.store.mood = "silent"
            asked.append(Deferred())
            return found

        self.leader.drains.store = Reading(self.house.store, first)
        draining = Deferred.fromCoroutine(self.leader.drains.drain())
        self.house.store.mood = "well"
        draining.cancel()
        self.failureResultOf(draining, CancelledError)
        self.assertTrue(asked[-1].called)
        self.leader.drains.store = self.house.store
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1, 1])


def in_order(running: Future[Any]) -> Deferred[Any]:
    """What a thread answers, waited for where its answer is."""
    return maybeDeferred(running.result)
