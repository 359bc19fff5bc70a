"""Builds the self-check: what it is given of a role, and its periodic run in that role."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.compose.added_checks import added_checks
from svc.compose.drop_ins import KindSide, load_kinds
from svc.compose.health import LastChecks
from svc.compose.targets import read_targets
from svc.config import RoleSettings
from svc.model.doctor import CATEGORIES, CheckResult, DoctorReport, changes
from svc.ops.doctor.checks import CHECKS, IDS
from svc.ops.doctor.context import NODES, CheckContext, RunningProgram, StoreView, own_state
from svc.ops.doctor.run import examine
from svc.policy.kind_terms import kind_terms
from svc.policy.vocabulary import Vocabulary, vocabulary
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncService, PeriodicTask, bounded
from svc.runtime.threads import InThread, SerialThread
from svc.telemetry.metrics import Metrics

RUN_SECS = 120.0
"""A periodic run that takes longer is given up; its thread goes on, and the next one waits."""

_OFF_SECS = 3600.0
"""Until the next look whether checks are to be made; turning them on does not wait for it."""

_NICE = 10
_log = Logger(namespace="svc_doctor")

_SERIES = (
    "svc_doctor_check_status",
    "svc_doctor_failed",
    "svc_doctor_warnings",
    "svc_doctor_last_run_timestamp_seconds",
)

UNIT_DIRECTORIES = (
    Path("/etc/systemd/system"),
    Path("/run/systemd/system"),
    Path("/usr/local/lib/systemd/system"),
    Path("/usr/lib/systemd/system"),
    Path("/lib/systemd/system"),
)


def role_contexts(
    settings: RoleSettings,
    at: float,
    program: RunningProgram,
    state: Path | None = None,
    *,
    is_within: bool = False,
) -> tuple[CheckContext, ...]:
    """What the checks are given of the role of these settings, or of each of the three of ``all``.

    Args:
        state: The role's own directory, if it is not the one that the settings name.
        is_within: Whether the role makes its checks itself.
    """
    roles = NODES if settings.role == "all" else (settings.role,)
    store = StoreView(settings)
    return tuple(
        CheckContext(
            settings=settings,
            role=role,
            state=state or own_state(settings, role),
            at=at,
            program=program,
            targets=_targets,
            vocabulary=_vocabulary,
            store=store,
            is_within=is_within,
        )
        for role in roles
    )


def _targets(settings: RoleSettings) -> Any:
    return read_targets(settings, load_kinds(settings.plugins.kinds, KindSide.DIALER))


def _vocabulary(settings: RoleSettings) -> Vocabulary:
    kinds = load_kinds(settings.plugins.kinds)
    return vocabulary(*(kind_terms(kind.terms) for kind in kinds.by_name.values()))


def this_program() -> RunningProgram:
    """The program of this process: the script that was started, or the interpreter.

    By ``python -m svc`` it is the interpreter, as in the unit of a machine without the script.
    """
    script = sys.argv[0]
    is_module = os.path.basename(script) == "__main__.py" or not os.path.isfile(script)
    started = sys.executable if is_module else script
    return RunningProgram(Path(os.path.realpath(started)), UNIT_DIRECTORIES)


@define
class DoctorMeters:
    """The series of periodic checks; they are there from the first run on."""

    metrics: Metrics
    ids: Sequence[str] = IDS

    def __attrs_post_init__(self) -> None:
        self.metrics.allow("svc_doctor_check_status", id=self.ids, category=CATEGORIES)

    def tell(self, report: DoctorReport) -> None:
        """Set them all."""
        gauge, summary = self.metrics.gauge, report.summary
        for one in report.checks:
            status = gauge("svc_doctor_check_status", id=one.id, category=one.category)
            status.set(int(one.severity))
        gauge("svc_doctor_failed").set(summary["fail"])
        gauge("svc_doctor_warnings").set(summary["warn"])
        gauge("svc_doctor_last_run_timestamp_seconds").set(report.started_at)

    def forget(self) -> None:
        """Show none of them: without checks 0 would say that all is well."""
        for name in _SERIES:
            self.metrics.forget(name)


@define(slots=False, eq=False)
class PeriodicDoctor(AsyncService):
    """Runs the checks again and again, and logs a finding once when it appears and when it goes.

    Attributes:
        run: Makes all checks; blocks.
        thread: Where it runs, away from the reactor.
        interval: Seconds; 0: no checks are made.
        tell: Given each report.
        forget: Called when no checks are made any more.
    """

    run: Callable[[], DoctorReport]
    clock: IReactorTime
    interval: float
    thread: InThread
    tell: Callable[[DoctorReport], object]
    forget: Callable[[], object] = lambda: None
    _before: tuple[CheckResult, ...] = field(default=(), init=False)
    _turns: PeriodicTask = field(init=False)

    @_turns.default
    def _periodic(self) -> PeriodicTask:
        return PeriodicTask(
            clock=self.clock,
            interval=self.interval,
            call=self._turn,
            what="doctor",
            jitter=lambda _: self.interval or _OFF_SECS,
        )

    async def start(self) -> None:
        """The first run begins at once."""
        self._turns.startService()

    async def stop(self) -> None:
        """A run that is under way is not waited for: it changes nothing."""
        await self._turns.stopService()

    def change(self, interval: float) -> None:
        """Run at another interval from now on, the first time at once; 0: not any more."""
        self.interval = interval
        if interval:
            self._turns.hurry()
        else:
            self._forget_all()

    def _forget_all(self) -> None:
        self._before = ()
        self.forget()

    async def _turn(self) -> None:
        if not self.interval:
            return
        report = await bounded(self.clock, RUN_SECS, self.thread(self.run), "the periodic checks")
        if not self.interval:
            return  # it was turned off meanwhile
        self.tell(report)
        appeared, gone = changes(self._before, report.checks)
        self._before = report.checks
        for one in appeared:
            _log.warn(
                "a check found something",
                check=one.id,
                severity=one.severity.word,
                text=one.message,
                hint=one.hint,
            )
        for one in gone:
            _log.info("a check finds nothing any more", check=one.id, text=one.message)


def periodic_doctor(
    runtime: Runtime,
    settings: Callable[[], RoleSettings],
    interval: float,
    metrics: Metrics,
    last: LastChecks,
) -> PeriodicDoctor:
    """The periodic checks of a process.

    Args:
        settings: Gives those in force.
        interval: Seconds between two runs.
        last: Told of each report.

    Raises:
        PluginError: a drop-in with a check cannot be loaded.
    """
    started = settings()
    program, checks = this_program(), (*CHECKS, *added_checks(started.plugins.checks))

    def run() -> DoctorReport:
        contexts = role_contexts(settings(), runtime.now(), program, is_within=True)
        return examine(checks, contexts)

    meters = DoctorMeters(metrics, [check.id for check in checks])

    def tell(report: DoctorReport) -> None:
        meters.tell(report)
        last.tell(report)

    reactor = runtime.reactor
    return PeriodicDoctor(
        run=run,
        clock=reactor,
        interval=interval,
        thread=SerialThread("doctor", reactor.callFromThread, nice=_NICE),
        tell=tell,
        forget=meters.forget,
    )
