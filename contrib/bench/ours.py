"""Our side: four processes, a person, and the resident's local ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from svc.testing.gateway import Gateway, make_gateway
from svc.testing.settings import Target

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
_LIKE_IN_USE = {"limits.max_sessions_per_person": 100_000}


@frozen
class Ours:
    """A running gateway and where its resources are locally."""

    gateway: Gateway
    sink: tuple[str, int]
    ssh: tuple[str, int] | None
    flood: tuple[str, int]


@contextmanager
def gateway(sink_port: int, flood_port: int, ssh_port: int | None = None) -> Iterator[Ours]:
    """A gateway with the sink (and an sshd) behind it, ended however the block ends."""
    ports = {"sink": sink_port, "flood": flood_port}
    targets = [Target(name, f"127.0.0.1:{port}") for name, port in ports.items()]
    if ssh_port is not None:
        targets.append(Target("shell", f"127.0.0.1:{ssh_port}", "ssh"))
    made = make_gateway(targets, policy=POLICY, numbers=_LIKE_IN_USE)
    try:
        person = made.add_person("bench", "bench")
        person.up(*(target.id for target in targets))
        shell = None if ssh_port is None else person.endpoint("shell")
        yield Ours(made, person.endpoint("sink"), shell, person.endpoint("flood"))
    finally:
        made.end()
