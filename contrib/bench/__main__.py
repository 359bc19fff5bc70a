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

from attrs import define, evolve, field

from contrib.bench import (
    appends,
    attacked,
    auditing,
    calls,
    crowded,
    deciding,
    drains,
    figures,
    floods,
    gates,
    handshakes,
    holding,
    memory,
    migrating,
    openings,
    peers,
    pgbench,
    replays,
    requesting,
    shell_calls,
    signing_in,
    silent,
    spooling,
    ssh_copies,
    starting,
    trips,
    websocket,
)
from contrib.bench.build import this_build
from contrib.bench.ends import Sink, flood, start_sink, throughput
from contrib.bench.machine import machine
from contrib.bench.ours import Ours, gated, gateway
from contrib.bench.rows import Row, Table, table, write
from contrib.bench.turns import FULL, QUICK, Scale
from contrib.bench.ways import CHAIN, SSH, Peers, ways_to


def main() -> int:
    """Measure what was asked for; 1 when every group of it lacked a tool."""
    options = argparse.ArgumentParser(prog="contrib.bench", description=__doc__)
    options.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    options.add_argument("--quick", action="store_true", help=f"of {', '.join(IN_TURNS)}: less")
    options.add_argument("--megabytes", type=int, default=500, help="bytes of one session")
    options.add_argument("--records", type=int, default=1_000_000, help="rows of a long audit log")
    options.add_argument("--sessions", type=int, default=10_000, help="held idle")
    options.add_argument("--tunnels", type=int, default=2_000, help="held idle beside them")
    options.add_argument("--hold", type=float, default=600.0, help="seconds that they are held")
    options.add_argument("--out", type=Path, default=Path("bench.json"))
    chosen = options.parse_args()
    if unknown := sorted(set(chosen.groups) - set(GROUPS)):
        options.error(f"no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    groups = chosen.groups or (IN_TURNS if chosen.quick else [*GROUPS][: -len(LONG)])
    if chosen.quick and (whole := sorted(set(groups) - set(IN_TURNS))):
        options.error(f"--quick is for {', '.join(IN_TURNS)}, not for {', '.join(whole)}")
    # Each process as its user starts it, not forked from one that is warm; unless time matters.
    os.environ["SVC_TEST_EXEC"] = "0" if chosen.quick else "1"
    print(f"{this_build().text()}\n{machine()}", flush=True)
    with ExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        bench = Bench(
            ending=ending,
            directory=directory,
            megabytes=chosen.megabytes,
            records=chosen.records,
            held=holding.Held(chosen.sessions, chosen.tunnels, chosen.hold),
            scale=QUICK if chosen.quick else FULL,
        )
        rows = measured(bench, groups)
    print("\n\n".join([*(one.text() for one in bench.tables), *([table(rows)] if rows else [])]))
    for line in bench.skipped:
        print(f"skipped: {line}")
    write(rows, bench.tables, chosen.out)
    return 0 if rows or bench.tables else 1


def measured(bench: Bench, groups: Iterable[str]) -> list[Row]:
    """The rows of some groups, all of one run."""
    rows: list[Row] = []
    for name in GROUPS:
        if name in groups:
            began = time.monotonic()
            try:
                rows += GROUPS[name](bench)
            except peers.Missing as missing:
                bench.skipped.append(f"{name}: {missing} is not installed; see `make test`")
            print(f"bench: {name}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


@define
class Bench:
    """What groups share, each made when a group first needs it.

    Attributes:
        ending: Ends whatever was made.
        scale: Of the groups that measure ways in turns.
        tables: What they found, beside their rows.
        skipped: A line for each group, and each peer, whose tool is missing.
    """

    ending: ExitStack
    directory: Path
    megabytes: int
    records: int
    held: holding.Held
    scale: Scale
    tables: list[Table] = field(factory=list, init=False)
    skipped: list[str] = field(factory=list, init=False)
    _sink: Sink | None = field(default=None, init=False)
    _servers: dict[str, int] = field(factory=dict, init=False)
    _postgres: int = field(factory=peers.free_port, init=False)
    _ssh: peers.Ssh | None = field(default=None, init=False)
    _gateways: dict[bool, Ours] = field(factory=dict, init=False)

    @property
    def sink(self) -> Sink:
        """Where sessions end."""
        if self._sink is None:
            self._sink = start_sink()
            self.ending.callback(self._sink.end)
        return self._sink

    def serving(self, what: str) -> int:
        """The port of a target that says again what it is told: ``echo`` or ``websocket``."""
        if what not in self._servers:
            self._servers[what] = self.ending.enter_context(trips.serving(what))
        return self._servers[what]

    @property
    def ssh(self) -> peers.Ssh:
        """OpenSSH's server.

        Raises:
            Missing: there is none.
        """
        if self._ssh is None:
            self._ssh = self.ending.enter_context(peers.sshd(self.directory))
        return self._ssh

    @property
    def others(self) -> Peers:
        """What the peers' ways need; a line is skipped for OpenSSH where there is none."""
        try:
            ssh = self.ssh
        except peers.Missing as missing:
            line = f"{SSH}, {CHAIN}: {missing} is not installed"
            if line not in self.skipped:
                self.skipped.append(line)
            return Peers(directory=self.directory, ssh=None, skipped=self.skipped)
        return Peers(directory=self.directory, ssh=ssh, skipped=self.skipped)

    @property
    def ours(self) -> Ours:
        """The gateway of all groups but those that count from a fresh one."""
        return self._gateway(direct=True)

    @property
    def tunnelled(self) -> Ours:
        """One whose sessions stay in the tunnel."""
        return self._gateway(direct=False)

    def _gateway(self, *, direct: bool) -> Ours:
        if direct not in self._gateways:
            ports = {
                "sink": self.sink.port,
                "flood": self.ending.enter_context(flood()),
                "echo": self.serving("echo"),
                "websocket": self.serving("websocket"),
                "postgres": self._postgres,
            }
            ssh = self.others.ssh
            made = gateway(ports, ssh.port if ssh else None, direct=direct)
            self._gateways[direct] = self.ending.enter_context(made)
        return self._gateways[direct]

    @property
    def ways(self) -> dict[str, Ours]:
        """A gateway for each way that the bytes of a session go."""
        return {figures.DIRECT: self.ours, figures.TUNNEL: self.tunnelled}

    def load(self, ours: Ours) -> None:
        """One session at full speed, for about a second."""
        throughput(ours.sink, self.megabytes)

    def keep(self, found: tuple[list[Table], list[Row]]) -> list[Row]:
        """Keep a group's tables; its rows."""
        tables, rows = found
        self.tables += tables
        return rows

    def trips(self) -> list[Row]:
        """See :mod:`contrib.bench.trips`."""
        with ways_to(self.serving("echo"), "echo", self.ways, self.others) as ways:
            return self.keep(trips.measure(ways, self.scale))

    def websocket(self) -> list[Row]:
        """See :mod:`contrib.bench.websocket`."""
        with ways_to(self.serving("websocket"), "websocket", self.ways, self.others) as ways:
            return self.keep(websocket.measure(ways, self.scale))

    def pgbench(self) -> list[Row]:
        """See :mod:`contrib.bench.pgbench`."""
        with (
            pgbench.serving(self._postgres) as database,
            ways_to(database.port, "postgres", self.ways, self.others) as ways,
        ):
            return self.keep(pgbench.measure(database, ways, self.scale))

    def shells(self) -> list[Row]:
        """See :mod:`contrib.bench.shell_calls`."""
        relays = self.directory / "relay"
        relays.mkdir(mode=0o700)
        here = {shell_calls.BY_PORT: self.ours}
        # A server of the relays' own: the target's work is in no way's CPU time.
        with peers.sshd(relays) as relay:
            others = evolve(self.others, ssh=relay)
            with ways_to(self.ssh.port, "shell", here, others) as ways:
                return self.keep(shell_calls.measure(self.ssh, self.ours, ways, self.scale))

    def copies(self) -> list[Row]:
        """See :mod:`contrib.bench.ssh_copies`."""
        with gated([ssh_copies.target(self.ssh)], direct=True) as ours:
            return self.keep(ssh_copies.measure(self.ssh, ours, self.scale, self.megabytes))

    def openings(self) -> list[Row]:
        """See :mod:`contrib.bench.openings`."""
        here = {openings.GATEWAY: self.ours}
        with ways_to(self.sink.port, "sink", here, self.others) as ways:
            return self.keep(openings.measure(self.others.ssh, ways, self.scale))

    def gates(self) -> list[Row]:
        """See :mod:`contrib.bench.gates`."""
        with pgbench.serving(peers.free_port()) as database, ExitStack() as ending:
            targets = gates.Targets(
                postgres=database.port,
                http=self.serving("http"),
                token=gates.token_file(self.directory),
            )
            both = {
                name: ending.enter_context(gated(targets.decided, requests=requests))
                for name, requests in ((gates.DURABLE, "durable"), (gates.BUFFERED, "buffered"))
            }
            rows = self.keep(gates.measure_statements(database, both, self.scale))
            found = gates.measure_requests(targets, both, self.directory, self.scale)
            return rows + self.keep(found)


IN_TURNS: dict[str, Callable[[Bench], list[Row]]] = {
    "trips": Bench.trips,
    "pgbench": Bench.pgbench,
    "websocket": Bench.websocket,
    "ssh": Bench.shells,
    "openings": Bench.openings,
    "gates": Bench.gates,
}
"""Groups that measure ways in turns, and have a quick form."""

LONG: dict[str, Callable[[Bench], list[Row]]] = {
    "holding": lambda bench: holding.rows(bench.directory, bench.held),
}
"""Groups that are measured only if they are named."""

GROUPS: dict[str, Callable[[Bench], list[Row]]] = {
    "start": lambda bench: starting.rows(),
    "decision": lambda bench: deciding.rows(),
    "appends": lambda bench: appends.rows(bench.directory),
    "migration": lambda bench: migrating.rows(bench.directory, bench.records),
    "drains": lambda bench: drains.rows(bench.directory),
    "spool": lambda bench: spooling.rows(bench.directory),
    "requests": lambda bench: requesting.rows(bench.directory),
    "sign-ins": lambda bench: signing_in.rows(bench.directory),
    "audit": lambda bench: auditing.rows(bench.directory),
    "replay": lambda bench: replays.rows(bench.directory, bench.records),
    "throughput": lambda bench: figures.throughput_rows(
        bench.ways, bench.ssh, bench.sink, bench.directory, bench.megabytes
    ),
    **IN_TURNS,
    "ssh-copies": Bench.copies,
    "crowded": lambda bench: crowded.rows(bench.sink.port, bench.scale),
    "stalled": lambda bench: figures.stalled_rows(bench.tunnelled, bench.megabytes),
    "silent": lambda bench: silent.rows(bench.ours),
    "floods": lambda bench: floods.rows(bench.sink.port),
    "attacked": lambda bench: attacked.attacked_rows(bench.ours, bench.megabytes),
    "lag": lambda bench: calls.lag_rows(bench.ways, bench.load),
    "unary": lambda bench: calls.unary_rows(bench.ours),
    "streaming": lambda bench: calls.streaming_rows(bench.ours),
    "handshakes": lambda bench: handshakes.rows(bench.ours, bench.directory),
    "memory": lambda bench: memory.rows(bench.directory),
    **LONG,
}
"""By the names that the command line takes, in the order in which they are measured."""


if __name__ == "__main__":
    sys.exit(main())
