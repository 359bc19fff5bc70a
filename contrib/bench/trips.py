"""Small round trips: a message of some bytes there and back, again and again.

People work in such messages (a key press, a statement, a request), and a path that is quick with
large ones may be slow with these.  Every way is measured in turns within one run over sessions that
stay open, and for each the CPU time of its processes is told beside its rate.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from contrib.bench.figures import DIRECT, TUNNEL
from contrib.bench.rows import NO_GOAL, Goal, Row, Table
from contrib.bench.syscalls import system_calls
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns, used_by
from contrib.bench.ways import CHAIN, SSH, Way

SIZES = (1, 100, 1024)
SESSIONS = (1, 8, 32)
_GOAL_SIZE, _GOAL_SESSIONS = 100, 8
_QUICK_SESSIONS = (1, 8)
_GOALS = {
    (DIRECT, CHAIN): (Goal(ratio=1.1), Goal(ratio=1.0)),
    (DIRECT, SSH): (Goal(ratio=0.7), NO_GOAL),
    (TUNNEL, CHAIN): (Goal(ratio=0.5), Goal(ratio=0.45)),
}
_ROOT = Path(__file__).parents[2]


@frozen
class Sessions:
    """Sessions of a way, open and warm, and the process that uses them."""

    way: Way
    process: subprocess.Popen[str]

    def trips(self, size: int, seconds: float) -> dict[str, float]:
        """What the client says: ``trips``, ``seconds``, ``p50``, ``p99``."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{size} {seconds}\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise AssertionError(f"the client of {self.way.address} ended while it was measured")
        found: dict[str, float] = json.loads(said)
        return found

    def turn(self, size: int, seconds: float) -> Turn:
        """Round trips a second, and the CPU time of the way's processes for each."""
        before = self.way.cpu_seconds()
        said = self.trips(size, seconds)
        after = self.way.cpu_seconds()
        return Turn(
            value=said["trips"] / said["seconds"],
            cpu=used_by(self.way, before, after, int(said["trips"])),
            spread=(said["p50"], said["p99"]),
        )


def measure(ways: Mapping[str, Way], scale: Scale) -> tuple[list[Table], list[Row]]:
    """Round trips over each way, and the system calls that ours take.

    Args:
        ways: To a port that :func:`serving` serves.
    """
    tables, rows = [], []
    for count in _QUICK_SESSIONS if scale.is_quick else SESSIONS:
        with ExitStack() as ending:
            held = {
                name: ending.enter_context(opened(way, "echo", count)) for name, way in ways.items()
            }
            for size in (_GOAL_SIZE,) if scale.is_quick else SIZES:
                has_goal = (size, count) == (_GOAL_SIZE, _GOAL_SESSIONS)
                case = Case(
                    name=f"round trips of {_bytes(size)}, {count} at once",
                    unit="/s",
                    goals=_GOALS if has_goal else {},
                )
                measured = partial(Sessions.turn, size=size, seconds=scale.seconds)
                table, met = compared(case, ways, in_turns(held, scale.rounds, measured))
                tables.append(table)
                rows += met
            if count == 1:
                table, met = system_calls(
                    {
                        name: (one.way, partial(one.trips, _GOAL_SIZE, scale.seconds))
                        for name, one in held.items()
                        if one.way.is_ours
                    }
                )
                tables.append(table)
                rows += met
    return tables, rows


@contextmanager
def opened(way: Way, speech: str, count: int) -> Iterator[Sessions]:
    """Sessions that have carried enough to have moved to the direct lane, if they may."""
    words = [sys.executable, "-m", "contrib.bench.trip_ends", "client", speech]
    with subprocess.Popen(
        [*words, *map(str, way.address), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    ) as client:
        try:
            assert client.stdout is not None
            if client.stdout.readline() != "warm\n":
                raise AssertionError(f"no session to {way.address} could be warmed")
            yield Sessions(way, client)
        finally:
            client.kill()


@contextmanager
def serving(what: str) -> Iterator[int]:
    """The port of a server of ``trip_ends``, ``echo`` or ``websocket``, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        words = [sys.executable, "-m", "contrib.bench.trip_ends", what, str(listener.fileno())]
        with subprocess.Popen(words, pass_fds=(listener.fileno(),), cwd=_ROOT) as process:
            try:
                yield listener.getsockname()[1]
            finally:
                process.kill()


def _bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size} bytes" if size % 1024 else f"{size // 1024} KiB"
