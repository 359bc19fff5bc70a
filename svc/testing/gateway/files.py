"""The configurations of a test's gateway: as ``svc init`` wrote them, and as tests change them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from svc.setup.plan import KINDS
from svc.testing.gateway.processes import run, svc_command
from svc.testing.gateway.settings import (
    ALL,
    AUTHORITY,
    CONNECTOR,
    PROXY,
    ROLES,
    SHORT,
    GatewayTarget,
    numbers_of,
    toml,
)

_IN_A_ROW = 5
_BELOW_EPHEMERAL = range(20_000, 32_000, _IN_A_ROW)
"""The kernel gives none of these to who asks for any port, so a restart finds its own free."""


_DRAIN = "limits.drain_secs"
_AUTHORITY_LISTENERS = (
    "control_listen",
    "join_listen",
    "renewal_listen",
    "admin_listen",
    "private_listen",
)

TOKEN = "join.token"
"""The file of a join token."""

FIRST_CONNECTOR = "c1"
"""What ``svc init`` calls the Connector of ``svc all``."""


def needs_label(target: GatewayTarget) -> bool:
    """Whether ``svc init --all``, which takes no labels, cannot put it into the catalog."""
    return bool(target.labels) or is_foreign(target)


def is_foreign(target: GatewayTarget) -> bool:
    """Whether ``svc init`` knows nothing of its kind, a drop-in's, or of how it is signed on to."""
    return target.kind not in KINDS or bool(target.onward)


@define(eq=False, slots=False)
class Files:
    """Where everything of one gateway lies.

    Attributes:
        directory: What ``svc init`` makes.
        numbers: Keys of the configuration by dotted path; each role gets those it reads.
        layout: ``"four"`` processes, or ``"all"``.
    """

    directory: Path
    cluster: str
    numbers: Mapping[str, Any]
    layout: str = "four"
    _tables: dict[str, dict[str, Any]] = field(factory=dict)

    @property
    def is_one(self) -> bool:
        """Whether one process plays the three roles."""
        return self.layout == ALL

    def init(self, targets: Sequence[GatewayTarget]) -> None:
        """Let ``svc init`` make it; then give each role the numbers of the test."""
        public, authority, *_ = map(str, free_ports())
        words = ["--cluster", self.cluster, "--public-port", public, "--authority-port", authority]
        later = [one for one in targets if is_foreign(one) or (self.is_one and needs_label(one))]
        for one in (one for one in targets if one not in later):
            words += ["--resource", f"{one.id}={one.kind}:{one.address}"]
        if self.is_one:
            words.append("--all")
        command = svc_command("init", str(self.directory), *words)
        run(command, self.directory.parent).checked()
        for role in (ALL,) if self.is_one else ROLES:
            written = dict(_flat(tomllib.loads(self.config(role).read_text("utf-8"))))
            if later and role in (CONNECTOR, ALL):
                # Without any resource given, `svc init` serves one of its own.
                own = [] if all(map(is_foreign, targets)) else written["connector.resources"]
                written["connector.resources"] = [*own, *_offered(later)]
            more: dict[str, Any] = {"telemetry.metrics_listen": "127.0.0.1:0"}
            for each in ROLES if self.is_one else (role,):
                more |= numbers_of(each, self.numbers)
            if role == AUTHORITY and more.get(_DRAIN) == SHORT[_DRAIN]:
                # No session goes through it, so a stop has nothing to wait for.
                more[_DRAIN] = 600
            self.write(role, written | more)

    def config(self, name: str) -> Path:
        """The configuration of a process."""
        return self.directory / f"{name}.toml"

    def state(self, name: str) -> Path:
        """The state directory of a role or of another Connector."""
        return (self.directory / "state" if self.is_one else self.directory) / name

    def listening(self, name: str) -> Path:
        """Where a process tells the addresses that it has bound."""
        return (self.directory / "state" if name == ALL else self.state(name)) / "listening.json"

    @property
    def store(self) -> Path:
        """The Authority's database."""
        return self.state("authority") / "store.db"

    def token(self, name: str) -> Path:
        """Where the join token of a node is put."""
        return self.state(name) / TOKEN

    def tokens(self) -> list[Path]:
        """Every token that was put somewhere."""
        # Path.glob fails where a directory goes meanwhile, as those of roles that run do.
        places = (Path(place) for place, _, names in os.walk(self.directory) if TOKEN in names)
        return sorted(place / TOKEN for place in places)

    def table(self, name: str) -> dict[str, Any]:
        """What a process is configured with, by dotted path."""
        return dict(self._tables[name])

    def write(self, name: str, table: Mapping[str, Any]) -> None:
        """Write a configuration again; read at the process's next start."""
        self._tables[name] = dict(table)
        self.config(name).write_text(toml(table), "utf-8")

    def add_connector(self, name: str, targets: Iterable[GatewayTarget]) -> None:
        """Configure another Connector than the one that ``svc init`` made."""
        self.state(name).mkdir(mode=0o700)
        own = {
            "state_dir": str(self.state(name)),
            "join.token_file": str(self.token(name)),
            "connector.resources": _offered(targets),
        }
        self.write(name, self._tables[CONNECTOR] | own)

    def write_authorities(
        self,
        names: Mapping[str, str],
        shared: Mapping[str, Any],
        reach: Callable[[str, str, int], str] = lambda _from, _to, port: f"127.0.0.1:{port}",
    ) -> None:
        """Configure Authorities on one store, and the Proxy to know each.

        Those beside the first get its keys; the first is the one that the Proxy tries first.

        Args:
            names: Among themselves, by the names of the processes; the first is ``authority``.
            shared: Keys for all of them, such as ``store_url``.
            reach: The address by which the first process gets to the second one's private port.
        """
        ports = {process: free_ports() for process in names}
        first, *others = names
        for process in others:
            self.state(process).mkdir(mode=0o700)
            shutil.copytree(self.state(first) / "keys", self.state(process) / "keys")
        base = self.table(first) | dict(shared)
        for process, name in names.items():
            own = {"authority.name": name, "state_dir": str(self.state(process))}
            for listener, port in zip(_AUTHORITY_LISTENERS, ports[process], strict=True):
                own[f"endpoints.{listener}"] = f"127.0.0.1:{port}"
            peers = {other: reach(process, to, ports[to][-1]) for to, other in names.items()}
            self.write(process, base | own | {"authority.peers": peers})
        control = [self.table(process)["endpoints.control_listen"] for process in names]
        known = {
            "join.authority": self.table(first)["endpoints.join_listen"],
            "endpoints.authority": control[:1],
            "endpoints.authority_failover": control[1:],
        }
        self.write(PROXY, self.table(PROXY) | known)


def _offered(targets: Iterable[GatewayTarget]) -> list[dict[str, Any]]:
    return [{"id": one.id, "kind": one.kind, "address": one.address, **one.more} for one in targets]


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


_CLAIMED: list[socket.socket] = []
"""A UDP port for each row that was given: nobody sends there, and others see that it is taken."""


def free_ports() -> range:
    """Five free ports in a row, which no other process is given while this one runs."""
    while True:
        first = random.choice(_BELOW_EPHEMERAL)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            claim = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            claim.bind(("127.0.0.1", first))
            for port in range(first, first + _IN_A_ROW):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            _CLAIMED.append(claim.dup())
            return range(first, first + _IN_A_ROW)
