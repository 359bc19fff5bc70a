"""Periodic checks: when they run, the series they set, what is logged of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from svc.compose.doctor import DoctorMeters, PeriodicDoctor
from svc.model.doctor import CheckResult, CheckSeverity, DoctorReport
from svc.runtime.threads import inline
from svc.telemetry.metrics import Metrics
from tests.support.logged import logged
from tests.support.proof import proves
from tests.telemetry.test_metrics import samples

ID = "store.migrations"


class PeriodicTests(TestCase):
    """The service over a clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.metrics = Metrics(("proxy",), strict=True)
        self.severity = CheckSeverity.OK
        self.runs = 0
        self.service = PeriodicDoctor(
            run=self.run_checks,
            clock=self.clock,
            interval=5.0,
            thread=inline,
            tell=DoctorMeters(self.metrics).tell,
        )

    def run_checks(self) -> DoctorReport:
        """One check."""
        self.runs += 1
        check = CheckResult(id=ID, severity=self.severity, message="told", hint="mend it")
        return DoctorReport(
            version="1",
            role="proxy",
            profile=None,
            started_at=100.0 + self.clock.seconds(),
            checks=(check,),
        )

    @proves("G-DOC-09", "G-DOC-10", "G-MET-33", "G-MET-34", "G-MET-35", "G-MET-36", "X-09")
    async def test_series(self) -> None:
        """They are absent before the first run, and then those of the newest one."""
        self.assertEqual([one for one in samples(self.metrics) if "doctor" in one], [])
        await self.service.startService()
        self.addCleanup(self.service.stopService)
        for turn, (severity, failed, warned) in enumerate(
            (
                (CheckSeverity.OK, 0, 0),
                (CheckSeverity.FAIL, 1, 0),
                (CheckSeverity.WARN, 0, 1),
                (CheckSeverity.OK, 0, 0),
            )
        ):
            if turn:
                self.severity = severity
                self.clock.advance(5)
            found = samples(self.metrics)
            (status,) = (value for name, value in found.items() if "check_status" in name)
            counts = found["svc_doctor_failed"], found["svc_doctor_warnings"]
            self.assertEqual((status, *counts), (int(severity), failed, warned))
            last = found["svc_doctor_last_run_timestamp_seconds"]
            self.assertEqual(last, 100.0 + 5 * turn)
            self.assertEqual(self.runs, turn + 1)

    async def test_log(self) -> None:
        """A finding is logged when it appears and when it is gone, and not in between."""
        events = logged(self)
        await self.service.startService()
        self.addCleanup(self.service.stopService)
        for severity in (
            CheckSeverity.FAIL,
            CheckSeverity.FAIL,
            CheckSeverity.OK,
            CheckSeverity.OK,
        ):
            self.severity = severity
            self.clock.advance(5)
        told = [(one["log_level"].name, one["check"]) for one in events if "check" in one]
        self.assertEqual(told, [("warn", ID), ("info", ID)])

    async def test_stop_amid_a_run(self) -> None:
        """A run that hangs keeps no role from stopping, and sets nothing afterwards."""

        def hangs(call: Callable[[], Any], /) -> Deferred[Any]:
            return Deferred()

        service = PeriodicDoctor(
            run=self.run_checks,
            clock=self.clock,
            interval=5.0,
            thread=hangs,
            tell=lambda report: self.fail("it was given up"),
        )
        await service.startService()
        await service.stopService()
        self.assertFalse(self.clock.getDelayedCalls())
