"""A whole gateway of real processes in a temporary directory.

Either an Authority, a Proxy and Connectors, each its own process, or ``svc
all``; beside them people with their residents.  ``svc init`` writes keys and
configurations, to which a test's numbers are added; nodes and people join by
tokens that the command line made.
"""

from __future__ import annotations

import atexit
import http.client
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from svc.testing.gateway.files import FIRST_CONNECTOR, Files, free_ports, needs_label
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, Ran, run, svc_command, until
from svc.testing.gateway.settings import (
    ALL,
    AUTHORITY,
    CONNECTOR,
    POLICY,
    PROXY,
    SHORT,
    GatewayTarget,
)

_PUBLIC_NAMES = ("--public-name", "localhost", "--public-name", "127.0.0.1")
_LONG_LOG_SECS = 300.0
"""How long a whole log may take on a machine that does other things."""

_SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)\Z")


@define(eq=False, slots=False)
class Gateway:
    """The processes, and an operator's hand on them.

    Attributes:
        directory: Holds everything; removed at the end.
        environ: More environment, by role.
    """

    directory: Path
    files: Files
    environ: dict[str, dict[str, str]]
    roles: dict[str, Child] = field(factory=dict)
    pin: str = ""
    people: list[GatewayPerson] = field(factory=list)

    @property
    def everyone(self) -> tuple[Child, ...]:
        """Every process there is, residents included."""
        residents = (person.resident for person in self.people if person.resident is not None)
        return (*self.roles.values(), *residents)

    # Starting and ending

    def child(self, role: str) -> Child:
        """The process that plays *role*: with ``svc all`` always the same one."""
        return self.roles[ALL] if ALL in self.roles else self.roles[role]

    def start(self, role: str, ready: bool = True) -> Child:
        """Start a role (again), and wait until it is ready.

        Raises:
            TooLate: it ended, or was not ready in time.
        """
        child = self.child(role)
        self.files.listening(child.name).unlink(
            missing_ok=True
        )  # of an earlier life, if it was killed
        child.start()
        if ready:
            self.await_ready(child.name)
        return child

    def restart(self, role: str) -> Child:
        """Kill it if it runs, and start it on the same ports."""
        self.child(role).kill()
        return self.start(role)

    def await_ready(self, role: str, seconds: float = TIMEOUT_SECS) -> None:
        """Wait until ``/readyz`` of the role's process is 200."""
        child = self.child(role)
        until(f"{role} ready", lambda: self._is_ready(child.name), seconds, [child])

    def await_tunnels(self, count: int, seconds: float = TIMEOUT_SECS) -> None:
        """Wait until the Proxy has so many tunnels."""
        self.await_metric(PROXY, "svc_active_connector_tunnels", count, seconds)

    def await_metric(
        self, role: str, name: str, value: float, seconds: float = TIMEOUT_SECS, **labels: str
    ) -> None:
        """Wait until a series has a value."""
        until(
            f"{name} {labels or ''} of {role} is {value}",
            lambda: self.metric(role, name, **labels) == value,
            seconds,
            [self.child(role)],
        )

    def end(self) -> None:
        """Kill everything and remove the directory; once more changes nothing."""
        for child in reversed(self.everyone):
            child.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    # Looking

    def listening(self, role: str) -> dict[str, str]:
        """The bound addresses of a role's process, by name; empty while it is not up."""
        try:
            found: dict[str, str] = json.loads(self.files.listening(role).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def get(self, role: str, path: str) -> tuple[int, str]:
        """Status and body of a GET on the telemetry listener.

        Raises:
            OSError: nobody answers.
        """
        host, _, port = self.listening(self.child(role).name)["telemetry"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8")
        finally:
            connection.close()

    def metrics(self, role: str) -> dict[str, float]:
        """Every sample, by ``name`` or ``name{label="value",…}`` as exposed."""
        found = {}
        for line in self.get(role, "/metrics")[1].splitlines():
            sample = _SAMPLE.match(line)
            if sample is not None:
                name, labels = sample["name"], sample["labels"]
                found[f"{name}{{{labels}}}" if labels else name] = float(sample["value"])
        return found

    def metric(self, role: str, name: str, **labels: str) -> float:
        """The sum of a series' samples that carry these labels; 0 where there is none."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        total = 0.0
        for sample, value in self.metrics(role).items():
            full_name, _, carried = sample.partition("{")
            if full_name == name and wanted <= set(carried.rstrip("}").split(",")):
                total += value
        return total

    @property
    def public(self) -> str:
        """The Proxy's public address."""
        return self.listening(self.child(PROXY).name)["public"]

    # The operator

    def operator(
        self, *words: str, stdin: bytes = b"", check: bool = True, seconds: float = TIMEOUT_SECS
    ) -> Ran:
        """``svc --config … authority`` with *words*; a failure if it takes longer."""
        config = str(self.files.config(self.child(AUTHORITY).name))
        command = svc_command("--config", config, "authority", *words)
        ran = run(command, self.directory, stdin=stdin, seconds=seconds)
        return ran.checked() if check else ran

    def set_policy(self, text: str) -> None:
        """Put a policy in force."""
        self.operator("policy", "set", "-", stdin=text.encode())

    def add_resource(self, target: GatewayTarget, connector: str = CONNECTOR) -> None:
        """Add to the catalog what a Connector's configuration offers."""
        labels = [word for label in target.labels for word in ("--label", label)]
        labels += ["--onward-auth", target.onward] if target.onward else []
        node = FIRST_CONNECTOR if self.files.is_one else connector
        self.operator("resources", "add", target.id, "--kind", target.kind, "--node", node, *labels)

    def add_person(self, name: str, *groups: str, proxy: str = PROXY) -> GatewayPerson:
        """A person who has joined on this machine, and uses that Proxy; no resident runs yet."""
        words = [word for group in groups for word in ("--group", group)] + ["--create-groups"]
        token = self.operator("persons", "add", name, *words).stdout.strip()
        person = GatewayPerson(name, self.directory / f"home-{name}", self.files.cluster)
        person.join(self.listening(self.child(proxy).name)["public"], self.pin, token)
        self.people.append(person)
        return person

    def decision(self, decision_id: str) -> list[dict[str, Any]]:
        """The records that name a decision.

        Raises:
            AssertionError: there is none.
        """
        found: list[dict[str, Any]] = self.operator("audit", "show", decision_id, "--json").json
        return found

    def verify(self) -> str:
        """Verify the chain; what the command said."""
        return self.operator("audit", "verify", seconds=_LONG_LOG_SECS).stdout

    def status(self) -> dict[str, Any]:
        """``authority status``."""
        found: dict[str, Any] = self.operator("status", "--json").json
        return found

    # Making

    def make_authority(self) -> None:
        """Start the Authority, or ``svc all``, for the first time."""
        self.start(self.make_child(ALL if self.files.is_one else AUTHORITY).name)
        self.pin = self.status()["ca_pin"]

    def make_proxy(self) -> None:
        """Let a Proxy join directly, and start it."""
        self.put_token(PROXY, PROXY, _PUBLIC_NAMES)
        self.start(self.make_child(PROXY).name)

    def add_proxy(self, name: str, change: Mapping[str, Any] | None = None) -> str:
        """Let another Proxy join, and start it; its public address.

        Args:
            change: Keys of its configuration that differ from the first one's.
        """
        files = self.files
        files.state(name).mkdir(mode=0o700)
        public = f"127.0.0.1:{free_ports()[0]}"
        own = {
            "state_dir": str(files.state(name)),
            "join.token_file": str(files.token(name)),
            "endpoints.public_listen": public,
        }
        files.write(name, files.table(PROXY) | own | dict(change or {}))
        self.put_token(name, PROXY, _PUBLIC_NAMES)
        self.start(self.make_child(name, PROXY).name)
        return public

    def make_connector(self, targets: Iterable[GatewayTarget], name: str = CONNECTOR) -> None:
        """Let a Connector join through the Proxy, start it, and fill the catalog."""
        offered = tuple(targets)
        if name != CONNECTOR:
            self.files.add_connector(name, offered)
        self.put_token(name, CONNECTOR)
        child = self.start(self.make_child(name, CONNECTOR).name)
        joined = self.files.state(name) / "identity" / "current"
        until(f"{name} joined", joined.exists, alive=[child])
        for one in offered:
            self.add_resource(one, name)

    def make_child(self, name: str, role: str | None = None) -> Child:
        """The process of a configuration that is written; not started."""
        environ = {"SVC_LOG_FORMAT": "json", **self.environ.get(name, {})}
        words = svc_command("--config", str(self.files.config(name)), role or name)
        log = self.directory / f"{name}.log"
        self.roles[name] = Child(
            name=name, words=words, home=self.directory, log=log, environ=environ
        )
        return self.roles[name]

    def clone(self, name: str, new: str) -> None:
        """Another process like that of *name*, whose state is what lies under the new name."""
        self.files.write(new, self.files.table(name) | {"state_dir": str(self.files.state(new))})
        self.make_child(new, name)

    def configure(self, role: str, change: Mapping[str, Any]) -> None:
        """Write a role's configuration again with some keys changed; read at its next start."""
        name = self.child(role).name
        self.files.write(name, self.files.table(name) | dict(change))

    def put_token(self, name: str, role: str, more: Iterable[str] = ()) -> None:
        """A token of its own where the node's configuration says that it lies."""
        token = self.operator("nodes", "add", name, "--role", role, *more).stdout
        path = self.files.token(name)
        path.touch(mode=0o600)
        path.write_text(token, "utf-8")

    def _is_ready(self, role: str) -> bool:
        if not self.listening(role):
            return False
        try:
            return self.get(role, "/readyz")[0] == 200
        except OSError:
            return False


def make_gateway(
    targets: Iterable[GatewayTarget] = (),
    *,
    layout: str = "four",
    policy: str | None = POLICY,
    numbers: Mapping[str, Any] | None = None,
    environ: Mapping[str, Mapping[str, str]] | None = None,
) -> Gateway:
    """A running gateway with one tunnel; killed and removed by :meth:`Gateway.end`.

    Args:
        targets: Served by the one Connector, and in the catalog.
        layout: ``"four"`` processes (with a person's resident) or ``"all"``.
        numbers: Over :data:`SHORT`.
        environ: More environment, by role.
    """
    offered = tuple(targets)
    gateway = init_gateway(offered, layout=layout, numbers=numbers, environ=environ)
    try:
        gateway.make_authority()
        if policy is not None:
            gateway.set_policy(policy)
        if not gateway.files.is_one:
            gateway.make_proxy()
            gateway.make_connector(offered)
        else:
            for one in filter(needs_label, offered):
                gateway.add_resource(one)
        gateway.await_tunnels(1)
    except BaseException:
        gateway.end()
        raise
    return gateway


def init_gateway(
    targets: Iterable[GatewayTarget] = (),
    *,
    layout: str = "four",
    numbers: Mapping[str, Any] | None = None,
    environ: Mapping[str, Mapping[str, str]] | None = None,
) -> Gateway:
    """What ``svc init`` has made, with nothing started; see :func:`make_gateway`."""
    directory = Path(tempfile.mkdtemp(prefix="svc-"))
    cluster = f"t{os.urandom(4).hex()}.example"
    files = Files(
        directory=directory / "gate",
        cluster=cluster,
        numbers={**SHORT, **(numbers or {})},
        layout=layout,
    )
    more = {role: dict(each) for role, each in (environ or {}).items()}
    gateway = Gateway(directory, files, more)
    atexit.register(gateway.end)
    files.init(tuple(targets))
    return gateway
