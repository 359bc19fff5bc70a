"""System calls of our processes for one round trip, as ``strace`` counts them.

It slows what it watches, so nothing is timed meanwhile.  A process's own timers are in the count;
at the pace of one session they are a few hundredths of a call.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory

from attrs import define, field

from contrib.bench import peers
from contrib.bench.rows import Goal, Row, Table, less_is_better
from contrib.bench.ways import Way

_GOAL = Goal(value=6.2)
_LEAST = 6.0
"""Each way once: wait, receive, send."""

_TELLING = 4
"""Kinds of calls that are named."""


class Refused(Exception):
    """The kernel lets us watch no process."""


@define
class Counted:
    """Calls of one process, by name; filled when the watching ends."""

    calls: dict[str, int] = field(factory=dict)


def system_calls(
    asked: Mapping[str, tuple[Way, Callable[[], Mapping[str, float]]]],
) -> tuple[Table, list[Row]]:
    """Calls a round trip, by process and way; a line that says why where they cannot be counted.

    Args:
        asked: By the way's name: makes round trips, and returns how many as ``trips``.
    """
    lines, rows = [], []
    try:
        for name, (way, make_trips) in asked.items():
            watched = {part: Counted() for part in way.processes}
            with ExitStack() as watching:
                for part, counted in watched.items():
                    watching.enter_context(watch(way.processes[part], counted))
                trips = make_trips()["trips"]
            for part, counted in watched.items():
                lines.append(_line(name, part, counted.calls, trips))
                each = sum(counted.calls.values()) / trips
                if each >= 1:
                    what = f"system calls a round trip, {name}, {part}"
                    least = "wait, receive, send, both ways"
                    rows.append(less_is_better(what, each, "", least, _LEAST, _GOAL))
    except peers.Missing as missing:
        lines.append(("skipped", f"{missing} is not installed", "-", "-", "-"))
    except Refused as refused:
        lines.append(("skipped", str(refused), "-", "-", "-"))
    head = ("way", "process", "calls", "epoll_ctl", "most often")
    title = "system calls a round trip of 100 bytes, 1 at once, by strace -c -f"
    return Table(title=title, head=head, lines=lines), rows


@contextmanager
def watch(pid: int, counted: Counted) -> Iterator[None]:
    """Count the calls of a process and its threads while the block runs.

    Raises:
        Missing: there is no ``strace``.
        Refused: it may not watch.
    """
    with TemporaryDirectory(prefix="svc-strace-") as directory:
        words = [peers.tool("strace"), "-c", "-f", "-o", f"{directory}/counted", "-p", str(pid)]
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as strace:
            try:
                assert strace.stderr is not None
                said = strace.stderr.readline()
                if "attached" not in said:
                    raise Refused(said.strip() or "strace ended")
                yield
            finally:
                strace.send_signal(signal.SIGINT)
                strace.communicate()
        with open(f"{directory}/counted", encoding="ascii", errors="replace") as summary:
            counted.calls |= parsed(summary.read())


def parsed(summary: str) -> dict[str, int]:
    """Calls by name, of what ``strace -c`` writes."""
    found = {}
    for line in summary.splitlines():
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
            found[words[-1]] = int(words[3])
    return found


def _line(way: str, part: str, calls: Mapping[str, int], trips: float) -> tuple[str, ...]:
    often = sorted(calls, key=lambda name: -calls[name])[:_TELLING]
    return (
        way,
        part,
        f"{sum(calls.values()) / trips:.2f}",
        f"{calls.get('epoll_ctl', 0) / trips:.2f}",
        ", ".join(f"{name} {calls[name] / trips:.2f}" for name in often) or "-",
    )
