"""``svc service``: the systemd unit of a role, installed, shown and removed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, print_result, write
from svc.errors import UsageError

if TYPE_CHECKING:
    from svc.setup.units.install import InstalledUnit
    from svc.setup.units.machine import ServiceHost
    from svc.setup.units.planning import WantedUnit

_ROLES = ("authority", "proxy", "connector", "all", "client")
_AGENT_HOST = "agent-host"


class _InstalledRole(click.Choice[str]):
    """A role that has a unit."""

    def __init__(self) -> None:
        super().__init__(_ROLES)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Called by click."""
        if value == _AGENT_HOST:
            self.fail(f"the role {_AGENT_HOST} is not run as a service of the system", param, ctx)
        return super().convert(value, param, ctx)


_role = click.argument("role", metavar="ROLE", type=_InstalledRole())
_account = click.option(
    "--account",
    type=WORD,
    metavar="NAME",
    help="The account that runs it.  [default: as installed, or svc-ROLE; of a client the owner of "
    "its configuration]",
)
_user = click.option(
    "--user", "is_own", is_flag=True, help="Of a client: a unit of your own session, without root."
)


@click.group(cls=Group)
def service() -> None:
    """Run a role as a systemd service: authority, proxy, connector, all or client."""


@service.command()
@_role
@_account
@_user
@json_option
@click.pass_obj
def install(globals_: Globals, role: str, account: str | None, is_own: bool, as_json: bool) -> None:
    """Write the role's unit and enable it at boot; nothing is started or restarted.

    Example:
        svc --config /etc/svc/proxy.toml service install proxy
    """
    from svc.setup.units.install import install as installed
    from svc.setup.units.program import places, this_program

    wanted = _wanted(globals_, role, account, is_own)
    done = installed(this_machine(globals_), wanted, this_program(), places(globals_.environ))
    state = "written" if done.changed else "unchanged"
    lines = [f"{done.path}: {state}; {done.unit.name} is enabled, not started"]
    result = installed_result(done)
    print_result(as_json, result, lines)
    if not as_json:
        hint([f"to start it, or to restart it with this unit: {result['commands'][0]}"])


@service.command()
@_role
@_account
@_user
@click.pass_obj
def show(globals_: Globals, role: str, account: str | None, is_own: bool) -> None:
    """Print the unit that `install` would write."""
    from svc.setup.units.install import planned
    from svc.setup.units.program import places, this_program

    wanted = _wanted(globals_, role, account, is_own)
    unit = planned(this_machine(globals_), wanted, this_program(), places(globals_.environ))
    write(unit.text.splitlines())


@service.command()
@_role
@_account
@_user
@json_option
@click.pass_obj
def uninstall(
    globals_: Globals, role: str, account: str | None, is_own: bool, as_json: bool
) -> None:
    """Disable the role's unit and remove its file; what runs goes on, and no state is removed."""
    from svc.setup.units.install import uninstall as uninstalled

    wanted = _wanted(globals_, role, account, is_own, needs_config=role == "client" and not is_own)
    path = uninstalled(this_machine(globals_), wanted)
    lines = [f"svc {role}: no unit is installed" if path is None else f"{path}: removed"]
    print_result(as_json, uninstalled_result(role, path), lines)


def installed_result(done: InstalledUnit) -> dict[str, Any]:
    """What an installation tells a program."""
    unit = done.unit
    return {
        "role": unit.role,
        "name": unit.name,
        "path": str(done.path),
        "config": unit.config,
        "account": unit.account or None,
        "changed": done.changed,
        "commands": [f"systemctl{' --user' if unit.is_own else ''} restart {unit.name}"],
    }


def uninstalled_result(role: str, path: Path | None) -> dict[str, Any]:
    """What a removal tells a program; the path of the unit that was there."""
    return {"role": role, "path": None if path is None else str(path), "changed": path is not None}


def this_machine(globals_: Globals) -> ServiceHost:
    """The machine that this command runs on."""
    from svc.setup.units.machine import ServiceHost, run_systemctl

    return ServiceHost(
        root=Path("/"),
        platform=sys.platform,
        uid=os.geteuid(),
        environ=globals_.environ,
        systemctl=run_systemctl,
    )


def _wanted(
    globals_: Globals, role: str, account: str | None, is_own: bool, needs_config: bool = True
) -> WantedUnit:
    """What was asked for.

    Raises:
        UsageError: the options do not go together, or there is no configuration.
    """
    from svc.setup.units.planning import WantedUnit

    if is_own and role != "client":
        raise UsageError("--user: only a client runs in a person's own session")
    if is_own and account:
        raise UsageError("--user and --account: give only one of them")
    config = globals_.config
    if config is None and is_own and needs_config:
        from svc.compose.person import find_config

        config = find_config(None, globals_.environ)
    if config is None and needs_config and not (account and role == "client"):
        raise UsageError(f"the service of {role} requires its configuration: --config FILE")
    return WantedUnit(
        role=role, config=os.path.abspath(config or ""), account=account or "", is_own=is_own
    )
