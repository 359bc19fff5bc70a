"""What a self-check finds: severities, results and the report.

Pure.  A result is computed anew by each run; nothing moves it from one severity to another.
The ids of checks are fixed at build time, because they are labels of a metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from attrs import frozen

from svc.model.clocks import utc

SCHEMA = 1
"""Of the JSON form; a member may be added to it, and none changes its meaning."""

CATEGORIES = (
    "config",
    "store",
    "audit",
    "identity",
    "network",
    "service",
    "cluster",
    "policy",
)


class CheckSeverity(IntEnum):
    """How bad a finding is; the number is also the value of the metric."""

    OK = 0
    INFO = 1
    WARN = 2
    FAIL = 3

    @property
    def word(self) -> str:
        """As it is printed."""
        return self.name.lower()


@frozen
class Finding:
    """What one check found in one place.

    Attributes:
        message: What is so.
        hint: What to do next; empty if there is nothing to do.
    """

    severity: CheckSeverity
    message: str
    hint: str = ""


def ok(message: str) -> Finding:
    """All is well."""
    return Finding(CheckSeverity.OK, message)


def info(message: str, hint: str = "") -> Finding:
    """Worth knowing, or impossible to find out here."""
    return Finding(CheckSeverity.INFO, message, hint)


def warn(message: str, hint: str) -> Finding:
    """Works now, and should be changed."""
    return Finding(CheckSeverity.WARN, message, hint)


def fail(message: str, hint: str) -> Finding:
    """Has to be put right before anything else is done."""
    return Finding(CheckSeverity.FAIL, message, hint)


@frozen
class CheckResult:
    """What one check found.

    Attributes:
        id: ``category.name``.
        parts: The message, where it is of several places, by place; otherwise empty.
    """

    id: str
    severity: CheckSeverity
    message: str
    hint: str = ""
    parts: tuple[str, ...] = ()

    @property
    def category(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


def combined(id: str, findings: Mapping[str, Sequence[Finding]]) -> CheckResult:
    """The result of a check that looked at several places: the worst of what it found.

    What is well is left out where something else is not.

    Args:
        id: Of the check.
        findings: By role; one is named only of what not all of them have.
    """
    every = [(role, one) for role, found in findings.items() for one in found]
    severity = max((one.severity for _, one in every), default=CheckSeverity.OK)
    roles = dict[str, list[str]]()
    for role, one in every:
        if one.severity or not severity:
            roles.setdefault(one.message, []).append(role)
    texts = [
        message if len(set(who)) == len(findings) else f"{', '.join(dict.fromkeys(who))}: {message}"
        for message, who in roles.items()
    ]
    return CheckResult(
        id=id,
        severity=severity,
        message="; ".join(texts),
        hint="; ".join(_hints(every)),
        parts=tuple(texts) if len(texts) > 1 else (),
    )


def _hints(every: Sequence[tuple[str, Finding]]) -> list[str]:
    """What to do; where roles are told different things, each thing with its roles."""
    roles = dict[str, list[str]]()
    for role, one in every:
        if one.severity and one.hint:
            roles.setdefault(one.hint, []).append(role)
    if len({role for who in roles.values() for role in who}) < 2 or len(roles) < 2:
        return list(roles)
    return [f"{', '.join(dict.fromkeys(who))}: {hint}" for hint, who in roles.items()]


@frozen(kw_only=True)
class DoctorReport:
    """One run of the self-check.

    Attributes:
        started_at: Seconds since the epoch.
        strict: Whether a warning is a finding, too.
    """

    version: str
    role: str
    profile: str | None
    started_at: float
    checks: tuple[CheckResult, ...]
    strict: bool = False

    @property
    def summary(self) -> dict[str, int]:
        """How many checks there are of each severity, by its word."""
        found = Counter(one.severity for one in self.checks)
        return {severity.word: found[severity] for severity in CheckSeverity}

    @property
    def is_finding(self) -> bool:
        """Whether something is to be put right first."""
        limit = CheckSeverity.WARN if self.strict else CheckSeverity.FAIL
        return any(one.severity >= limit for one in self.checks)

    def form(self) -> dict[str, object]:
        """The report as JSON values."""
        return {
            "schema": SCHEMA,
            "version": self.version,
            "role": self.role,
            "profile": self.profile,
            "started_at": utc(self.started_at),
            "checks": [_check_form(one) for one in self.checks],
            "summary": self.summary,
            "result": "finding" if self.is_finding else "pass",
        }


def refused_form(version: str, role: str | None, at: float, message: str) -> dict[str, object]:
    """The document where no check could be made, with the members of a report.

    Args:
        role: The one that was asked for, if any: what a refused configuration is for is not known.
        message: Why.
    """
    return {
        "schema": SCHEMA,
        "version": version,
        "role": role,
        "profile": None,
        "started_at": utc(at),
        "checks": [],
        "summary": {severity.word: 0 for severity in CheckSeverity},
        "result": "error",
        "message": message,
    }


def _check_form(check: CheckResult) -> dict[str, object]:
    return {
        "id": check.id,
        "category": check.category,
        "severity": check.severity.word,
        "code": int(check.severity),
        "message": check.message,
        "hint": check.hint or None,
    }


def changes(
    before: Iterable[CheckResult], after: Iterable[CheckResult]
) -> tuple[tuple[CheckResult, ...], tuple[CheckResult, ...]]:
    """What is worse than well and was not so before, and what is well again.

    A finding that only has another text is none that appeared.
    """
    known = {one.id: one.severity for one in before}
    severities = [(known.get(one.id, CheckSeverity.OK), one) for one in after]
    appeared = tuple(
        one for was, one in severities if one.severity >= CheckSeverity.WARN and one.severity != was
    )
    gone = tuple(
        one
        for was, one in severities
        if was >= CheckSeverity.WARN and one.severity < CheckSeverity.WARN
    )
    return appeared, gone
