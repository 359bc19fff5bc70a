"""What a node reports of its own health.

It is the node's own word: it is shown to operators and decides nothing.
"""

from __future__ import annotations

import re

from attrs import frozen

from svc.model.clocks import since
from svc.model.doctor import CheckSeverity, DoctorReport

EVERY_SECS = 60.0
"""Between two reports of a node."""

STALE_SECS = 180.0
"""A report that is older says nothing about now."""

_AHEAD_SECS = 15
_BEHIND_SECS = 15 + EVERY_SECS
"""A report may have waited at a Proxy until the next one came, which looks like a clock behind."""

MAX_FOUND = 64
"""Checks that one report names; the worst come first."""

_CHECK_ID = re.compile(r"[a-z_]{1,16}\.[a-z0-9_-]{1,46}\Z")


def is_check_id(text: str) -> bool:
    """Whether *text* can be the id of a check, and is safe to show."""
    return _CHECK_ID.match(text) is not None


def clock_problem(clock_secs: int) -> str:
    """That a node's clock is wrong, by how far ahead of Authority's it was; empty: it is not.

    A request for a session is refused at a difference of 30 seconds.
    """
    if not -_BEHIND_SECS < clock_secs < _AHEAD_SECS:
        way = "behind" if clock_secs < 0 else "ahead of"
        return f"its clock is {since(abs(clock_secs))} {way} the Authority's: correct it"
    return ""


@frozen
class CheckFound:
    """A check that found something, without its text: that is in the node's own log."""

    id: str
    severity: CheckSeverity


@frozen(kw_only=True)
class HealthReport:
    """What a node signs about itself.

    Attributes:
        made_at_ms: By the node's clock; orders the reports of one node.
        worst: Of all checks; None: the node makes none (``doctor.check_interval_secs`` is 0).
        failed: How many checks failed.
        warnings: How many warn.
        found: Those that warn or failed, or the worst of them.
    """

    cluster: str
    node_id: str
    made_at_ms: int
    version: str
    worst: CheckSeverity | None = None
    failed: int = 0
    warnings: int = 0
    found: tuple[CheckFound, ...] = ()


@frozen(kw_only=True)
class NodeHealth:
    """The last report of a node, as the store has it.

    Attributes:
        at: When it came, by Authority's clock: Unix seconds.
        clock_secs: How far the node's clock was ahead of Authority's, as far as that can be told:
            the report may have been on its way for a while.
    """

    node_id: str
    at: float
    version: str
    worst: CheckSeverity | None
    failed: int
    warnings: int
    found: tuple[CheckFound, ...] = ()
    clock_secs: int = 0

    def is_stale(self, now: float) -> bool:
        """Whether the node should have reported again long since."""
        return now - self.at > STALE_SECS


def health_report(
    *, cluster: str, node_id: str, at: float, version: str, checks: DoctorReport | None
) -> HealthReport:
    """The report of a node.

    Args:
        at: Unix seconds, by the node's clock.
        checks: Its last self-check; None where it makes none.
    """
    if checks is None:
        return HealthReport(
            cluster=cluster, node_id=node_id, made_at_ms=int(at * 1000), version=version
        )
    found = sorted(
        (
            CheckFound(one.id, one.severity)
            for one in checks.checks
            if one.severity >= CheckSeverity.WARN
        ),
        key=lambda one: (-one.severity, one.id),
    )
    summary = checks.summary
    return HealthReport(
        cluster=cluster,
        node_id=node_id,
        made_at_ms=int(at * 1000),
        version=version,
        worst=max((one.severity for one in checks.checks), default=CheckSeverity.OK),
        failed=summary[CheckSeverity.FAIL.word],
        warnings=summary[CheckSeverity.WARN.word],
        found=tuple(found[:MAX_FOUND]),
    )
