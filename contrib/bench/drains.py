"""The leader drains a full audit queue, beside appending the same records as its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from contrib.bench.appends import durable_server
from contrib.bench.rows import NO_GOAL, Goal, Row, more_is_better
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite

_ROWS = 4000
_ROUNDS = 3
_SQLITE = Goal(value=8_000)


def rows(directory: Path) -> list[Row]:
    """A row for each backend.

    Raises:
        Missing: there is no PostgreSQL server.
    """
    found: dict[str, list[tuple[float, float]]] = {"SQLite": [], "PostgreSQL": []}
    for number in range(_ROUNDS):
        place = directory / f"drains-{number}"
        place.mkdir(mode=0o700)
        with durable_server() as database:
            urls = {"SQLite": f"sqlite://{place}/store.db", "PostgreSQL": database.url()}
            store_sqlite.migrate(urls["SQLite"], "bench", time.time, time.monotonic)
            store_postgresql.migrate(urls["PostgreSQL"], "bench", time.time, time.monotonic)
            for name, url in urls.items():
                found[name].append(_drained(url))
    return [
        more_is_better(
            f"rows drained from the audit queue, {name}",
            median(ours for ours, _ in pairs),
            "/s",
            "appended as the leader's own",
            median(theirs for _, theirs in pairs),
            _SQLITE if name == "SQLite" else NO_GOAL,
        )
        for name, pairs in found.items()
    ]


def _drained(url: str) -> tuple[float, float]:
    """Rows drained and appended a second, by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "contrib.bench.draining", url, str(_ROWS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    drained, appended = done.stdout.split()
    return float(drained), float(appended)
