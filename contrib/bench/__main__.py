"""``python -m contrib.bench [GROUP …]``: run, print the table, write ``bench.json``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field

from contrib.bench import (
    appends,
    attacked,
    auditing,
    calls,
    deciding,
    drains,
    figures,
    floods,
    handshakes,
    memory,
    migrating,
    peers,
    silent,
    spooling,
    starting,
    trips,
)
from contrib.bench.ends import Sink, flood, start_sink, throughput
from contrib.bench.ours import Ours, gateway
from contrib.bench.rows import Row, table, write


def main() -> int:
    """Measure what was asked for; 1 when a peer is missing."""
    options = argparse.ArgumentParser(prog="contrib.bench", description=__doc__)
    options.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    options.add_argument("--megabytes", type=int, default=500, help="bytes of one session")
    options.add_argument("--records", type=int, default=1_000_000, help="rows of a long audit log")
    options.add_argument("--out", type=Path, default=Path("bench.json"))
    chosen = options.parse_args()
    if unknown := sorted(set(chosen.groups) - set(GROUPS)):
        options.error(f"no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    # Each process as its user starts it, not forked from one that is warm.
    os.environ["SVC_TEST_EXEC"] = "1"
    try:
        rows = measured(chosen.groups or GROUPS, chosen.megabytes, chosen.records)
    except peers.Missing as missing:
        print(f"bench: {missing} is not installed; see `make test` for its package")
        return 1
    print(table(rows))
    write(rows, chosen.out)
    return 0


def measured(groups: Iterable[str], megabytes: int, records: int) -> list[Row]:
    """The rows of some groups, all of one run."""
    rows: list[Row] = []
    with ExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        bench = Bench(ending=ending, directory=directory, megabytes=megabytes, records=records)
        for name in GROUPS:
            if name in groups:
                began = time.monotonic()
                rows += GROUPS[name](bench)
                print(f"bench: {name}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


@define
class Bench:
    """What groups share, each made when a group first needs it.

    Attributes:
        ending: Ends whatever was made.
    """

    ending: ExitStack
    directory: Path
    megabytes: int
    records: int
    _sink: Sink | None = field(default=None, init=False)
    _echo: int | None = field(default=None, init=False)
    _ssh: peers.Ssh | None = field(default=None, init=False)
    _ways: dict[bool, Ours] = field(factory=dict, init=False)

    @property
    def sink(self) -> Sink:
        """Where sessions end."""
        if self._sink is None:
            self._sink = start_sink()
            self.ending.callback(self._sink.end)
        return self._sink

    @property
    def echo(self) -> int:
        """The port of a target that says again what it is told."""
        if self._echo is None:
            self._echo = self.ending.enter_context(trips.echo_server())
        return self._echo

    @property
    def ssh(self) -> peers.Ssh:
        """OpenSSH's server."""
        if self._ssh is None:
            self._ssh = self.ending.enter_context(peers.sshd(self.directory))
        return self._ssh

    @property
    def ours(self) -> Ours:
        """The gateway of all groups but those that count from a fresh one."""
        return self._gateway(direct=True)

    @property
    def tunnelled(self) -> Ours:
        """One whose sessions stay in the tunnel."""
        return self._gateway(direct=False)

    def _gateway(self, *, direct: bool) -> Ours:
        if direct not in self._ways:
            ports = {
                "sink": self.sink.port,
                "flood": self.ending.enter_context(flood()),
                "echo": self.echo,
            }
            made = gateway(ports, self.ssh.port, direct=direct)
            self._ways[direct] = self.ending.enter_context(made)
        return self._ways[direct]

    @property
    def ways(self) -> dict[str, Ours]:
        """A gateway for each way that the bytes of a session go."""
        return {figures.DIRECT: self.ours, figures.TUNNEL: self.tunnelled}

    def load(self, ours: Ours) -> None:
        """One session at full speed, for about a second."""
        throughput(ours.sink, self.megabytes)


GROUPS: dict[str, Callable[[Bench], list[Row]]] = {
    "start": lambda bench: starting.rows(),
    "decision": lambda bench: deciding.rows(),
    "appends": lambda bench: appends.rows(bench.directory),
    "migration": lambda bench: migrating.rows(bench.directory, bench.records),
    "drains": lambda bench: drains.rows(bench.directory),
    "spool": lambda bench: spooling.rows(bench.directory),
    "audit": lambda bench: auditing.rows(bench.directory),
    "throughput": lambda bench: figures.throughput_rows(
        bench.ways, bench.ssh, bench.sink, bench.directory, bench.megabytes
    ),
    "trips": lambda bench: trips.rows(bench.ways, bench.ssh, bench.echo, bench.directory),
    "stalled": lambda bench: figures.stalled_rows(bench.tunnelled, bench.megabytes),
    "silent": lambda bench: silent.rows(bench.ours),
    "floods": lambda bench: floods.rows(bench.sink.port),
    "attacked": lambda bench: attacked.attacked_rows(bench.ours, bench.megabytes),
    "opening": lambda bench: figures.opening_rows(bench.ours, bench.ssh),
    "lag": lambda bench: calls.lag_rows(bench.ways, bench.load),
    "unary": lambda bench: calls.unary_rows(bench.ours),
    "streaming": lambda bench: calls.streaming_rows(bench.ours),
    "handshakes": lambda bench: handshakes.rows(bench.ours, bench.directory),
    "memory": lambda bench: memory.rows(bench.directory),
}
"""By the names that the command line takes, in the order in which they are measured."""


if __name__ == "__main__":
    sys.exit(main())
