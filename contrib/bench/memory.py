"""What an idle session and an idle tunnel keep resident, in processes started for this."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from attrs import define, field

from contrib.bench import ours, peers
from contrib.bench.ends import Sink, held, start_sink
from contrib.bench.handshakes import connect, trusting
from contrib.bench.machine import resident_kib
from contrib.bench.rows import Goal, Row, less_is_better
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY

_AT_ONCE = 16
_WARM, _WARM_TUNNELS, _FEW, _MANY = 50, 20, 200, 2_000
_STILL_SECS, _STILL_KIB = 1.0, 128
_SESSION, _TUNNEL = Goal(value=40), Goal(value=60)


def rows(directory: Path) -> list[Row]:
    """Sessions of one person over one tunnel, then tunnels beside them.

    No session is ended before the last figure is taken: what ended would leave
    memory that the next one takes before the process grows.
    """
    sink = start_sink()
    try:
        with ours.gateway({"hold": sink.port}) as running:
            with ExitStack() as kept:
                found = _session_rows(running, sink, directory, kept)
            return found + _tunnel_rows(running, directory)
    finally:
        sink.end()


def _session_rows(running: ours.Ours, sink: Sink, directory: Path, kept: ExitStack) -> list[Row]:
    with peers.haproxy_chain(directory, sink.port) as hops, ExitStack() as theirs:
        peer = Growth([hops.pids[1]], lambda: held(("127.0.0.1", hops.port)), theirs)
        [hop] = peer.of(_FEW).values()
    roles, resident = running.gateway.roles, running.person.resident
    assert resident is not None
    names = {roles[PROXY].pid: PROXY, roles[CONNECTOR].pid: CONNECTOR, resident.pid: "client"}
    growth = Growth(list(names), lambda: held(running.ports["hold"]), kept)
    found = []
    for count in (_FEW, _MANY):
        for pid, each in growth.of(count).items():
            name = f"an idle session of {count}, {names[pid]}"
            found.append(
                less_is_better(name, each, "KiB", "HAProxy, a hop of three", hop, _SESSION)
            )
    return found


def _tunnel_rows(running: ours.Ours, directory: Path) -> list[Row]:
    context = trusting(running.proxy_state)
    with peers.haproxy_tls(directory, running.proxy_state) as server, ExitStack() as theirs:
        there = ("127.0.0.1", server.port)
        [peer] = Growth([server.pid], lambda: connect(context, there), theirs).of(_FEW).values()
    with connectors(running, directory / "many") as add:
        add(_WARM_TUNNELS + _FEW)
    # A Proxy that knows them all, and has not yet grown by their joining.
    pid = running.gateway.restart(PROXY).pid
    running.gateway.await_tunnels(1)
    with connectors(running, directory / "many") as add:
        add(_WARM_TUNNELS)
        before = settled_memory([pid])[pid]
        add(_FEW)
        each = (settled_memory([pid])[pid] - before) / _FEW
    name, beside = f"an idle tunnel of {_FEW}, proxy", "HAProxy, a TLS connection"
    return [less_is_better(name, each, "KiB", beside, peer, _TUNNEL)]


@define
class Growth:
    """What processes grow by as something is made again and again, some to warm up first.

    Attributes:
        pids: Of the processes.
        kept: Ends what was made.
    """

    pids: Sequence[int]
    make: Callable[[], Any]
    kept: ExitStack
    _made: int = field(default=0, init=False)
    _before: dict[int, float] = field(factory=dict, init=False)

    def of(self, count: int) -> dict[int, float]:
        """KiB that each process keeps for one of so many; those of earlier calls are among them."""
        if not self._before:
            self._fill(_WARM)
            self._before = settled_memory(self.pids)
        self._fill(count - self._made)
        self._made = count
        after = settled_memory(self.pids)
        return {pid: (after[pid] - self._before[pid]) / count for pid in self.pids}

    def _fill(self, count: int) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for each in pool.map(lambda _: self.make(), range(count)):
                self.kept.enter_context(each)


@contextmanager
def connectors(running: ours.Ours, directory: Path) -> Iterator[Callable[[int], None]]:
    """Brings up so many more Connectors, each with its tunnel, in a process of their own."""
    files = running.gateway.files
    asked = {
        "cluster": files.cluster,
        "pin": running.gateway.pin,
        "proxy": running.gateway.public,
        "socket": str(files.state(AUTHORITY) / "control.sock"),
        "directory": str(directory),
    }
    command = [sys.executable, "-m", "contrib.bench.connectors", json.dumps(asked)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    tunnels = 1

    def add(count: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
        if process.stdout.readline() != f"{count}\n":
            raise AssertionError("the Connectors did not come up")
        nonlocal tunnels
        tunnels += count
        running.gateway.await_tunnels(tunnels)

    try:
        yield add
    finally:
        process.kill()
        process.wait()


def settled_memory(pids: Collection[int]) -> dict[int, float]:
    """KiB of each process, once what was just begun or ended has settled."""
    seen: dict[int, float] = {}
    since = monotonic()

    def look() -> dict[int, float] | None:
        nonlocal seen, since
        now = {pid: resident_kib(pid) for pid in pids}
        if not seen or any(abs(now[pid] - seen[pid]) > _STILL_KIB for pid in pids):
            seen, since = now, monotonic()
        return now if monotonic() - since >= _STILL_SECS else None

    return until("memory that no longer grows", look)
