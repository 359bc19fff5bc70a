"""What the kernel says of a process: the CPU time it has used, the memory that is resident."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process so far, to the nanosecond."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        used += int((task / "schedstat").read_text("ascii").split()[0])
    return used / 1e9


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Processes and everything that they have started and that still runs."""
    found, waiting = [], list(pids)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text("ascii").split())
    return found


def family_cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, of what it has started, and of what of this has ended."""
    used = 0.0
    for one in with_descendants([pid]):
        with suppress(FileNotFoundError, ProcessLookupError):
            used += cpu_seconds(one) + _reaped_seconds(one)
    return used


def _reaped_seconds(pid: int) -> float:
    """CPU time of the children that a process has waited for, in whole ticks of the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS


def resident_kib(pid: int) -> float:
    """Memory that a process has resident now."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    raise AssertionError(f"process {pid} has ended")


def machine() -> str:
    """A line that says how much of the machine is ours: figures of a busy one move."""
    load = ", ".join(f"{each:.2f}" for each in os.getloadavg())
    return f"machine: {os.cpu_count()} cores, load {load} before the bench"
