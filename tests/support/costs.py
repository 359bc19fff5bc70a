"""What each test costs in CPU time: of its own process and of all that it started.

``python -m tests.runner --costs FILE`` keeps a line of JSON for each test and for each process that
the fork servers started; ``python -m tests.support.costs FILE`` prints where the time went.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from attrs import frozen
from twisted.trial.reporter import TestResult

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of ``/proc/PID/stat`` after the name: the parent; then times, of it and its children."""


def tree_secs() -> float:
    """CPU seconds so far of this process and of all below it, alive or waited for."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended since
        children[int(fields[_PARENT])].append(int(name))
        ticks[int(name)] = sum(map(int, fields[_TIMES]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children[pid]
    return total / _TICKS


@frozen
class Costs:
    """The file; several processes may add lines at once."""

    place: str

    def add(self, **line: Any) -> None:
        """Add a line."""
        with open(self.place, "ab", buffering=0) as out:
            out.write(json.dumps(line).encode() + b"\n")

    def add_process(self, words: str, cpu_secs: float) -> None:
        """A process of a fork server has ended."""
        self.add(process=words, cpu=cpu_secs)

    def measure_tests(self) -> None:
        """Add a line for each test that this process runs from now on.

        What comes before a test, such as a gateway that its module shares, counts for it.
        """
        stop = TestResult.stopTest
        last = (monotonic(), process_time(), tree_secs())

        def stopped(result: TestResult, test: Any) -> None:
            nonlocal last
            stop(result, test)
            now = (monotonic(), process_time(), tree_secs())
            secs, own, tree = (after - before for after, before in zip(now, last, strict=True))
            last = now
            self.add(test=test.id(), secs=secs, own=own, tree=tree)

        TestResult.stopTest = stopped  # type: ignore[method-assign]


@frozen
class Sum:
    """What some tests took together."""

    name: str
    count: int
    secs: float
    own: float
    tree: float

    def __str__(self) -> str:
        times = f"{self.tree:7.1f} cpu {self.own:7.1f} own {self.secs:7.1f} s"
        return f"{times} {self.count:5}  {self.name}"


def sums(lines: Iterable[Mapping[str, Any]], parts: int) -> list[Sum]:
    """Tests by what is left of their names without the last *parts* words, the dearest first."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        found[line["test"].rsplit(".", parts)[0]].append(line)
    made = [
        Sum(
            name=name,
            count=len(each),
            secs=sum(one["secs"] for one in each),
            own=sum(one["own"] for one in each),
            tree=sum(one["tree"] for one in each),
        )
        for name, each in found.items()
    ]
    return sorted(made, key=lambda one: -one.tree)


def main(path: str, count: int) -> None:
    """Print it."""
    lines = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    tests = [line for line in lines if "test" in line]
    for parts, what in ((2, "modules"), (1, "classes"), (0, "tests")):
        print(f"The dearest {what}:", *sums(tests, parts)[:count], sep="\n")
    processes: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for line in lines:
        if "process" in line:
            processes[line["process"]] += 1
            times[line["process"]] += line["cpu"]
    print(
        "Processes of the fork servers:", sum(processes.values()), f"{sum(times.values()):.1f} cpu"
    )
    for name, secs in times.most_common(count):
        print(f"{secs:7.1f} cpu {processes[name]:5}  {name}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
