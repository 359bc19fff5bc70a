"""A process that a signal has stopped, and not one that is about to stop."""

from __future__ import annotations

import signal
from pathlib import Path

from svc.testing.gateway.processes import Child, until


def stand_still(child: Child) -> None:
    """SIGSTOP, and wait until each of its threads is stopped: a signal is sent before it works."""
    child.signal(signal.SIGSTOP)
    until(f"each thread of {child.name} is stopped", lambda: set(_states(child)) == {"T"})


def _states(child: Child) -> list[str]:
    tasks = Path(f"/proc/{child.pid}/task")
    try:
        stats = [task.joinpath("stat").read_text("utf-8", "replace") for task in tasks.iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []  # a thread ended meanwhile
    return [stat.rpartition(") ")[2][0] for stat in stats]
