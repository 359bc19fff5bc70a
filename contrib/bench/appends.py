"""Durable appends to the audit log, beside pgbench's insert-and-commit on the same disk.

Every writer waits until its record is durable before it asks for the next.  The
server flushes as PostgreSQL does by default; as many clients of pgbench insert a
row of the same size, a transaction each.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from contrib.bench.peers import Missing
from contrib.bench.rows import NO_GOAL, Goal, Row, more_is_better
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.testing.gateway.postgres import SETTINGS, USER, PostgresServer, find_programs

_WRITERS = (1, 10, 100)
_SECS = 1.5
_ROUNDS = 3
_GOALS = {("SQLite", 100): Goal(value=10_000), ("PostgreSQL", 100): Goal(value=3_000)}
_SCRIPT = "INSERT INTO peer (text) VALUES (repeat('x', 900));\n"


def rows(directory: Path) -> list[Row]:
    """A row for each backend and number of writers.

    Raises:
        Missing: there is no PostgreSQL server, or it came without pgbench.
    """
    made = []
    with durable_server() as server:
        place = directory / "appends"
        place.mkdir(mode=0o700)
        urls = {"SQLite": f"sqlite://{place}/store.db", "PostgreSQL": server.url()}
        store_sqlite.migrate(urls["SQLite"], "bench", time.time, time.monotonic)
        store_postgresql.migrate(urls["PostgreSQL"], "bench", time.time, time.monotonic)
        script = place / "insert.sql"
        script.write_text(_SCRIPT, "ascii")
        _pgbench(server, ["-n", "-t", "1", "-f", "/dev/stdin"], "CREATE TABLE peer (text text);")
        for writers in _WRITERS:
            ours: dict[str, list[float]] = {name: [] for name in urls}
            theirs = []
            for _ in range(_ROUNDS):
                for name, url in urls.items():
                    ours[name].append(_appended(url, writers))
                words = ["-n", "-T", "2", "-c", str(writers), "-j", "2", "-f", str(script)]
                theirs.append(_pgbench(server, words))
            made += [
                more_is_better(
                    f"durable audit appends, {name}, {writers} writers",
                    median(found),
                    "/s",
                    "pgbench",
                    median(theirs),
                    _GOALS.get((name, writers), NO_GOAL),
                )
                for name, found in ours.items()
            ]
    return made


@contextmanager
def durable_server() -> Iterator[PostgresServer]:
    """A server of its own that flushes as PostgreSQL does by default.

    Raises:
        Missing: there is none, or it came without pgbench.
    """
    programs = find_programs()
    if programs is None or not (programs / "pgbench").exists():
        raise Missing("postgresql, with pgbench")
    weak = ("fsync", "full_page_writes")
    durable = {name: value for name, value in SETTINGS.items() if name not in weak}
    server = PostgresServer.made(programs, {**durable, "max_connections": "200"})
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _pgbench(server: PostgresServer, words: list[str], stdin: str = "") -> float:
    """Transactions a second."""
    command = [str(server.programs.folder / "pgbench"), "-h", str(server.directory), "-U", USER]
    done = subprocess.run(
        [*command, *words, "postgres"], input=stdin, capture_output=True, text=True, check=True
    )
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return float(found[1])


def _appended(url: str, writers: int) -> float:
    """Appends a second, by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "contrib.bench.appending", url, str(writers), str(_SECS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    return float(done.stdout)
