"""A start that fails or is given up: the exit status, under ``svc`` and under twistd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.cli.roles import Running, refused_start
from svc.config import load_settings
from svc.errors import ConfigError, PluginError, SvcError, UnknownApplied
from svc.runtime.services import AsyncMultiService, AsyncService
from svc.tap import Root
from svc.telemetry.filter import parse_filter
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


class RefusedStartTests(SynchronousTestCase):
    """The status of a start that is refused at once."""

    def status(self, refusal: SvcError, **environ: str) -> int:
        """With these variables."""
        lines: Any = Lines()
        status = refused_start(lines, refusal, environ)
        self.assertEqual(lines.said, [refusal.text])
        return status

    def written(self, text: str) -> SvcError:
        """The refusal of a configuration's text."""
        path = Path(self.mktemp())
        path.write_text(text)
        refusal: SvcError = self.assertRaises(SvcError, load_settings, str(path), "proxy", {})
        return refusal

    @proves("G-OPEN-24", "G-OPEN-68")
    def test_what_no_restart_can_mend(self) -> None:
        """What is written wrongly has the status that a unit names for it; of others it is 1."""
        log_filter = self.assertRaises(SvcError, parse_filter, "svc=nolevel")
        drop_in = PluginError("kind x: not installed")
        for refusal in (self.written("[a"), self.written("a = 1"), log_filter, drop_in):
            self.assertEqual(self.status(refusal, SVC_REFUSED_STATUS="78"), 78, refusal)
            self.assertEqual(self.status(refusal), 1)
            for word in ("", "0", "256", "x", "-1", "9" * 5000):
                self.assertEqual(self.status(refusal, SVC_REFUSED_STATUS=word), 1)

    def test_what_may_pass(self) -> None:
        """A file that is not there yet, an address in use: the same unit tries again."""
        missing = self.assertRaises(SvcError, load_settings, "/nowhere/p.toml", "proxy", {})
        in_use = ConfigError("endpoints.public_listen", "in use")
        for refusal, status in ((missing, 1), (in_use, 1), (NEWER, 4)):
            self.assertEqual(self.status(refusal, SVC_REFUSED_STATUS="78"), status)


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
