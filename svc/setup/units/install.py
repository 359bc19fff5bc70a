"""Writes a unit, has the service manager read it and enables it; starts and stops nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from attrs import frozen

from svc.config.models import settings_model
from svc.errors import ConfigError
from svc.runtime.durable import replace
from svc.setup.units.machine import ServiceHost, ServiceRefused, account_named, acting_as
from svc.setup.units.planning import WantedUnit, plan_unit
from svc.setup.units.program import Program, UnfitPlaces, check_program
from svc.setup.units.unit import ServiceUnit

UNIT_MODE = 0o644


@frozen
class InstalledUnit:
    """What an installation did.

    Attributes:
        changed: Whether the file has other bytes now, or is new.
    """

    unit: ServiceUnit
    path: Path
    changed: bool


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
    return install_unit(machine, wanted, unit)


def prepare(
    machine: ServiceHost, wanted: WantedUnit, program: Program, found: UnfitPlaces
) -> ServiceUnit:
    """The unit that :func:`install_unit` would write, whose account may not read its files yet.

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


def install_unit(machine: ServiceHost, wanted: WantedUnit, unit: ServiceUnit) -> InstalledUnit:
    """Write and enable a unit that can run; a second call finds nothing to change.

    Raises:
        ServiceRefused: nothing was changed.
    """
    units = machine.units(wanted.is_own)
    path = units / unit.name
    scope = _scope(wanted)
    with _writing(path):
        units.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else None
        after = unit.text.encode()
        _write(path, after)
    try:
        machine.systemctl([*scope, "daemon-reload"])
        machine.systemctl([*scope, "enable", unit.name])
    except ServiceRefused as refused:
        with suppress(ServiceRefused):
            if before is None:
                machine.systemctl([*scope, "disable", unit.name])
        _undo(machine, path, before, scope)
        raise refused.with_(text=f"{refused.text}; nothing was changed") from None
    return InstalledUnit(unit, path, before != after)


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
    path = units / wanted.name(wanted.account_in(units))
    if not os.path.lexists(path):
        return None
    scope = _scope(wanted)
    machine.systemctl([*scope, "disable", path.name])
    try:
        path.unlink()
    except OSError as error:
        raise ServiceRefused(
            f"{path}: cannot be removed: {error.strerror}; the unit is disabled, and its file is "
            "still there: run this again",
            reason="unit_file",
        ) from None
    try:
        machine.systemctl([*scope, "daemon-reload"])
    except ServiceRefused as refused:
        again = " ".join(["systemctl", *scope, "daemon-reload"])
        text = f"{path}: removed, but {refused.text.partition(';')[0]}; run: {again}"
        raise refused.with_(text=text) from None
    return path


def _scope(wanted: WantedUnit) -> list[str]:
    return ["--user"] if wanted.is_own else []


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


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServiceRefused(
            f"{error.filename or path}: cannot be written: {error.strerror}; nothing was changed",
            reason="unit_file",
        ) from None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all; everybody may read a unit."""
    if path.is_symlink():
        raise ServiceRefused(
            f"{path}: is a symbolic link; `systemctl unmask {path.name}` or remove it, and run "
            "this again",
            reason="unit_file",
        )
    replace(path, data)
    path.chmod(UNIT_MODE)


def _undo(machine: ServiceHost, path: Path, before: bytes | None, scope: list[str]) -> None:
    """Leave the file as it was found."""
    with suppress(OSError):
        if before is None:
            path.unlink()
        else:
            _write(path, before)
    with suppress(ServiceRefused):
        machine.systemctl([*scope, "daemon-reload"])
