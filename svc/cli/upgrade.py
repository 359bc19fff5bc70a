"""``svc upgrade``: what an upgrade to this program asks for; reads nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import click

from svc import __version__
from svc.cli.groups import Group
from svc.cli.output import json_option, print_result
from svc.model.release import VersionRefused, parse_version
from svc.model.upgrade import AFTER, BEFORE, ORDER, UpgradePlan, plan_from


@click.group(cls=Group)
def upgrade() -> None:
    """Upgrade a gateway from an earlier version to this one."""


@upgrade.command("plan")
@click.option(
    "--from",
    "start",
    required=True,
    metavar="VERSION",
    help="The version that runs now, such as 0.10.0-rc.9.",
)
@json_option
def plan(start: str, as_json: bool) -> None:
    """Show what to do, in this order, for an upgrade from VERSION to this program.

    First what each release since then asks for, oldest first; then the order of the roles, and
    what to check of each before the next is started.  Needs no configuration.

    Example:
        svc upgrade plan --from 0.10.0-rc.9
    """
    try:
        version = parse_version(start.removeprefix("v"))
    except VersionRefused as refused:
        raise click.UsageError(f"--from {refused.text}") from None
    found = plan_from(version, parse_version(__version__))
    print_result(as_json, _form(found), _lines(found))


def _form(found: UpgradePlan) -> dict[str, object]:
    return {
        "from_version": str(found.start),
        "to_version": __version__,
        "release_notes": [{"name": note.name, "todo": list(note.actions)} for note in found.notes],
        "fleet_rules": [{"situation": rule.situation, "rule": rule.rule} for rule in found.rules],
        "todo_before": list(BEFORE),
        "roles": [
            {"role": one.role, "todo": list(one.actions), "todo_checks": list(one.checks)}
            for one in ORDER
        ],
        "todo_after": list(AFTER),
    }


def _lines(found: UpgradePlan) -> Iterator[str]:
    yield f"upgrade from {found.start} to {__version__}"
    yield ""
    yield "What the releases since then ask for, oldest first"
    for note in found.notes:
        yield f"  {note.name}"
        yield from (f"    - {each}" for each in note.actions)
    if not found.notes:
        yield "  nothing"
    yield ""
    yield "Order in a mixed fleet"
    yield from (f"  - {rule.situation}: {rule.rule}" for rule in found.rules)
    yield ""
    yield "Before the start"
    yield from (f"  {number}. {each}" for number, each in enumerate(BEFORE, 1))
    yield ""
    yield "Start in this order; check each before the next"
    for number, one in enumerate(ORDER, 1):
        yield f"  {number}. {one.role}: {'; '.join(one.actions)}"
        yield from (f"     check: {each}" for each in one.checks)
    yield ""
    yield "Afterwards"
    yield from (f"  {number}. {each}" for number, each in enumerate(AFTER, 1))
