"""Checks of drop-ins: the example of the guide, and those that are wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any

from attrs import evolve, frozen
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.compose.added_checks import added_checks
from svc.compose.doctor import role_contexts
from svc.config import read_settings
from svc.errors import PluginError
from svc.interfaces.checks import IRoleCheck, RoleFacts
from svc.model.doctor import Finding, ok
from svc.ops.doctor.added import MOST, check_of
from svc.ops.doctor.context import CheckContext, RunningProgram
from svc.ops.doctor.run import examine
from tests.config.malformed import GOOD

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "doctor.md"


def context() -> CheckContext:
    """A Proxy that has never run."""
    settings = read_settings(GOOD["proxy"], "proxy")
    (made,) = role_contexts(settings, 1_800_000_000.0, RunningProgram(Path("/bin/sh"), ()))
    return made


@implementer(IRoleCheck)
@frozen
class OneCheck:
    """A check that does what a test says."""

    does: Callable[[RoleFacts], Iterable[Finding]]
    name: str = "own"
    category: str = "service"
    roles: tuple[str, ...] = ("proxy",)

    def find(self, facts: RoleFacts) -> Iterable[Finding]:
        """Do it."""
        return self.does(facts)


class AddedTests(SynchronousTestCase):
    """A drop-in's check among the others."""

    def told(self, does: Callable[[RoleFacts], Any], seconds: float = 10.0) -> tuple[str, str]:
        """Severity and message of one."""
        (result,) = examine([check_of(OneCheck(does), seconds)], [context()]).checks
        self.assertEqual(result.id, "service.own")
        return result.severity.word, result.message

    def test_example(self) -> None:
        """The example of the guide is loaded as a drop-in, and finds that there is no backup."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir(mode=0o755)
        (text,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
        kept = folder / "kept"
        (folder / "check_backup.py").write_text(text.replace("/srv/backups/svc", str(kept)))
        (folder / "check_backup.py").chmod(0o644)
        self.addCleanup(sys.modules.pop, "svc.plugins.check_backup", None)
        (check,) = added_checks(["backup"], [str(folder)])
        authority = evolve(context(), role="authority")
        (result,) = examine([check], [authority]).checks
        self.assertEqual((result.id, result.severity.word), ("service.backup", "fail"))
        (kept / "today").mkdir(parents=True)
        (kept / "today" / "manifest.json").touch()
        at = (kept / "today" / "manifest.json").stat().st_mtime + 7200
        (result,) = examine([check], [evolve(authority, at=at)]).checks
        self.assertEqual((result.severity.word, "2 hours" in result.message), ("ok", True))

    def test_facts(self) -> None:
        """It is told of the role, and of nothing secret."""
        severity, message = self.told(lambda facts: [ok(f"{facts.role} of {facts.cluster}")])
        self.assertEqual((severity, message), ("ok", "proxy of a.example"))

    def test_wrong(self) -> None:
        """One that raises, hangs, or tells something else is a failure; its words are not told."""

        def raises(_: RoleFacts) -> Iterable[Finding]:
            raise ValueError("hush")

        self.assertEqual(self.told(raises), ("fail", "the drop-in failed (ValueError)"))
        self.assertEqual(self.told(lambda _: ["text"]), ("fail", "the drop-in failed (TypeError)"))
        waiting = Event()
        self.addCleanup(waiting.set)
        severity, message = self.told(lambda _: [waiting.wait()], seconds=0.01)
        self.assertEqual((severity, "longer than" in message), ("fail", True))

    def test_many_findings(self) -> None:
        """What it finds without end is cut."""
        severity, message = self.told(lambda _: [ok(f"line {n}") for n in range(1000)])
        self.assertEqual((severity, message.count("line")), ("ok", MOST))

    def test_refused(self) -> None:
        """An unknown category or role, and the id of a check of ours."""
        fine = OneCheck(lambda _: [])
        for wrong in (
            evolve(fine, category="weather"),
            evolve(fine, roles=("king",)),
            evolve(fine, roles=()),
            evolve(fine, category="store", name="reachable"),
        ):
            self.assertRaises(PluginError, check_of, wrong)
