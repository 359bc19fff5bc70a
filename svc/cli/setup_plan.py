"""``svc setup``: sets a role up on this host, by a plan that is looked at first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, print_result
from svc.cli.services import this_machine
from svc.errors import UsageError

if TYPE_CHECKING:
    from svc.setup.host.planning import SetupInputs
    from svc.setup.host.steps import SetupPlan


@click.group(cls=Group)
def setup() -> None:
    """Set a role up on this host: its state directory, its configuration file and its unit."""


@setup.command()
@click.option(
    "--role",
    type=click.Choice(("authority", "proxy", "connector", "all", "client")),
    help="The role to set up; by default what the configuration is for.",
)
@click.option(
    "--account",
    type=WORD,
    metavar="NAME",
    help="The account that runs it.  [default: as installed, or svc-ROLE; of a client the owner of "
    "its configuration]",
)
@click.option(
    "--no-service", is_flag=True, help="Without a systemd unit, as in a container or a trial."
)
@click.option("--dry-run", is_flag=True, help="Print the plan and its digest; change nothing.")
@click.option(
    "--approve-plan",
    "approved",
    type=WORD,
    metavar="DIGEST",
    help="Apply only the plan that has this digest; root has to give one.",
)
@json_option
@click.pass_obj
def apply(
    globals_: Globals,
    role: str | None,
    account: str | None,
    no_service: bool,
    dry_run: bool,
    approved: str | None,
    as_json: bool,
) -> None:
    """Make the role's state directory, let its account read its configuration, install its unit.

    Look at the plan with --dry-run first, and give its digest with --approve-plan.  The plan is
    made again under a lock; if it differs, nothing is done.  Applied twice it changes nothing, and
    it starts and restarts nothing.

    Example:
        svc --config /etc/svc/proxy.toml setup apply --dry-run
        svc --config /etc/svc/proxy.toml setup apply --approve-plan sha256:HEX
    """
    from svc.setup.host.applying import apply as applied
    from svc.setup.host.planning import prepared
    from svc.setup.host.steps import is_plan_digest

    if dry_run and approved:
        raise UsageError("--dry-run and --approve-plan: give only one of them")
    if approved and not is_plan_digest(approved):
        raise UsageError("--approve-plan: must be sha256: and 64 hex digits, as --dry-run prints")
    inputs = _inputs(globals_, role, account, not no_service)
    if dry_run:
        plan = prepared(inputs).plan
        print_result(as_json, plan_result(plan, ()), [*_lines(plan, ()), plan.digest])
        return
    done = applied(inputs, approved or "")
    print_result(as_json, plan_result(done.plan, done.changed), _lines(done.plan, done.changed))
    if not as_json:
        what = "applied" if any(done.changed) else "nothing to change"
        hint([f"{done.plan.digest}: {what}; nothing was started"])


def plan_result(plan: SetupPlan, changed: Sequence[bool]) -> dict[str, Any]:
    """The plan for a program; once it was applied with what each step changed."""
    steps = [dict(step.form()) for step in plan.steps]
    for step, did in zip(steps, changed, strict=False):
        step["changed"] = did
    return {
        "role": plan.role,
        "config": plan.config,
        "plan_digest": plan.digest,
        "steps": steps,
        "changed": any(changed),
    }


def _lines(plan: SetupPlan, changed: Sequence[bool]) -> Iterator[str]:
    """A line for each step."""
    for number, step in enumerate(plan.steps):
        form = step.form()
        parts = [str(form["step"]), str(form["path"])]
        parts += [str(form[name]) for name in ("file_owner", "mode") if name in form]
        parts += [f"sha256 {form['sha256']}"] if "sha256" in form else []
        if changed:
            parts.append("changed" if changed[number] else "unchanged")
        yield "  ".join(parts)


def _inputs(
    globals_: Globals, role: str | None, account: str | None, has_unit: bool
) -> SetupInputs:
    from svc.config.configured import configured_role
    from svc.setup.host.planning import SetupInputs
    from svc.setup.units.planning import WantedUnit
    from svc.setup.units.program import places, this_program

    given = globals_.config or globals_.environ.get("SVC_CONFIG")
    if not given:
        raise click.UsageError("setup apply needs a configuration: svc --config FILE setup apply")
    config = os.path.abspath(given)
    chosen = role or configured_role(config, {})
    machine = this_machine(globals_)
    is_own = chosen == "client" and machine.uid != 0
    if account and machine.uid != 0:
        raise UsageError("--account: only root sets a role up for another account")
    wanted = WantedUnit(role=chosen, config=config, account=account or "", is_own=is_own)
    return SetupInputs(
        machine=machine,
        wanted=wanted,
        program=this_program(),
        found=places(globals_.environ),
        has_unit=has_unit and (machine.uid == 0 or is_own),
    )
