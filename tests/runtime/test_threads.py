"""A thread of one's own: calls run in order, and nobody waits for one that hangs but its caller."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import TestCase

from svc.errors import Unavailable
from svc.runtime.threads import SerialThread, in_pool, inline

reactor: Any = installed


class OwnThreadTests(TestCase):
    """A thread, and a call in it that hangs until a test lets it go."""

    timeout = 20

    def setUp(self) -> None:
        self.ran: list[str] = []
        self.gate, self.begun = threading.Event(), Deferred[None]()
        self.addCleanup(self.gate.set)
        self.own = SerialThread("of a test", reactor.callFromThread)

    def hang(self) -> str:
        reactor.callFromThread(self.begun.callback, None)
        self.gate.wait()
        self.ran.append("hung")
        return "late"

    async def test_in_order(self) -> None:
        """Calls run one after another, away from the reactor; what each gives or raises is told."""
        here, seen = threading.get_ident(), []
        first = self.own(lambda: seen.append(threading.current_thread()))
        second = self.own(lambda: int("no number"))
        third = self.own(lambda: "answer")
        await first
        await self.assertFailure(second, ValueError)
        self.assertEqual(await third, "answer")
        self.assertNotEqual(seen[0].ident, here)
        self.assertTrue(seen[0].daemon)
        await self.own.end()

    async def test_nice(self) -> None:
        """A thread that computes for long is nicer than the process; the others are as it is."""
        here = os.getpriority(os.PRIO_PROCESS, 0)
        nice = SerialThread("nice", reactor.callFromThread, nice=3)
        for thread, more in ((nice, 3), (self.own, 0)):
            of_it = await thread(lambda: os.getpriority(os.PRIO_PROCESS, 0))
            self.assertEqual(of_it, min(here + more, 19))
            await thread.end()
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, 0), here)

    async def test_hangs(self) -> None:
        """A call that hangs is given up by its caller; those given up behind it never run."""
        hung = self.own(self.hang)
        await self.begun
        waiting = self.own(lambda: self.ran.append("given up"))
        last = self.own(lambda: self.ran.append("last"))
        given_up: list[Deferred[Any]] = [hung, waiting]
        for each in given_up:
            each.cancel()
            await self.assertFailure(each, CancelledError)
        ended = self.own.end()
        self.assertNoResult(ended)
        self.gate.set()
        await last
        await ended
        self.assertEqual(self.ran, ["hung", "last"])

    async def test_given_up_is_let_go(self) -> None:
        """What was given up behind a call that hangs holds nothing, however often it is asked."""
        hung = self.own(self.hang)
        await self.begun

        def ask() -> weakref.ref[Any]:
            def call() -> None:
                self.ran.append("given up")

            waiting = self.own(call)
            waiting.cancel()
            self.assertFailure(waiting, CancelledError)
            return weakref.ref(call)

        asked = [ask() for _ in range(100)]
        gc.collect()
        self.assertEqual([one() for one in asked], [None] * 100)
        self.gate.set()
        await hung
        await self.own.end()
        self.assertEqual(self.ran, ["hung"])

    async def test_ended(self) -> None:
        """An end that is waited for no longer does no harm, and nothing is taken after it."""
        hung = self.own(self.hang)
        await self.begun
        given_up = self.own.end()
        given_up.cancel()
        await self.assertFailure(given_up, CancelledError)
        with self.assertRaises(Unavailable):
            await self.own(lambda: None)
        self.gate.set()
        self.assertEqual(await hung, "late")
        await self.own.end()

    def test_never_begun(self) -> None:
        """A thread that was never needed is ended at once."""
        self.successResultOf(self.own.end())


class PoolTests(TestCase):
    """Calls in the pool of the reactor."""

    async def test_runs_elsewhere(self) -> None:
        """A call runs in another thread; what it returns or raises comes on the reactor's."""
        run = in_pool(reactor)
        here = threading.get_ident()
        self.assertNotEqual(await run(threading.get_ident), here)
        self.assertEqual(threading.get_ident(), here)
        with self.assertRaises(ZeroDivisionError):
            await run(lambda: 1 // 0)

    def test_inline(self) -> None:
        """A call that is run at once has its answer at once, a refusal as well."""
        self.assertEqual(self.successResultOf(inline(threading.get_ident)), threading.get_ident())
        self.failureResultOf(inline(lambda: 1 // 0), ZeroDivisionError)
