"""Makes the setup plan of a role from its configuration; reads, and changes nothing."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from svc.config.reading import read_settings
from svc.config.rules import SHARED
from svc.config.source import read_file
from svc.errors import UsageError
from svc.setup.host.steps import DirectoryStep, FileStep, SetupPlan, Step, UnitStep
from svc.setup.units.install import UNIT_MODE, prepare
from svc.setup.units.machine import ServiceHost, account_named
from svc.setup.units.planning import WantedUnit, state_directory
from svc.setup.units.program import Program, UnfitPlaces
from svc.setup.units.unit import ServiceUnit

_PRIVATE = "0700"


@frozen(kw_only=True)
class SetupInputs:
    """What a plan is made of.

    Attributes:
        has_unit: Whether a service manager is to run the role.
    """

    machine: ServiceHost
    wanted: WantedUnit
    program: Program
    found: UnfitPlaces
    has_unit: bool


@frozen
class PreparedSetup:
    """A plan, and what its steps are carried out with.

    Attributes:
        unit: None where the plan has none.
    """

    plan: SetupPlan
    unit: ServiceUnit | None


def prepared(inputs: SetupInputs) -> PreparedSetup:
    """The plan of what this user would do.  Blocks.

    Raises:
        SvcError: the configuration is refused, or the role could not run here.
    """
    machine, wanted = inputs.machine, inputs.wanted
    unit = None
    if inputs.has_unit:
        unit = prepare(machine, wanted, inputs.program, inputs.found)
    steps = tuple(_steps(inputs, unit))
    if not steps:
        raise UsageError("--no-service: of a client there is nothing else to set up")
    return PreparedSetup(SetupPlan(role=wanted.role, config=wanted.config, steps=steps), unit)


def _steps(inputs: SetupInputs, unit: ServiceUnit | None) -> Iterator[Step]:
    machine, wanted = inputs.machine, inputs.wanted
    if wanted.role != "client":
        text = read_file(wanted.config)
        state = read_settings(text, wanted.role, {}, wanted.config).state_dir
        yield from _directories(inputs, state)
        owner, mode = _who(inputs), "0600"
        if machine.uid == 0:
            # The role reads it and cannot change it: it does not choose what it is confined by.
            owner, mode = f"root:{owner.partition(':')[2]}", "0640"
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        yield FileStep(path=wanted.config, sha256=digest, file_owner=owner, mode=mode)
    if unit is not None:
        yield UnitStep(
            path=str(machine.units(wanted.is_own) / unit.name),
            name=unit.name,
            sha256=hashlib.sha256(unit.text.encode()).hexdigest(),
            mode=f"{UNIT_MODE:04o}",
        )


def _directories(inputs: SetupInputs, state: str) -> Iterator[DirectoryStep]:
    """The state directory; of root also those above it, from the one of all roles on."""
    who = _who(inputs)
    if inputs.machine.uid != 0:
        yield DirectoryStep(path=os.path.normpath(state), file_owner=who, mode=_PRIVATE)
        return
    below = Path(state_directory(inputs.wanted.role, state)).parts[1:]
    shared = inputs.machine.root / SHARED.lstrip("/")
    yield DirectoryStep(path=str(shared), file_owner="root:root", mode="0755")
    for count in range(1, len(below) + 1):
        path = str(shared.joinpath(*below[:count]))
        yield DirectoryStep(path=path, file_owner=who, mode=_PRIVATE)


def _who(inputs: SetupInputs) -> str:
    """Who runs the role, as ``user:group``; of somebody who is not root without a group."""
    machine, wanted = inputs.machine, inputs.wanted
    if machine.uid != 0:
        return pwd.getpwuid(machine.uid).pw_name
    account = account_named(wanted.account_in(machine.units(False)), wanted.role)
    return f"{account.pw_name}:{grp.getgrgid(account.pw_gid).gr_name}"
