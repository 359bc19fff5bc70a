"""Results of a self-check, and the report of them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.doctor import (
    CATEGORIES,
    CheckResult,
    CheckSeverity,
    DoctorReport,
    Finding,
    changes,
    combined,
    fail,
    info,
    ok,
    warn,
)
from tests.support.proof import proves

SEVERITIES = st.sampled_from(CheckSeverity)
FINDINGS = st.builds(Finding, SEVERITIES, st.text(max_size=9), st.text(max_size=9))
RESULTS = st.lists(
    st.builds(
        CheckResult, st.sampled_from(("store.a", "audit.b", "policy.c")), SEVERITIES, st.text()
    ),
    unique_by=lambda one: one.id,
)


def report(*checks: CheckResult, strict: bool = False) -> DoctorReport:
    """A report of these."""
    return DoctorReport(
        version="1", role="proxy", profile=None, started_at=0.0, checks=checks, strict=strict
    )


class ModelTests(SynchronousTestCase):
    """The pure part."""

    @proves("G-DOC-05")
    def test_severities(self) -> None:
        """Four words and their numbers."""
        self.assertEqual(
            [(one.word, int(one)) for one in CheckSeverity],
            [("ok", 0), ("info", 1), ("warn", 2), ("fail", 3)],
        )

    @given(st.dictionaries(st.sampled_from(("proxy", "connector")), st.lists(FINDINGS)))
    def test_worst(self, findings: dict[str, list[Finding]]) -> None:
        """A check of several places is as bad as the worst, and tells all that is not well."""
        result = combined("store.a", findings)
        every = [one for found in findings.values() for one in found]
        self.assertEqual(result.severity, max((one.severity for one in every), default=0))
        for one in every:
            if one.severity:
                self.assertIn(one.message, result.message)
                self.assertIn(one.hint, result.hint)

    def test_roles_are_named(self) -> None:
        """Where several roles were looked at, each message says of which it is."""
        found = combined("a.b", {"proxy": [ok("fine")], "connector": [warn("late", "hurry")]})
        self.assertEqual((found.message, found.hint), ("connector: late", "hurry"))
        hints = combined("a.b", {"proxy": [warn("x", "go")], "connector": [warn("y", "stay")]})
        self.assertEqual(hints.hint, "proxy: go; connector: stay")
        both = combined("a.b", {"proxy": [ok("fine")], "connector": [ok("fine")]})
        self.assertEqual(both.message, "fine")
        alone = combined("a.b", {"proxy": [info("first"), fail("second", "mend it")]})
        self.assertEqual(alone.message, "first; second")

    @given(RESULTS, st.booleans())
    def test_form(self, checks: list[CheckResult], strict: bool) -> None:
        """The document is JSON; its counts are those of its checks; a failure is a finding."""
        made = report(*checks, strict=strict)
        form = json.loads(json.dumps(made.form()))
        self.assertEqual(
            list(form),
            ["schema", "version", "role", "profile", "started_at", "checks", "summary", "result"],
        )
        codes = [one["code"] for one in form["checks"]]
        self.assertEqual(sum(form["summary"].values()), len(codes))
        self.assertEqual(form["summary"]["fail"], codes.count(3))
        self.assertEqual(form["result"] == "finding", max(codes, default=0) >= (2 if strict else 3))
        for one in form["checks"]:
            self.assertIn(one["category"], CATEGORIES)
            self.assertTrue(one["id"].startswith(f"{one['category']}."))

    @given(RESULTS, RESULTS)
    def test_changes(self, before: list[CheckResult], after: list[CheckResult]) -> None:
        """What appears is told once; after the same again nothing is."""
        appeared, gone = changes(before, after)
        for one in appeared:
            self.assertGreaterEqual(one.severity, CheckSeverity.WARN)
        self.assertFalse({one.id for one in appeared} & {one.id for one in gone})
        self.assertEqual(changes(after, after), ((), ()))
        failing = {one.id for one in after if one.severity is CheckSeverity.FAIL}
        known = {one.id for one in before if one.severity is CheckSeverity.FAIL}
        self.assertLessEqual(failing - known, {one.id for one in appeared})
