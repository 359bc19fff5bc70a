"""What the kernel says of a process: the CPU time it has used, the memory that is resident."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


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
        for task in Path(f"/proc/{pid}/task").iterdir():
            waiting += map(int, (task / "children").read_text("ascii").split())
    return found


def resident_kib(pid: int) -> float:
    """Memory that a process has resident now."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    raise AssertionError(f"process {pid} has ended")
