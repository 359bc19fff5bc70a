"""A node reports its health: when, and what it says."""

from __future__ import annotations

from itertools import pairwise

from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from svc import __version__
from svc.compose.health import HealthReporter, LastChecks
from svc.errors import Unavailable
from svc.messages.health import decode_health
from svc.model.cluster.health import EVERY_SECS, MAX_FOUND, CheckFound, HealthReport, health_report
from svc.model.doctor import CheckResult, CheckSeverity, DoctorReport
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed, verify
from tests.pki.support import CLUSTER, World
from tests.support.proof import proves


def checked(*severities: CheckSeverity) -> DoctorReport:
    """A self-check that found these, one check each."""
    checks = (
        CheckResult(f"store.check{number}", severity, "told")
        for number, severity in enumerate(severities)
    )
    return DoctorReport(
        version="1", role="proxy", profile=None, started_at=1.0, checks=tuple(checks)
    )


class ReporterTests(TestCase):
    """The service over a clock."""

    def setUp(self) -> None:
        world = World()
        self.clock: Clock = world.clock
        self.now = world.now
        self.identity = world.identity(Role.PROXY)
        self.is_away = False
        self.delivered: list[HealthReport] = []
        self.tried: list[int] = []

    async def deliver(self, signed: Signed) -> None:
        """Take it, unless nobody is there."""
        self.tried.append(round(self.clock.seconds()))
        if self.is_away:
            raise Unavailable("away for a test")
        key = self.identity.facts.public_key
        verify(key, Purpose.HEALTH_REPORT, signed.payload, signed.signature)
        self.delivered.append(decode_health(signed.payload))

    async def begin(self, checks: LastChecks) -> None:
        """Run it until the end of the test."""
        service = HealthReporter(
            cluster=CLUSTER,
            identity=self.identity,
            checks=checks,
            deliver=self.deliver,
            clock=self.clock,
            now=self.now,
        )
        await service.startService()
        self.addCleanup(service.stopService)

    @proves("G-OPEN-78", "G-CLI-05")
    async def test_without_checks(self) -> None:
        """A node that makes no checks reports itself and its version, once a minute."""
        await self.begin(LastChecks())
        self.clock.pump([1] * 10)
        self.assertEqual(len(self.delivered), 1)
        (first,) = self.delivered
        self.assertEqual(
            (first.node_id, first.version, first.worst, first.failed, first.found),
            (self.identity.principal.id, __version__, None, 0, ()),
        )
        self.clock.pump([1] * 600)
        times = [one.made_at_ms for one in self.delivered]
        apart = {after - before for before, after in pairwise(times)}
        self.assertEqual((len(times), apart), (11, {int(EVERY_SECS * 1000)}))

    @proves("G-OPEN-78")
    async def test_with_checks(self) -> None:
        """A node that makes checks reports its last ones, and nothing before the first are done."""
        checks = LastChecks(are_made=True)
        await self.begin(checks)
        self.clock.pump([1] * 100)
        self.assertEqual(self.delivered, [])
        severity = CheckSeverity
        checks.tell(checked(severity.OK, severity.WARN, severity.INFO, severity.FAIL))
        self.clock.pump([1] * 10)
        (told,) = self.delivered
        self.assertEqual((told.worst, told.failed, told.warnings), (severity.FAIL, 1, 1))
        self.assertEqual(
            told.found,
            (CheckFound("store.check3", severity.FAIL), CheckFound("store.check1", severity.WARN)),
        )

    async def test_nobody_is_there(self) -> None:
        """Until somebody takes a report it is tried again, less and less often, then as usual."""
        self.is_away = True
        await self.begin(LastChecks())
        self.clock.pump([1] * 3600)
        tries = [after - before for before, after in pairwise(self.tried)]
        self.assertEqual(tries[:5], [6, 12, 24, 48, 60])
        self.assertEqual(set(tries[4:]), {60})
        self.is_away = False
        self.clock.pump([1] * 60)
        self.assertEqual(len(self.delivered), 1)

    def test_most(self) -> None:
        """A report names a bounded number of checks, failures first, and counts all of them."""
        severities = [CheckSeverity.WARN] * 100 + [CheckSeverity.FAIL]
        report = health_report(
            cluster=CLUSTER, node_id="n", at=1.0, version="1", checks=checked(*severities)
        )
        self.assertEqual((report.failed, report.warnings), (1, 100))
        self.assertEqual(len(report.found), MAX_FOUND)
        self.assertEqual(report.found[0].severity, CheckSeverity.FAIL)
