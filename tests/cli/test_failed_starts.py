"""A start that fails or is given up: the exit status, under ``svc`` and under twistd."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.cli.roles import Running
from svc.errors import SvcError, UnknownApplied
from svc.runtime.services import AsyncMultiService, AsyncService
from svc.tap import Root
from tests.support.proof import proves

NEWER = UnknownApplied("store: it is newer")


class OneStart:
    """A reactor for one start: what it is told to run is run at once."""

    running = True

    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        """Count."""
        self.stops += 1


class Lines:
    """Where refusals are said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def refusal(self, reason: str, text: str, at: float) -> None:
        """Keep it."""
        self.said.append(text)


class Waits(AsyncService):
    """Starts when told so."""

    def __init__(self) -> None:
        self.told: Deferred[None] = Deferred()

    async def start(self) -> None:
        """Wait."""
        await self.told


class FailedStartTests(SynchronousTestCase):
    """One process whose only service waits."""

    def setUp(self) -> None:
        self.waits, self.process = Waits(), AsyncMultiService()
        self.process.addService(self.waits)
        self.reactor: Any = OneStart()
        self.lines: Any = Lines()
        self.ended: list[SvcError | None] = []

    def running(self) -> Running:
        """It, in the foreground."""
        running = Running(self.reactor, self.lines)
        running._start(self.process)
        return running

    def root(self) -> Root:
        """It, under twistd."""
        root = Root(self.lines, self.ended.append)
        root.addService(self.process)
        root.startService()
        return root

    def test_given_up(self) -> None:
        """A stop while it starts is a stop: nothing is refused and the status is 0."""
        running = self.running()
        self.successResultOf(self.process.stopService())
        self.assertEqual((running._status, self.reactor.stops, self.lines.said), (0, 0, []))
        self.setUp()
        self.root()
        self.successResultOf(self.process.stopService())
        self.assertEqual(self.ended, [])
        self.assertEqual(self.flushLoggedErrors(), [])

    @proves("G-STORE-02")
    def test_refused(self) -> None:
        """A refusal that is found late ends the process with its status."""
        running = self.running()
        self.waits.told.errback(NEWER)
        self.assertEqual((running._status, self.reactor.stops), (4, 1))
        self.assertEqual(self.lines.said, [NEWER.text])
        self.setUp()
        self.root()
        self.waits.told.errback(NEWER)
        self.assertEqual(self.ended, [NEWER])

    def test_failed(self) -> None:
        """A fault of ours is logged, and ends the process with 1."""
        running = self.running()
        self.waits.told.errback(ZeroDivisionError())
        self.assertEqual((running._status, self.reactor.stops), (1, 1))
        self.setUp()
        self.root()
        self.waits.told.errback(ZeroDivisionError())
        self.assertEqual(self.ended, [None])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
