"""``svc doctor``: checks a role from outside, whether or not it runs, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from svc.cli import Globals
from svc.cli.directory import own_directory_option
from svc.cli.next_commands import completed, completed_refusal
from svc.cli.output import json_option, print_result
from svc.errors import SvcError
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.model.doctor import DoctorReport
    from svc.ops.doctor.context import CheckContext

FINDING_EXIT = 2
"""Of no other refusal: a script tells a finding from a command that failed (G-OPEN-24)."""

_INDENT = " " * 6


@click.command()
@click.option(
    "--role",
    type=click.Choice(("authority", "proxy", "connector", "all", "client")),
    help="The role to check; by default what the configuration is for.",
)
@click.option("--strict", is_flag=True, help="Count a warning as a finding, too.")
@own_directory_option
@json_option
@click.pass_obj
def doctor(globals_: Globals, role: str | None, strict: bool, as_json: bool) -> int:
    """Check a role's configuration, store, log, identity and surroundings; change nothing.

    Works beside a running role and with every role stopped.  Without --config it checks the
    person's own side.  No check connects to a target.  Status 0: no finding; 2: something is to be
    put right first, and the output names it; 1: the configuration is refused; 64: the command was
    typed wrongly.

    Example:
        svc --config /etc/svc/proxy.toml doctor
    """
    from svc import __version__
    from svc.compose.added_checks import every_check
    from svc.model.doctor import refused_form
    from svc.ops.doctor.run import examine

    try:
        contexts = _contexts(globals_, role)
        checks = every_check(contexts[0].settings)
    except SvcError as refused:
        if as_json:
            told = completed_refusal(refused).text
            print_result(True, refused_form(__version__, role, time.time(), told), ())
        raise
    report = _completed(examine(checks, contexts, strict=strict))
    print_result(as_json, report.form(), report_lines(report))
    return FINDING_EXIT if report.is_finding else 0


def _completed(report: DoctorReport) -> DoctorReport:
    """The report whose commands read the configuration that was checked."""
    return evolve(
        report,
        checks=tuple(
            evolve(
                one,
                message=completed(one.message),
                hint=completed(one.hint),
                parts=tuple(map(completed, one.parts)),
            )
            for one in report.checks
        ),
    )


def _contexts(globals_: Globals, role: str | None) -> tuple[CheckContext, ...]:
    """What the checks are given: the role that is asked for, or that the file is for.

    Raises:
        SvcError: there is no configuration, or it is refused.
    """
    from svc.compose.doctor import role_contexts, this_program
    from svc.compose.person import client_settings, find_config, state_directory
    from svc.config import load_settings
    from svc.config.configured import configured_role

    given = globals_.config or globals_.environ.get("SVC_CONFIG")
    if role not in (None, "client") and not given:
        raise click.UsageError(
            "doctor needs a configuration for this role: svc --config FILE doctor"
        )
    path, now = find_config(given, globals_.environ), time.time()
    for_role = configured_role(path, globals_.environ)
    chosen = role or for_role
    if chosen == "client":
        settings = client_settings(given, globals_.environ)
        return role_contexts(settings, now, this_program(), state_directory(settings))
    settings = load_settings(path, chosen, globals_.environ)
    within = for_role == "all" and chosen != "all"
    state = Path(settings.state_dir) / chosen if within else None
    return role_contexts(settings, now, this_program(), state)


def report_lines(report: DoctorReport) -> Iterator[str]:
    """The report for people; a file or a peer may have chosen some of its words."""
    for one in report.checks:
        if one.parts:
            yield f"{one.severity.word:<4}  {one.id}:"
            yield from (f"{_INDENT}{escaped(part)}" for part in one.parts)
        else:
            yield f"{one.severity.word:<4}  {one.id}: {escaped(one.message)}"
        if one.severity and one.hint:
            yield f"{_INDENT}{escaped(one.hint)}"
    counts = ", ".join(f"{count} {word}" for word, count in report.summary.items())
    yield f"{'finding' if report.is_finding else 'pass'}: {counts}"
