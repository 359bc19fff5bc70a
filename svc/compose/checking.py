"""The periodic self-check of a process, which a reload may turn on and off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from attrs import define, field

from svc.compose.process_parts import ProcessParts
from svc.config import RoleSettings
from svc.runtime.context import Runtime
from svc.runtime.services import AsyncService
from svc.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from svc.compose.doctor import PeriodicDoctor


@define(slots=False, eq=False)
class SelfChecks(AsyncService):
    """Makes no checks where ``doctor.check_interval_secs`` is 0, and imports nothing for them.

    Raises:
        PluginError: a drop-in with a check cannot be loaded.
    """

    runtime: Runtime
    metrics: Metrics
    shared: ProcessParts
    _doctor: PeriodicDoctor | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.shared.reloads.prepare("doctor.check_interval_secs", by=self._prepared)
        if self._interval:
            self._doctor = self._made(self._interval)

    async def start(self) -> None:
        """The first run begins at once."""
        if self._doctor is not None:
            await self._doctor.startService()

    async def stop(self) -> None:
        """A run that is under way is not waited for: it changes nothing."""
        if self._doctor is not None and self._doctor.running:
            await self._doctor.stopService()

    @property
    def _interval(self) -> int:
        return self.shared.reloads.settings.doctor.check_interval_secs

    def _made(self, interval: int) -> PeriodicDoctor:
        # Imported where it runs: it needs more than any role does.
        from svc.compose.doctor import periodic_doctor

        return periodic_doctor(
            runtime=self.runtime,
            settings=lambda: self.shared.reloads.settings,
            interval=interval,
            metrics=self.metrics,
            last=self.shared.checks,
        )

    def _prepared(self, changed: RoleSettings) -> Callable[[], object]:
        interval = changed.doctor.check_interval_secs
        doctor = self._doctor or self._made(interval)
        return partial(self._change, doctor, interval)

    def _change(self, doctor: PeriodicDoctor, interval: int) -> None:
        self._doctor = doctor
        self.shared.checks.turn(bool(interval))
        doctor.change(interval)
        if self.running and not doctor.running:
            doctor.startService()
