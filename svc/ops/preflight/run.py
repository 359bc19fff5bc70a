"""The steps of the preflight, in their order: what fails ends it, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from attrs import define, field, frozen

from svc import __version__
from svc.config import RoleSettings
from svc.errors import Fault, SvcError
from svc.model.canonical import Json
from svc.model.clocks import utc
from svc.model.doctor import CheckSeverity, DoctorReport
from svc.model.store.migration import StoreStanding
from svc.ops.doctor.store import shown_url
from svc.ops.preflight.artifacts import check_bill, check_signature, check_sums
from svc.ops.store import legible, store_place
from svc.ops.verify.log import outside_log

PASSED, PENDING, FAILED = "passed", "pending", "failed"


class DoctorFinding(SvcError):
    """The self-check found what has to be put right first; the status is that of ``doctor``."""

    fault = Fault.PRECONDITION
    reason = "doctor_finding"
    exit_code = 2


class MigratesByItself(SvcError):
    """The next start would migrate the store, which the preflight is there to plan."""

    fault = Fault.PRECONDITION
    reason = "store_auto_migrate"


class AnotherProgram(SvcError):
    """The artifacts are of another version than the program that checks the store for them."""

    fault = Fault.PRECONDITION
    reason = "another_program"


@frozen
class Step:
    """One step that was made.

    Attributes:
        result: ``passed``; ``pending``, which is no fault; or ``failed``, by which it ended.
    """

    name: str
    result: str
    text: str

    def form(self) -> dict[str, Json]:
        """For programs."""
        return {"step": self.name, "result": self.result, "text": self.text}


@define(kw_only=True)
class Preflight:
    """One preflight, and the record of it.

    Attributes:
        change: The id of the change that it is for.
        artifacts: The directory with those of the release.
        state: The Authority's own directory.
        examine: Makes the self-check.
        at: Seconds since the epoch.
        jobs: How many processes verify a long log.
        facts: What was found so far, for the record.
        failure: What it ended by; None: everything passed.
    """

    change: str
    artifacts: Path
    public_key: Path
    settings: RoleSettings
    state: Path
    examine: Callable[[], DoctorReport]
    at: float
    jobs: int = 1
    steps: list[Step] = field(factory=list, init=False)
    facts: dict[str, Json] = field(factory=dict, init=False)
    failure: SvcError | None = field(default=None, init=False)

    NONE: ClassVar[dict[str, Json]] = {
        **dict.fromkeys(("tag", "version", "target", "components", "level")),
        **dict.fromkeys(("records", "last_hash")),
        "ids": [],
    }

    def run(self) -> None:
        """Make the steps; the first that fails is the last.  Blocks."""
        try:
            self._check_artifacts()
            with self._step("doctor") as told:
                told.append(self._examined())
            with self._step("migrations") as told:
                told.append(self._migrations())
            with self._step("audit") as told:
                told.append(self._audit())
        except SvcError as failed:
            self.failure = failed

    def form(self) -> dict[str, Json]:
        """The record of the change; it holds no secret."""
        place = self.settings.store_url
        assert place is not None  # the reading refuses an Authority without it
        return {
            "change_id": self.change,
            "started_at": utc(self.at),
            "store_url": shown_url(place),
            **self.NONE,
            **self.facts,
            "result": PASSED if self.failure is None else FAILED,
            "steps": [one.form() for one in self.steps],
        }

    @contextmanager
    def _step(self, name: str) -> Iterator[list[str]]:
        """Note the step, with the text that it puts in the list."""
        told: list[str] = []
        try:
            yield told
        except SvcError as failed:
            self.steps.append(Step(name, FAILED, failed.text))
            raise
        result = PENDING if told[0].startswith(f"{PENDING}:") else PASSED
        self.steps.append(Step(name, result, told[0]))

    def _check_artifacts(self) -> None:
        with self._step("signature") as told:
            sums = check_signature(self.artifacts, self.public_key)
            told.append(f"the checksums are signed with the key in {self.public_key}")
        with self._step("checksums") as told:
            listed = check_sums(self.artifacts, sums)
            told.append(f"{len(listed)} artifacts are as listed")
        with self._step("bill") as told:
            bill = check_bill(self.artifacts, listed)
            self.facts |= {
                "tag": bill.version.tag,
                "version": str(bill.version),
                "target": bill.target,
                "components": bill.components,
            }
            told.append(f"svc {bill.version} for {bill.target}, {bill.components} components")

    def _examined(self) -> str:
        report = self.examine()
        if report.is_finding:
            bad = [one for one in report.checks if one.severity is CheckSeverity.FAIL]
            what = "; ".join(f"{one.id}: {one.message}" for one in bad)
            raise DoctorFinding(f"doctor: {what}; correct that first: svc --config FILE doctor")
        return ", ".join(f"{count} {word}" for word, count in report.summary.items())

    def _migrations(self) -> str:
        if self.facts["version"] != __version__:
            raise AnotherProgram(
                f"the release is svc {self.facts['version']}, and this program is svc "
                f"{__version__}, which does not know the release's migrations; the steps before "
                "this one passed: run the preflight again, with the program of the release"
            )
        if self.settings.store_auto_migrate:
            raise MigratesByItself(
                "store_auto_migrate: is true, so the next start of any Authority would migrate "
                "the store; set it to false in every Authority's configuration, and migrate by "
                "svc authority store migrate after the backup"
            )
        place = store_place(self.settings)
        with legible("preflight"):
            status = place.factory.migration_status(place.url)
        self.facts |= {"level": status.level, "ids": list(status.ids)}
        if status.standing is StoreStanding.PENDING:
            return f"{PENDING}: {', '.join(status.ids)}"
        status.require_current()
        return f"current: {status.level} ({status.count})"

    def _audit(self) -> str:
        found = outside_log(self.settings, self.state).verified(jobs=self.jobs)
        self.facts |= {"records": found.records, "last_hash": found.last_hash.hex()}
        return found.text
