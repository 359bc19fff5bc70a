"""How long until a command has answered, and until a whole gateway is ready."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from contrib.bench.rows import Goal, Row, less_is_better
from svc.testing.gateway.gateway import init_gateway
from svc.testing.gateway.processes import environment, svc_command
from svc.testing.gateway.settings import ALL

_COMMANDS = 15
_STARTS = 5
_BARE = (sys.executable, "-c", "pass")


def rows() -> list[Row]:
    """``svc --version`` and ``svc all``, beside an interpreter that does nothing."""
    with TemporaryDirectory(prefix="svc-bench-") as name:
        version, bare = [], []
        for _ in range(_COMMANDS):
            version.append(_command(svc_command("--version"), Path(name)))
            bare.append(_command(_BARE, Path(name)))
    peer, nothing = "python -c pass", median(bare)
    return [
        less_is_better("svc --version", median(version), "s", peer, nothing, Goal(value=0.15)),
        less_is_better(
            "svc all, until ready", median(_readied()), "s", peer, nothing, Goal(value=2)
        ),
    ]


def _command(words: Sequence[str], home: Path) -> float:
    began = time.perf_counter()
    subprocess.run(
        list(words),
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(home),
        cwd=home,
    )
    return time.perf_counter() - began


def _readied() -> list[float]:
    """Seconds of each start with an identity; the first one, which makes everything, is apart."""
    gateway = init_gateway(layout=ALL)
    try:
        gateway.make_child(ALL)
        gateway.start(ALL)
        took = []
        for _ in range(_STARTS):
            gateway.child(ALL).stop()
            began = time.perf_counter()
            gateway.start(ALL)
            took.append(time.perf_counter() - began)
        return took
    finally:
        gateway.end()
