"""Our side: four processes, a person, and the resident's local ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget

POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("bench")
permit (
  principal in Group::"bench",
  action in [Action::"view", Action::"tcpConnect", Action::"sshConnect"],
  resource
);
"""
_GATED_POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);
@id("bench")
permit (principal in Group::"bench", action, resource);
@id("no-ddl")
forbid (principal, action == Action::"dbQuery", resource)
when { context has effects && context.effects.contains("ddl") };
@id("no-admin")
forbid (principal, action == Action::"webAccess", resource)
when { context has path && context.path like "/admin*" };
@id("no-secrets")
forbid (principal, action == Action::"k8sAccess", resource)
when { context has api_resource && context.api_resource == "secrets" };
"""
_KINDS = ["kube", "postgres", "ssh", "tcp", "web"]
_LIKE_IN_USE = {
    "limits.max_sessions_per_person": 100_000,
    "snapshot.heartbeat_secs": 5,
    "snapshot.reload_secs": 10,
}
"""The intervals are the shipped ones, not the short ones that tests use."""


@frozen
class Ours:
    """A running gateway and where its resources are locally.

    Attributes:
        ports: Of the resources, by name.
    """

    gateway: Gateway
    person: GatewayPerson
    ports: dict[str, tuple[str, int]]

    @property
    def sink(self) -> tuple[str, int]:
        """Where the sink is reached."""
        return self.ports["sink"]

    @property
    def public(self) -> tuple[str, int]:
        """The Proxy's public listener."""
        host, _, port = self.gateway.public.rpartition(":")
        return host, int(port)

    @property
    def proxy_pid(self) -> int:
        """The Proxy's process."""
        return self.gateway.roles[PROXY].pid

    @property
    def processes(self) -> dict[str, int]:
        """What a session's bytes pass from the person to the target, and who decides on it."""
        assert self.person.resident is not None
        roles = {role: self.gateway.roles[role].pid for role in (PROXY, CONNECTOR, AUTHORITY)}
        return {"resident": self.person.resident.pid, **roles}

    @property
    def proxy_state(self) -> Path:
        """The Proxy's identity lies in it."""
        return self.gateway.files.state(PROXY)

    @property
    def person_state(self) -> Path:
        """The person's identity lies in it."""
        return self.person.directory


@contextmanager
def gateway(
    ports: dict[str, int],
    ssh_port: int | None = None,
    *,
    direct: bool = True,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Ours]:
    """A gateway with loopback ports (and an sshd) behind it, ended however the block ends.

    Args:
        ports: Of the targets, by name; plain TCP.
        ssh_port: Becomes the resource ``shell``.
        direct: Whether sessions that carry much leave the tunnel, as is usual.
        settings: Of its roles, by the names of their keys; others than those in use.
    """
    targets = [GatewayTarget(name, f"127.0.0.1:{port}") for name, port in ports.items()]
    if ssh_port is not None:
        targets.append(GatewayTarget("shell", f"127.0.0.1:{ssh_port}", "ssh"))
    numbers = {**_LIKE_IN_USE, "proxy.direct_lane": direct, **(settings or {})}
    made = make_gateway(targets, policy=POLICY, numbers=numbers)
    try:
        person = made.add_person("bench", "bench")
        names = [target.id for target in targets]
        person.up(*names)
        yield Ours(made, person, {name: person.endpoint(name) for name in names})
    finally:
        made.end()


@contextmanager
def gated(
    targets: Sequence[GatewayTarget], *, requests: str = "durable", direct: bool = False
) -> Iterator[Ours]:
    """A gateway whose Proxy decides each request, or whose Connector each channel of SSH.

    Args:
        direct: Whether sessions may leave the tunnel, where their kind may.
        requests: When their records are on the Proxy's disk: ``durable`` or ``buffered``.
    """
    kinds = {"plugins.kinds": _KINDS}
    numbers = {**_LIKE_IN_USE, **kinds, "proxy.direct_lane": direct, "audit.requests": requests}
    made = make_gateway(targets, policy=_GATED_POLICY, numbers=numbers)
    try:
        person = made.add_person("bench", "bench")
        config = person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {_KINDS}\n{config.read_text('utf-8')}", "utf-8")
        names = [target.id for target in targets]
        person.up(*names)
        yield Ours(made, person, {name: person.endpoint(name) for name in names})
    finally:
        made.end()
