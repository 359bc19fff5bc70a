"""Runs the checks of one or several roles and makes the report.

Blocks, for files, the store and the network; every wait has a deadline.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from svc import __version__
from svc.errors import SvcError
from svc.model.doctor import CheckResult, DoctorReport, Finding, combined, fail, info
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import AS_THE_ROLE, CheckContext, NotChecked

REPORT_BUG = (
    "something here holds what svc never writes, or this is a fault of svc: report it, with the "
    "version and the id of the check"
)


def examine(
    checks: Iterable[Check], contexts: Sequence[CheckContext], *, strict: bool = False
) -> DoctorReport:
    """Make every check that one of the roles has; at least one role is given."""
    results: list[CheckResult] = []
    for check in checks:
        found = {
            context.role: found_by(check, context)
            for context in contexts
            if context.role in check.roles
        }
        if found:
            results.append(combined(check.id, found))
    first = contexts[0]
    return DoctorReport(
        version=__version__,
        role=first.settings.role if len(contexts) > 1 else first.role,
        profile=first.settings.profile,
        started_at=first.at,
        checks=tuple(results),
        strict=strict,
    )


def found_by(check: Check, context: CheckContext) -> tuple[Finding, ...]:
    """What one check says of one role; a check that fails is itself a finding.

    Of an error that is not ours only its sort is shown: a driver's text may quote what is stored.
    """
    try:
        if check.needs_state:
            context.require_state()
        return tuple(check.find(context))
    except NotChecked as why:
        return (info(f"not checked: {why}"),)
    except SvcError as refused:
        return (fail(refused.text, ""),)
    except OSError as refused:
        what = "" if refused.filename is None else f"{os.fsdecode(refused.filename)}: "
        hint = AS_THE_ROLE if isinstance(refused, PermissionError) else ""
        return (fail(f"{what}{(refused.strerror or type(refused).__name__).lower()}", hint),)
    except Exception as bug:
        return (fail(f"the check itself failed ({type(bug).__name__})", REPORT_BUG),)
