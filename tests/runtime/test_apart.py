"""Work in a process of its own: done, or ended, and the next piece is done all the same."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from svc.errors import SvcError
from svc.runtime.apart import MOST_GIVEN, MOST_OF_ONE, MOST_WAITING, WHOLE_SECS, WorkApart

WORK = "tests.runtime.apart_work"


class WorkApartTests(TestCase):
    """One real child process."""

    def setUp(self) -> None:
        host: Any = reactor
        self.apart = WorkApart(reactor=host, clock=host)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.apart.stop()))

    def run_apart(self, name: str, data: bytes = b"", person: str = "a") -> Deferred[bytes]:
        """Begin a piece."""
        return Deferred.fromCoroutine(self.apart.run(f"{WORK}:{name}", data, person))

    async def refused(self, name: str, reason: str, data: bytes = b"") -> None:
        """A piece is not done, for this reason."""
        refusal: Any = await self.assertFailure(self.run_apart(name, data), SvcError)
        self.assertEqual(refusal.reason, reason)

    async def test_stays_warm(self) -> None:
        """One process does piece after piece, and none after it was stopped."""
        pieces = [self.run_apart("upper", b"x" * 100_000), self.run_apart("upper", b"")]
        self.assertEqual(await gatherResults(pieces), [b"X" * 100_000, b""])
        first = await self.run_apart("pid")
        self.assertEqual(await self.run_apart("pid"), first)
        await self.apart.stop()
        await self.refused("pid", "apart_failed")

    async def test_ended_by_its_work(self) -> None:
        """What crashes, hangs, fills memory or floods is not done, and the next piece is."""
        for name, reason in (
            ("crash", "apart_failed"),
            ("hang", "apart_deadline"),
            ("fill", "apart_failed"),
            ("flood", "apart_failed"),
            ("not_there", "apart_failed"),
        ):
            await self.refused(name, reason)
            self.assertEqual(await self.run_apart("upper", b"a"), b"A", name)

    async def test_bounded(self) -> None:
        """Neither a large piece nor a long queue is taken."""
        await self.refused("upper", "apart_too_large", bytes(MOST_GIVEN + 1))
        taken = [self.run_apart("upper", b"a", str(n)) for n in range(MOST_WAITING + 1)]
        await self.refused("upper", "apart_busy")
        self.assertEqual(set(await gatherResults(taken)), {b"A"})

    async def test_share_of_one(self) -> None:
        """One person's pieces take their share of the queue, and leave others the rest."""
        taken = [self.run_apart("upper", b"a") for _ in range(MOST_OF_ONE)]
        await self.refused("upper", "apart_busy")
        taken.append(self.run_apart("upper", b"a", "b"))
        self.assertEqual(set(await gatherResults(taken)), {b"A"})
        self.assertEqual(await self.run_apart("upper", b"a"), b"A")

    async def test_waits_too_long(self) -> None:
        """Waiting is part of what a piece may take; one that gave up leaves the queue."""
        host: Any = reactor
        clock = Clock()
        self.apart = WorkApart(reactor=host, clock=clock)
        first, second = self.run_apart("hang"), self.run_apart("upper", b"a")
        clock.advance(WHOLE_SECS)
        for late in (second, first):
            refusal: Any = await self.assertFailure(late, SvcError)
            self.assertEqual(refusal.reason, "apart_deadline")
        self.assertEqual(await self.run_apart("upper", b"a"), b"A")
