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

_NICE = 10
_log = Logger(namespace="svc_doctor")

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


@define(slots=False, eq=False)
class PeriodicDoctor(AsyncService):
    """Runs the checks again and again, and logs a finding once when it appears and when it goes.

    Attributes:
        run: Makes all checks; blocks.
        thread: Where it runs, away from the reactor.
        tell: Given each report.
    """

    run: Callable[[], DoctorReport]
    clock: IReactorTime
    interval: float
    thread: InThread
    tell: Callable[[DoctorReport], object]
    _before: tuple[CheckResult, ...] = field(default=(), init=False)
    _turns: PeriodicTask = field(init=False)

    @_turns.default
    def _periodic(self) -> PeriodicTask:
        return PeriodicTask(
            clock=self.clock, interval=self.interval, call=self._turn, what="doctor"
        )

    async def start(self) -> None:
        """The first run begins at once."""
        self._turns.startService()

    async def stop(self) -> None:
        """A run that is under way is not waited for: it changes nothing."""
        await self._turns.stopService()

    async def _turn(self) -> None:
        report = await bounded(self.clock, RUN_SECS, self.thread(self.run), "the periodic checks")
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
    settings: RoleSettings,
    metrics: Metrics,
    tell: Callable[[DoctorReport], object],
) -> PeriodicDoctor:
    """The periodic checks of a process whose configuration asks for them.

    Args:
        tell: Given each report.

    Raises:
        PluginError: a drop-in with a check cannot be loaded.
    """
    program, checks = this_program(), (*CHECKS, *added_checks(settings.plugins.checks))

    def run() -> DoctorReport:
        contexts = role_contexts(settings, runtime.now(), program, is_within=True)
        return examine(checks, contexts)

    meters = DoctorMeters(metrics, [check.id for check in checks])

    def told(report: DoctorReport) -> None:
        meters.tell(report)
        tell(report)

    reactor = runtime.reactor
    return PeriodicDoctor(
        run=run,
        clock=reactor,
        interval=settings.doctor.check_interval_secs,
        thread=SerialThread("doctor", reactor.callFromThread, nice=_NICE),
        tell=told,
    )
