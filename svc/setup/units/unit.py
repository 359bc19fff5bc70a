"""The text of a systemd unit for a role; pure.

The same values give the same bytes: a repeated installation changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from svc.config import SharedStateDir
from svc.config.keys import REFUSED_STATUS
from svc.errors import AuditBroken, MigrationsPending, UnknownApplied, UsageError

WRITTEN_BY = "# Written by `svc service install`; to change it, use drop-ins (`systemctl edit`)."
RESTART_SECS = 5
CONFIG_REFUSED = 78
"""EX_CONFIG of sysexits.h: the role says so of a text that no restart can mend (ADR 72)."""

_FINDING = 2
"""Of `svc doctor`, where a program of the operator's runs that before it becomes the role."""

_REFUSALS = (MigrationsPending, UnknownApplied, AuditBroken, UsageError, SharedStateDir)
_FINAL = sorted({_FINDING, CONFIG_REFUSED, *(refusal.exit_code for refusal in _REFUSALS)})
"""What a restart cannot mend: somebody has to look first."""

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_WORDS = {"authority": "Authority", "proxy": "Proxy", "connector": "Connector"}

_SYSTEM_HARDENING = """\
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RemoveIPC=yes"""

_HARDENING = """\
NoNewPrivileges=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM"""
"""Also where a person's own service manager runs it, which cannot mount anything."""


@frozen
class ServiceUnit:
    """What a unit says.

    Attributes:
        name: The unit's, such as ``svc-authority.service``.
        account: Who runs it; empty in a unit of the person's own service manager.
        program: The first words of the command line.
        state_directory: Below ``/var/lib``; empty where the unit provides none.
        cache_directory: Below ``/var/cache``; empty where the unit provides none.
        writable: Directories that the process may write to, beside that one.
        witnesses: Those of witnesses, to which it may write if they are there at its start.
        open_files: How many descriptors the process may need.
        stop_secs: How long an orderly stop may take.
        binds_low: Whether it listens at a port that only a privileged process may bind.
    """

    role: str
    name: str
    account: str
    program: tuple[str, ...]
    config: str
    state_directory: str
    writable: tuple[str, ...]
    open_files: int
    stop_secs: int
    binds_low: bool
    witnesses: tuple[str, ...] = ()
    cache_directory: str = ""

    @property
    def text(self) -> str:
        """The whole file."""
        return "\n".join((WRITTEN_BY, *self._unit(), *self._service(), *self._install(), ""))

    @property
    def is_own(self) -> bool:
        """Whether it is for the person's own service manager."""
        return not self.account

    def _unit(self) -> Iterator[str]:
        yield "[Unit]"
        yield f"Description={self._description()}"
        if not self.is_own:
            yield "Wants=network-online.target"
            yield "After=network-online.target"
        # What ends a start may pass, such as an address still in use: never give up.
        yield "StartLimitIntervalSec=0"
        yield ""

    def _description(self) -> str:
        if self.role == "client":
            of = f" of {self.account}" if self.account else ""
            return f"svc client{of}"
        return f"svc {_WORDS.get(self.role, 'gateway, all roles')}"

    def _service(self) -> Iterator[str]:
        yield "[Service]"
        yield "Type=exec"
        words = [*self.program, "--config", self.config, command_of(self.role)]
        yield f"ExecStart={command_line(words)}"
        if self.role != "client":
            again = [*self.program, "--config", self.config, "reload", "--role", self.role]
            yield f"ExecReload={command_line(again)}"
        if self.account:
            yield f"User={self.account}"
        if self.state_directory:
            yield f"StateDirectory={quoted(self.state_directory)}"
            yield "StateDirectoryMode=0700"
        if self.cache_directory:
            yield f"CacheDirectory={quoted(self.cache_directory)}"
            yield "CacheDirectoryMode=0700"
        yield "UMask=0077"
        yield "Restart=on-failure"
        yield f"RestartSec={RESTART_SECS}"
        yield f"Environment={REFUSED_STATUS}={CONFIG_REFUSED}"
        yield f"RestartPreventExitStatus={' '.join(map(str, _FINAL))}"
        # Processes that a role starts end with it; until then, an orderly stop may need them.
        yield "KillMode=mixed"
        yield "KillSignal=SIGTERM"
        yield f"TimeoutStopSec={self.stop_secs}"
        yield f"LimitNOFILE={self.open_files}"
        yield _HARDENING
        if not self.is_own:
            yield from self._sandbox()
        yield ""

    def _sandbox(self) -> Iterator[str]:
        low = "CAP_NET_BIND_SERVICE" if self.binds_low else ""
        yield f"CapabilityBoundingSet={low}"
        if low:
            yield f"AmbientCapabilities={low}"
        yield _SYSTEM_HARDENING
        if self.role != "client":
            yield "ProtectHome=yes"
        # With "-" one that is missing is left out; else the start fails.
        places = [*self.writable, *(f"-{directory}" for directory in self.witnesses)]
        if places:
            yield f"ReadWritePaths={' '.join(map(quoted, places))}"

    def _install(self) -> Iterator[str]:
        yield "[Install]"
        yield f"WantedBy={'default.target' if self.is_own else 'multi-user.target'}"


def command_of(role: str) -> str:
    """The command that runs a role."""
    return "up" if role == "client" else role


def command_line(words: list[str]) -> str:
    """The words as systemd reads a command line: it gives each of them back as it is.

    Variables are replaced in every word but the first.
    """
    first, *others = words
    return " ".join([quoted(first), *(quoted(word.replace("$", "$$")) for word in others)])


def quoted(word: str) -> str:
    """One word of a list in a unit: neither split, nor a specifier, nor an escape."""
    word = word.replace("%", "%%")
    if _PLAIN.fullmatch(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
