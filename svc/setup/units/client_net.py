"""The unit of ``svc-client-net``, which binds ports below 1024 for the residents of a machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from svc.model.session.local_ports import CLIENT_NET
from svc.setup.units.files import remove_unit, write_unit
from svc.setup.units.machine import ServiceHost, ServiceRefused, acting_as
from svc.setup.units.program import Program, UnfitPlaces, check_program, check_words
from svc.setup.units.unit import (
    RESTART_SECS,
    SYSTEM_HARDENING,
    WRITTEN_BY,
    command_line,
    hardening,
)

ROLE = "client-net"
"""What it is called where a role is named; it is none."""

UNIT = f"{CLIENT_NET}.service"
_STRANGER = "nobody"
_CAPABILITY = "CAP_NET_BIND_SERVICE"
_OPEN_FILES = 4096


@frozen
class ClientNetUnit:
    """What the unit says.

    Attributes:
        program: The first words of its command line.
        unpacks: Whether the program needs a directory to unpack itself into.
    """

    program: tuple[str, ...]
    unpacks: bool = False

    @property
    def name(self) -> str:
        """The unit's."""
        return UNIT

    @property
    def text(self) -> str:
        """The whole file."""
        return "\n".join((WRITTEN_BY, *self._lines(), ""))

    def _lines(self) -> Iterator[str]:
        yield "[Unit]"
        yield "Description=svc client: ports below 1024 for local endpoints"
        yield "StartLimitIntervalSec=0"
        yield ""
        yield "[Service]"
        yield "Type=exec"
        yield f"ExecStart={command_line([*self.program, ROLE])}"
        # An account that owns nothing, not even its state between two starts.
        yield "DynamicUser=yes"
        yield f"RuntimeDirectory={CLIENT_NET}"
        yield "RuntimeDirectoryMode=0755"
        yield f"StateDirectory={CLIENT_NET}"
        yield "StateDirectoryMode=0700"
        if self.unpacks:
            yield f"CacheDirectory={CLIENT_NET}"
            yield "CacheDirectoryMode=0700"
        yield "UMask=0077"
        yield "Restart=on-failure"
        yield f"RestartSec={RESTART_SECS}"
        yield "TimeoutStopSec=30"
        yield f"LimitNOFILE={_OPEN_FILES}"
        yield "TasksMax=64"
        yield f"CapabilityBoundingSet={_CAPABILITY}"
        yield f"AmbientCapabilities={_CAPABILITY}"
        # The sockets that it binds are made by residents: it has no network of its own.
        yield "PrivateNetwork=yes"
        yield hardening("AF_UNIX")
        yield SYSTEM_HARDENING
        yield "ProtectHome=yes"
        yield ""
        yield "[Install]"
        yield "WantedBy=multi-user.target"


@frozen
class InstalledClientNet:
    """What an installation did.

    Attributes:
        changed: Whether the file has other bytes now, or is new.
    """

    path: Path
    changed: bool


def plan_client_net(program: Program, found: UnfitPlaces) -> ClientNetUnit:
    """The unit that would be written.

    Raises:
        SvcError: the program does not lie where a privileged service can rely on it.
    """
    check_words(program.words)
    check_program(program, ROLE, found)
    return ClientNetUnit(program.words, program.unpacks)


def install_client_net(
    machine: ServiceHost, program: Program, found: UnfitPlaces
) -> InstalledClientNet:
    """Write and enable the unit; a second call finds nothing to change.

    Raises:
        SvcError: nothing was changed.
    """
    machine.check(ROLE, is_own=False)
    unit = plan_client_net(program, found)
    _check_readable(program.parts)
    return InstalledClientNet(*write_unit(machine, UNIT, unit.text, is_own=False))


def uninstall_client_net(machine: ServiceHost) -> Path | None:
    """Disable the unit and remove its file; what runs goes on.

    Returns:
        The file that was removed; None without one.

    Raises:
        ServiceRefused: the file is still there, or the service manager does not know that it is
            gone.
    """
    machine.check(ROLE, is_own=False)
    return remove_unit(machine, UNIT, is_own=False)


def _check_readable(parts: Iterable[str]) -> None:
    """Refuse a program that an account without any rights cannot run.

    Raises:
        ServiceRefused: naming the file.
    """
    try:
        stranger = pwd.getpwnam(_STRANGER)
    except KeyError:
        return  # Its start says it, then.
    there = list(filter(os.path.exists, parts))
    with acting_as(stranger):
        for part in there:
            if not os.access(part, os.R_OK, effective_ids=True):
                raise ServiceRefused(
                    f"{part}: not everybody can read it, so {CLIENT_NET}, which has an account of "
                    "its own at each start, could not run svc; run: chmod -R a+rX where svc and "
                    "its Python are installed",
                    reason="program_place",
                )
