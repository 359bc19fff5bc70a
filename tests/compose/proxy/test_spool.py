"""A Proxy's spool on a disk that hangs: the stop has an end, and says what is lost by it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import TestCase

from svc.audit.spool.spool import Spool
from svc.compose.proxy.spool import SpoolParts, SpoolService, SpoolThread
from svc.errors import Unavailable
from svc.proxy.shutdown import WRITE_SECS
from svc.proxy.uplink.deliver import SpoolDelivery
from svc.proxy.uplink.journal import EndsFile, EndsJournal
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import SerialThread
from tests.audit.spools import FaultyDisk, files, record
from tests.support.nothing import nothing

reactor: Any = installed


class HangingDisk(FaultyDisk):
    """A disk whose next sync hangs once *hangs* is set, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs: Deferred[None] | None = None
        self.gate = threading.Event()

    def sync(self, descriptor: int) -> None:
        if self.hangs is not None:
            told, self.hangs = self.hangs, None
            reactor.callFromThread(told.callback, None)
            self.gate.wait()
        super().sync(descriptor)


class HangTests(TestCase):
    """A spool in its thread, without a Proxy around it."""

    timeout = 20

    async def setUp(self) -> None:  # type: ignore[override]
        self.disk, self.clock, tasks = HangingDisk(), Clock(), BackgroundTasks()
        clock: Any = self.clock
        self.addCleanup(self.disk.gate.set)
        thread = SpoolThread(SerialThread("spool of a test", reactor.callFromThread))
        root = Path(self.mktemp())
        self.spool = Spool(
            files(root, self.disk), thread, committed=nothing, has_room=nothing, clock=clock
        )

        def away() -> Any:
            raise Unavailable("away for a test", reason="authority_unreachable")

        delivery = SpoolDelivery(spool=self.spool, channel=away, tasks=tasks, clock=clock)
        journal = EndsJournal(
            file=EndsFile(root / "ends"), in_thread=thread, tasks=tasks, clock=clock
        )
        parts = SpoolParts(thread=thread, spool=self.spool, delivery=delivery, journal=journal)
        self.spooling = SpoolService(parts, clock, recover=list)
        await self.spooling.startService()

    def write(self, name: str) -> Deferred[None]:
        return Deferred.fromCoroutine(self.spool.write(record(name)))

    async def test_stop(self) -> None:
        """The reactor goes on, the stop is over in seconds, and what was not durable is counted."""
        await self.write("a")
        hangs: Deferred[None] = Deferred()
        self.disk.hangs = hangs
        written = [self.write(name) for name in "bcd"]
        await hangs
        behind = self.write("e")
        stopped = self.spooling.stopService()
        self.assertNoResult(stopped)
        with capturedLogs() as said:
            self.clock.advance(WRITE_SECS)
            await stopped
        self.assertEqual([(one["records"], one["ends"]) for one in said], [(4, 0)])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.disk.gate.set()
        for one in written:
            await one
        await self.assertFailure(behind, Unavailable)
        self.assertEqual(len(self.flushLoggedErrors(Unavailable)), 1)

    async def test_in_order(self) -> None:
        """A disk that answers is waited for, and nothing is said."""
        await self.write("a")
        await self.spool.close()
        with capturedLogs() as said:
            await self.spooling.stopService()
        self.assertEqual(said, [])
        self.assertEqual(self.clock.getDelayedCalls(), [])
