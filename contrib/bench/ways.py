"""The ways from a client to a target: none, OpenSSH, HAProxy, and ours; all at hand in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from contrib.bench import peers
from contrib.bench.machine import family_cpu_seconds
from contrib.bench.ours import Ours

NO_RELAY = "no relay"
SSH, CHAIN, HOPS = "ssh -L", "ssh -L to ssh -R", "HAProxy, three TLS hops"


@frozen
class Way:
    """A way from the client to the target.

    Attributes:
        processes: What the bytes pass, by name; what they start for a connection counts with them.
        is_ours: Whether it is a gateway of this project.
    """

    address: tuple[str, int]
    processes: Mapping[str, int]
    is_ours: bool = False

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time used so far, by process."""
        return {name: family_cpu_seconds(pid) for name, pid in self.processes.items()}


@frozen
class Peers:
    """What the other ways need, as far as this machine has it.

    Attributes:
        ssh: None where there is no OpenSSH server.
        skipped: Takes a line for each way that could not be had.
    """

    directory: Path
    ssh: peers.Ssh | None
    skipped: list[str]


@contextmanager
def ways_to(
    port: int, resource: str, gateways: Mapping[str, Ours], others: Peers
) -> Iterator[dict[str, Way]]:
    """Each way to a loopback port, the peers' first.

    Args:
        resource: What the port is called in the gateways.
        gateways: By the names of their ways.
    """
    ways = {NO_RELAY: Way(("127.0.0.1", port), {})}
    with ExitStack() as ending:
        if others.ssh is not None:
            forward = ending.enter_context(peers.ssh_forward(others.ssh, port))
            chain = ending.enter_context(peers.ssh_chain(others.ssh, port))
            ways[SSH] = _by(forward, "ssh", "sshd")
            ways[CHAIN] = _by(chain, "ssh -L", "sshd", "ssh -R")
        try:
            hops = ending.enter_context(peers.haproxy_chain(others.directory, port))
            ways[HOPS] = _by(hops, "hop 1", "hop 2", "hop 3")
        except peers.Missing as missing:
            line = f"{HOPS}: {missing} is not installed"
            if line not in others.skipped:
                others.skipped.append(line)
        for name, ours in gateways.items():
            ways[name] = Way(ours.ports[resource], ours.processes, is_ours=True)
        yield ways


def _by(hops: peers.Hops, *names: str) -> Way:
    return Way(("127.0.0.1", hops.port), dict(zip(names, hops.pids, strict=True)))
