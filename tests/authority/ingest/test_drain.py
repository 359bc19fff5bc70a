"""The drain judges rows in a thread, and those of the next look while it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ingest.drain import BATCH
from svc.errors import StoreUnavailable
from svc.interfaces.store import ITransaction
from svc.model.audit.spool import SpoolRow
from svc.model.session.recorded import RangedRecords
from tests.authority.house import House, value_of
from tests.authority.spools import Leader, Origin, Reading, Writing


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
        """Rows of several looks, judged by threads, come into the log in their order."""
        rows = self.rows(2 * BATCH + 67)
        bad = BATCH + 64
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


class UnansweredTests(SynchronousTestCase):
    """A leader whose store writes and does not say so, and a Proxy that records requests."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.origin = Origin(self.house, "edge7")
        self.told: list[int] = []
        self.leader.drains = evolve(self.leader.drains, recorded=self.hear)
        self.numbers = self.origin.session()
        self.leader.inject(self.origin.first)
        self.leader.drain()

    async def hear(self, requests: Iterable[RangedRecords]) -> None:
        """What is held against the checkpoints of a session."""
        self.told += [one.first + at for one in requests for at in range(len(one.entries))]

    def batch(self, count: int) -> SpoolRow:
        """The next requests of the session."""
        return self.origin.batch(*(self.origin.request(self.numbers) for _ in range(count)))

    def fails(self, run: Any) -> None:
        """A pass in which the store writes as *run* does, and that fails."""
        self.leader.drains.store = Writing(self.house.store, run)
        self.failureResultOf(Deferred.fromCoroutine(self.leader.drains.drain()), StoreUnavailable)
        self.leader.drains.store = self.house.store

    async def written(self, desc: str, fn: Any) -> Any:
        """The store writes, and its answer is lost."""
        await self.house.store.run(desc, fn)
        raise StoreUnavailable("it is unknown whether the data was written")

    async def not_written(self, desc: str, fn: Any) -> Any:
        """The store does not write."""
        raise StoreUnavailable("nothing was written")

    def test_the_answer_is_lost(self) -> None:
        """Requests that are on record all the same are told before those that follow, once."""
        self.leader.inject(self.batch(2))
        self.fails(self.written)
        self.leader.inject(self.batch(1))
        self.leader.drain()
        self.leader.drain()
        self.assertEqual(self.told, [1, 2, 3])

    def test_a_defect_behind_the_write(self) -> None:
        """What goes wrong once rows are in the log says nothing against the rows."""

        async def breaks(requests: Iterable[RangedRecords]) -> None:
            raise TypeError("a defect")

        self.leader.drains = evolve(self.leader.drains, recorded=breaks)
        rows = [self.batch(2), self.batch(1)]
        for row in rows:
            self.leader.inject(row)
        self.leader.drain()
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)
        self.assertEqual(self.leader.logged(rows), [1, 1])
        self.assertEqual(self.leader.holds(), [])

    def test_nothing_was_written(self) -> None:
        """Requests that are not on record are told once they are."""
        self.leader.inject(self.batch(2))
        self.fails(self.not_written)
        self.assertEqual(self.told, [])
        self.leader.inject(self.batch(1))
        self.leader.drain()
        self.leader.drain()
        self.assertEqual(self.told, [1, 2, 3])

    def test_cancelled(self) -> None:
        """The last pass of a leader that stops tells what one that it cancelled has written."""

        async def silent(desc: str, fn: Any) -> Any:
            await self.house.store.run(desc, fn)
            await Deferred()

        self.leader.inject(self.batch(2))
        self.leader.drains.store = Writing(self.house.store, silent)
        draining = Deferred.fromCoroutine(self.leader.drains.drain())
        draining.cancel()
        self.failureResultOf(draining, CancelledError)
        self.leader.drains.store = self.house.store
        self.leader.inject(self.batch(1))
        self.leader.drain()
        self.assertEqual(self.told, [1, 2, 3])

    def test_it_is_written_late(self) -> None:
        """A write that is done after its caller gave up is seen by the pass that it overtakes."""
        late = list[Callable[[], Any]]()

        async def given_up(desc: str, fn: Any) -> Any:
            late.append(lambda: self.house.store.run(desc, fn))
            raise StoreUnavailable("no answer in time")

        async def after_it(desc: str, fn: Any) -> Any:
            while late:
                await late.pop()()
            return await self.house.store.run(desc, fn)

        self.leader.inject(self.batch(2))
        self.fails(given_up)
        self.leader.inject(self.batch(1))
        self.leader.drains.store = Writing(self.house.store, after_it)
        self.leader.drain()
        self.assertEqual(self.told, [1, 2, 3])

    def test_a_row_that_somebody_took(self) -> None:
        """Of a row that is neither in the queue nor in the log nothing is told."""
        self.leader.inject(self.batch(2))
        self.fails(self.not_written)

        def take(tx: ITransaction) -> None:
            tx.outbox.drop([one.id for one in tx.outbox.rows(0, 9)])

        value_of(self.house.store.store.run("by SQL", take))
        self.leader.inject(self.origin.noted())
        self.leader.drain()
        self.assertEqual(self.told, [])


def in_order(running: Future[Any]) -> Deferred[Any]:
    """What a thread answers, waited for where its answer is."""
    return maybeDeferred(running.result)
