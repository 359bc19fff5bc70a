"""Small round trips: a message of some bytes there and back, again and again.

People work in such messages (a key press, a statement, a request), and a path that is quick with
large ones may be slow with these.  Every path is measured in turns within one run, and for each the
CPU time of all its processes is told beside its rate.  Client and echo are processes of their own
and do as little as Python can.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from contrib.bench import peers
from contrib.bench.figures import DIRECT, TUNNEL
from contrib.bench.machine import cpu_seconds, with_descendants
from contrib.bench.ours import Ours
from contrib.bench.rows import NO_GOAL, Goal, Row, less_is_better, more_is_better

SIZE = 100
"""Bytes of a message in the rows that have a goal."""

SESSIONS = (1, 8)
_ROOT = Path(__file__).parents[2]
_ROUNDS = 3
_SECONDS = 2.0
_MOVES_AFTER = 5 << 18
"""Bytes that each session echoes before it is measured: one that may move has moved by then."""

_PIECE = 1 << 15
_SSH, _CHAIN, _HOPS = "ssh -L", "ssh -L to ssh -R", "HAProxy, three TLS hops"
_GOALS = {
    (DIRECT, _CHAIN): (Goal(ratio=1.1), Goal(ratio=1.0)),
    (DIRECT, _SSH): (Goal(ratio=0.7), NO_GOAL),
    (TUNNEL, _CHAIN): (Goal(ratio=0.5), Goal(ratio=0.45)),
}
"""Of the rates and of the CPU time, with eight sessions."""


@frozen
class Way:
    """A way from the client to the echo.

    Attributes:
        pids: The processes that the bytes pass, and those they start for a connection.
    """

    address: tuple[str, int]
    pids: Sequence[int]


@frozen
class Trips:
    """What one measurement found."""

    per_second: float
    cpu_micros: float


def rows(ways: dict[str, Ours], ssh: peers.Ssh, echo: int, directory: Path) -> list[Row]:
    """Round trips of both lanes beside OpenSSH and HAProxy.

    Args:
        ways: A gateway for each lane, whose resource ``echo`` is the port *echo*.
    """
    with (
        peers.ssh_forward(ssh, echo) as forward,
        peers.ssh_chain(ssh, echo) as chain,
        peers.haproxy_chain(directory, echo) as hops,
    ):
        paths = {
            name: Way(ours.ports["echo"], ours.session_pids) for name, ours in ways.items()
        } | {
            name: Way(("127.0.0.1", peer.port), peer.pids)
            for name, peer in ((_SSH, forward), (_CHAIN, chain), (_HOPS, hops))
        }
        return [row for count in SESSIONS for row in _rows_of(paths, ways, count)]


def _rows_of(paths: dict[str, Way], ways: dict[str, Ours], count: int) -> Iterator[Row]:
    best: dict[str, Trips] = {}
    for _ in range(_ROUNDS):
        for name, path in paths.items():
            found = measured(path, SIZE, count)
            if name not in best or found.per_second > best[name].per_second:
                best[name] = found
    for way in ways:
        for peer in (_SSH, _CHAIN, _HOPS):
            rate, cpu = _GOALS.get((way, peer), (NO_GOAL, NO_GOAL)) if count > 1 else (NO_GOAL,) * 2
            name = f"round trips of {SIZE} bytes, {count} at once, {way}"
            mine, theirs = best[way], best[peer]
            yield more_is_better(name, mine.per_second, "/s", peer, theirs.per_second, rate)
            yield less_is_better(
                f"{name}, CPU", mine.cpu_micros, "µs", peer, theirs.cpu_micros, cpu
            )


def measured(path: Way, size: int, count: int, seconds: float = _SECONDS) -> Trips:
    """Round trips a second over *count* sessions of a path, and its CPU time for each."""
    words = [sys.executable, "-m", __name__, "client", *map(str, path.address)]
    client = subprocess.Popen(
        [*words, str(size), str(count), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    with client:
        assert client.stdin is not None and client.stdout is not None
        if client.stdout.readline() != "warm\n":
            raise AssertionError(f"no session to {path.address} could be warmed")
        pids = with_descendants(path.pids)
        before = sum(map(cpu_seconds, pids))
        client.stdin.write("go\n")
        client.stdin.flush()
        trips, took = client.stdout.readline().split()
        used = sum(map(cpu_seconds, pids)) - before
    return Trips(int(trips) / float(took), used * 1e6 / int(trips))


@contextmanager
def echo_server() -> Iterator[int]:
    """The port of an echo in a process of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        words = [sys.executable, "-m", __name__, "echo", str(listener.fileno())]
        with subprocess.Popen(words, pass_fds=(listener.fileno(),), cwd=_ROOT) as process:
            try:
                yield listener.getsockname()[1]
            finally:
                process.kill()


def _echo(listener: socket.socket) -> None:
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    held: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            peer = held.get(number)
            if peer is None:
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                held[peer.fileno()] = peer
                poll.register(peer, select.EPOLLIN)
                continue
            try:
                data = peer.recv(1 << 16)
                peer.sendall(data)
            except OSError:
                data = b""
            if not data:
                poll.unregister(number)
                held.pop(number).close()


def _client(host: str, port: int, size: int, count: int, seconds: float) -> None:
    """One message under way in each session, until the time is over."""
    held: dict[int, socket.socket] = {}
    poll = select.epoll()
    for _ in range(count):
        peer = socket.create_connection((host, port), timeout=30)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(_MOVES_AFTER // _PIECE):
            peer.sendall(bytes(_PIECE))
            _receive(peer, _PIECE)
        held[peer.fileno()] = peer
        poll.register(peer, select.EPOLLIN)
    print("warm", flush=True)
    sys.stdin.readline()
    message = bytes(size)
    missing = dict.fromkeys(held, size)
    trips, began = 0, time.perf_counter()
    ends = began + seconds
    for peer in held.values():
        peer.send(message)
    while (now := time.perf_counter()) < ends:
        for number, _ in poll.poll(30):
            got = len(held[number].recv(1 << 16))
            if not got:
                raise AssertionError("a session ended while it was measured")
            missing[number] -= got
            if not missing[number]:
                trips += 1
                missing[number] = size
                held[number].send(message)
    print(trips, now - began, flush=True)


def _receive(peer: socket.socket, size: int) -> None:
    while size:
        got = len(peer.recv(size))
        if not got:
            raise AssertionError("the session ended while it was warmed")
        size -= got


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        _echo(socket.socket(fileno=int(sys.argv[2])))
    else:
        _client(
            sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
        )
