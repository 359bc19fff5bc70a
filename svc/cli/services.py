"""``svc service``: the systemd unit of a role, installed, shown and removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, print_result, write
from svc.errors import UsageError

if TYPE_CHECKING:
    from svc.setup.units.client_net import InstalledClientNet
    from svc.setup.units.install import InstalledUnit
    from svc.setup.units.machine import ServiceHost
    from svc.setup.units.planning import WantedUnit

_CLIENT_NET = "client-net"
_ROLES = ("authority", "proxy", "connector", "all", "client", _CLIENT_NET)
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
    """Run a role as a systemd service: authority, proxy, connector, all or client.

    Or client-net, which lets clients have local endpoints below port 1024.
    """


@service.command()
@_role
@_account
@_user
@json_option
@click.pass_obj
def install(globals_: Globals, role: str, account: str | None, is_own: bool, as_json: bool) -> None:
    """Write the role's unit and enable it at boot; nothing is started or restarted.

    With a client's unit of the system comes the one of client-net.

    Example:
        svc --config /etc/svc/proxy.toml service install proxy
    """
    from svc.setup.units.client_net import UNIT, install_client_net
    from svc.setup.units.install import install as installed
    from svc.setup.units.program import places, this_program

    machine, program, found = this_machine(globals_), this_program(), places(globals_.environ)
    problems: list[str] = []
    if role == _CLIENT_NET:
        _check_alone(account, is_own)
        result = client_net_result(install_client_net(machine, program, found))
    else:
        done = installed(machine, _wanted(globals_, role, account, is_own), program, found)
        result = installed_result(done)
        if done.without_client_net:
            problems.append(f"{UNIT} is not installed: {done.without_client_net}")
        if is_own and not (machine.units(is_own=False) / UNIT).exists():
            problems.append(
                f"without {UNIT} there is no local endpoint below port 1024; root installs it: "
                f"svc service install {_CLIENT_NET}"
            )
    print_result(as_json, result, installed_lines(result))
    if not as_json:
        commands = "; ".join(result["commands"])
        hint([*problems, f"to start it, or to restart it with this unit: {commands}"])


@service.command()
@_role
@_account
@_user
@click.pass_obj
def show(globals_: Globals, role: str, account: str | None, is_own: bool) -> None:
    """Print the unit that `install` would write."""
    from svc.setup.units.client_net import plan_client_net
    from svc.setup.units.install import planned
    from svc.setup.units.program import places, this_program

    program, found = this_program(), places(globals_.environ)
    if role == _CLIENT_NET:
        _check_alone(account, is_own)
        text = plan_client_net(program, found).text
    else:
        wanted = _wanted(globals_, role, account, is_own)
        text = planned(this_machine(globals_), wanted, program, found).text
    write(text.splitlines())


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
    from svc.setup.units.client_net import UNIT, uninstall_client_net
    from svc.setup.units.install import uninstall as uninstalled

    machine, is_client = this_machine(globals_), role == "client" and not is_own
    if role == _CLIENT_NET:
        _check_alone(account, is_own)
        path = uninstall_client_net(machine)
    else:
        path = uninstalled(machine, _wanted(globals_, role, account, is_own, is_client))
    lines = [f"svc {role}: no unit is installed" if path is None else f"{path}: removed"]
    print_result(as_json, uninstalled_result(role, path), lines)
    if is_client and not as_json and (machine.units(is_own=False) / UNIT).exists():
        hint([f"{UNIT} stays, for other clients; to remove it: svc service uninstall client-net"])


def installed_lines(result: Mapping[str, Any]) -> list[str]:
    """What an installation tells a person."""
    told = [result] if result["client_net"] is None else [result, result["client_net"]]
    return [
        f"{one['path']}: {'written' if one['changed'] else 'unchanged'}; "
        f"{os.path.basename(one['path'])} is enabled, not started"
        for one in told
    ]


def client_net_result(done: InstalledClientNet) -> dict[str, Any]:
    """What the installation of ``svc-client-net`` alone tells a program."""
    return {
        "role": _CLIENT_NET,
        "name": done.path.name,
        "path": str(done.path),
        "config": None,
        "account": None,
        "changed": done.changed,
        "client_net": None,
        "commands": [f"systemctl restart {done.path.name}"],
    }


def installed_result(done: InstalledUnit) -> dict[str, Any]:
    """What an installation tells a program."""
    unit, client_net = done.unit, done.client_net
    commands = [f"systemctl{' --user' if unit.is_own else ''} restart {unit.name}"]
    told = None
    if client_net is not None:
        # It holds no connection: residents have the sockets that it bound.
        commands.insert(0, f"systemctl restart {client_net.path.name}")
        told = {"path": str(client_net.path), "changed": client_net.changed}
    return {
        "role": unit.role,
        "name": unit.name,
        "path": str(done.path),
        "config": unit.config,
        "account": unit.account or None,
        "changed": done.changed,
        "client_net": told,
        "commands": commands,
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


def _check_alone(account: str | None, is_own: bool) -> None:
    """Refuse options that ``client-net`` does not take.

    Raises:
        UsageError: one was given.
    """
    if account or is_own:
        raise UsageError(f"{_CLIENT_NET}: is one for all users; give neither --account nor --user")


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
