"""Writes a unit, has the service manager read it and enables it; starts and stops nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from attrs import evolve, frozen

from svc.config.models import settings_model
from svc.errors import ConfigError
from svc.setup.units.client_net import InstalledClientNet, install_client_net
from svc.setup.units.files import remove_unit, write_unit
from svc.setup.units.machine import ServiceHost, ServiceRefused, account_named, acting_as
from svc.setup.units.planning import WantedUnit, plan_unit
from svc.setup.units.program import Program, UnfitPlaces, check_program
from svc.setup.units.unit import ServiceUnit


@frozen
class InstalledUnit:
    """What an installation did.

    Attributes:
        changed: Whether the file has other bytes now, or is new.
        client_net: What was done of ``svc-client-net`` with a client's unit of the system.
        without_client_net: Why it was not installed; empty where it was, or was not to be.
    """

    unit: ServiceUnit
    path: Path
    changed: bool
    client_net: InstalledClientNet | None = None
    without_client_net: str = ""


def planned(
    machine: ServiceHost, wanted: WantedUnit, program: Program, found: UnfitPlaces
) -> ServiceUnit:
    """The unit that an installation would write, read as whoever runs the command.

    Raises:
        SvcError: it could not run.
    """
    check_program(program, wanted.role, found)
    return plan_unit(wanted, wanted.account_in(machine.units(wanted.is_own)), program, found)


def install(
    machine: ServiceHost, wanted: WantedUnit, program: Program, found: UnfitPlaces
) -> InstalledUnit:
    """Write and enable the unit; a second call finds nothing to change.

    Raises:
        SvcError: nothing was changed.
    """
    machine.check(wanted.role, wanted.is_own)
    check_program(program, wanted.role, found)
    name = wanted.account_in(machine.units(wanted.is_own))
    if wanted.is_own:
        unit = plan_unit(wanted, name, program, found)
    else:
        account = account_named(name, wanted.role)
        settings_model()  # The account may not read all that this process runs on.
        parts = list(filter(os.path.exists, program.parts))
        with acting_as(account):
            _check_program(parts, name)
            _check_read(wanted.config, name)
            unit = plan_unit(wanted, name, program, found)
            _check_directories(unit)
    path, changed = write_unit(machine, unit.name, unit.text, wanted.is_own)
    done = InstalledUnit(unit, path, changed)
    if wanted.role == "client" and not wanted.is_own:
        done = _with_client_net(machine, done, program, found)
    return done


def prepare(
    machine: ServiceHost, wanted: WantedUnit, program: Program, found: UnfitPlaces
) -> ServiceUnit:
    """The unit to write, whose account may not read its files yet.

    Raises:
        SvcError: it could not be installed, or could not run.
    """
    machine.check(wanted.role, wanted.is_own)
    unit = planned(machine, wanted, program, found)
    if not wanted.is_own:
        with acting_as(account_named(unit.account, wanted.role)):
            _check_entered(Path(wanted.config), unit.account, "--config")
            _check_directories(unit)
    return unit


def _with_client_net(
    machine: ServiceHost, done: InstalledUnit, program: Program, found: UnfitPlaces
) -> InstalledUnit:
    """Install ``svc-client-net`` too, unless the program is no privileged service's.

    Raises:
        ServiceRefused: it could not be written or enabled.
    """
    try:
        return evolve(done, client_net=install_client_net(machine, program, found))
    except ServiceRefused as refused:
        if refused.reason == "program_place":
            return evolve(done, without_client_net=refused.text)
        said = refused.text.removesuffix("; nothing was changed")
        raise refused.with_(text=f"{done.path}: installed; {said}") from None


def uninstall(machine: ServiceHost, wanted: WantedUnit) -> Path | None:
    """Disable the unit and remove its file; what runs goes on.

    Returns:
        The file that was removed; None without one.

    Raises:
        ServiceRefused: the file is still there, or the service manager does not know that it is
            gone.
    """
    machine.check(wanted.role, wanted.is_own)
    units = machine.units(wanted.is_own)
    return remove_unit(machine, wanted.name(wanted.account_in(units)), wanted.is_own)


def _check_program(parts: Iterable[str], account: str) -> None:
    """Refuse a program that the account cannot run, of whose parts these exist.

    Raises:
        ServiceRefused: naming the file.
    """
    for part in parts:
        if not os.access(part, os.R_OK, effective_ids=True):
            raise ServiceRefused(
                f"{part}: {account} cannot read it, so it could not run svc; let everybody read "
                "the program: chmod -R a+rX where svc and its Python are installed",
                reason="program_place",
            )


def _check_read(config: str, account: str) -> None:
    """Refuse a configuration that the account cannot read.

    Raises:
        ConfigError: naming the file, or the directory above it.
    """
    _check_entered(Path(config), account, "--config")
    if os.path.exists(config) and not os.access(config, os.R_OK, effective_ids=True):
        file = quote(config)
        raise ConfigError(
            config, f"{account} cannot read it; run: chgrp {account} {file}; chmod 640 {file}"
        )


def _check_directories(unit: ServiceUnit) -> None:
    """Refuse directories that the account cannot use.

    Raises:
        ConfigError: naming one.
    """
    if unit.state_directory:
        _check_entered(Path("/var/lib") / unit.state_directory, unit.account, "state_dir")
    for directory in unit.writable:
        _check_entered(Path(directory), unit.account, directory)
        if not os.path.isdir(directory):
            make = f"install -d -o {unit.account} -m 700 {quote(directory)}"
            raise ConfigError(directory, f"the directory does not exist; run: {make}")
        if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
            raise ConfigError(
                directory,
                f"{unit.account} cannot write to it; make it that account's, or name another with "
                "--account",
            )


def _check_entered(path: Path, account: str, where: str) -> None:
    for above in reversed(path.parents):
        if above.exists() and not os.access(above, os.X_OK, effective_ids=True):
            raise ConfigError(
                where, f"{account} cannot enter {above}; run: chmod a+x {quote(str(above))}"
            )
