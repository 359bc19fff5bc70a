"""Migrating a store with a long audit log, beside copying the same store.

The log is of the level that first had one, so every later migration is applied
beside it.  ``python -m contrib.bench.migrating URL [rehearse|idle]`` is the process
that is measured; it prints seconds and the most MiB it was resident.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from contrib.bench.appends import durable_server
from contrib.bench.peers import Missing
from contrib.bench.rows import Row, less_is_better
from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.store.migrate import discover, migrations_folder
from svc.store.postgres.factory import PostgresFactory
from svc.store.sqlite.factory import SqliteFactory

_RECORD = (
    """'{"actor":{"id":"p1"},"decision":"allow","decision_id":"' || %s || '","event":"""
    """"session.start","request":"' || %s || '","time":"2026-01-01T00:00:00Z"}'"""
)
_FILLING = "'" + "x" * 780 + "'"
_IDLE = "the same program, idle"
_COLUMNS = "INSERT INTO audit_log (seq, prev_hash, hash, canonical) "


def rows(directory: Path, records: int) -> list[Row]:
    """Time and memory of the migration on both backends, and of the rehearsal on SQLite.

    Raises:
        Missing: there is no sqlite3 or no PostgreSQL server.
    """
    if shutil.which("sqlite3") is None:
        raise Missing("sqlite3")
    place = directory / "migrating"
    old = place / "migrations"
    old.mkdir(mode=0o700, parents=True)
    _copy_first(old)
    return [*_sqlite(place, old, records), *_postgresql(old, records)]


def _copy_first(old: Path) -> None:
    """The migrations up to the one that made the audit log."""
    for path in sorted(migrations_folder().iterdir()):
        if path.name.partition("_")[0] <= _level():
            shutil.copy(path, old)


def _level() -> str:
    found = discover(migrations_folder(), "sqlite")
    return next(one.id for one in found if one.id.endswith("_audit_log")).partition("_")[0]


def _sqlite(place: Path, old: Path, records: int) -> list[Row]:
    file, what = place / "store.db", f"of {records:,} audit records"
    url = f"sqlite://{file}"
    SqliteFactory(folder=lambda: old).migrate(url, "bench", time.time, time.monotonic)
    with closing(sqlite3.connect(file)) as filling, filling:
        filling.execute("PRAGMA synchronous = OFF")
        text = _RECORD % ("printf('%032x', n)", _FILLING)
        filling.execute(
            f"WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {records}) "
            f"{_COLUMNS} SELECT n, zeroblob(32), zeroblob(32), {text} FROM c"
        )
    began = time.monotonic()
    subprocess.run(["sqlite3", str(file), f".backup {place}/copy.db"], check=True)
    copied = time.monotonic() - began
    idle = _ours(url, "idle")[1]
    rehearsed, rehearsed_mib = _ours(url, "rehearse")
    migrated, migrated_mib = _ours(url)
    peer = "sqlite3 .backup"
    return [
        less_is_better(f"migration {what}, SQLite", migrated, "s", peer, copied),
        less_is_better("most resident meanwhile", migrated_mib, "MiB", _IDLE, idle),
        less_is_better(f"its rehearsal {what}, SQLite", rehearsed, "s", peer, copied),
        less_is_better("most resident meanwhile", rehearsed_mib, "MiB", _IDLE, idle),
    ]


def _postgresql(old: Path, records: int) -> list[Row]:
    with durable_server() as server:
        url = server.url("postgres")
        factory = PostgresFactory(time.monotonic, folder=lambda: old)
        with closing(psycopg2.connect(url)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute("CREATE DATABASE long")
        url = server.url("long")
        factory.migrate(url, "bench", time.time, time.monotonic)
        with closing(psycopg2.connect(url)) as connection, connection:
            text = _RECORD % ("lpad(to_hex(n), 32, '0')", _FILLING)
            connection.cursor().execute(
                f"SET LOCAL synchronous_commit = off; {_COLUMNS} SELECT n, decode(repeat('00', 32),"
                f" 'hex'), decode(repeat('00', 32), 'hex'), {text} FROM generate_series(1,"
                f" {records}) n"
            )
        began = time.monotonic()
        with closing(psycopg2.connect(server.url("postgres"))) as connection:
            connection.autocommit = True
            connection.cursor().execute("CREATE DATABASE copy TEMPLATE long")
        copied = time.monotonic() - began
        migrated, resident = _ours(url)
        idle = _ours(url, "idle")[1]
    what = f"migration of {records:,} audit records, PostgreSQL"
    return [
        less_is_better(what, migrated, "s", "CREATE DATABASE … TEMPLATE", copied),
        less_is_better("most resident meanwhile", resident, "MiB", _IDLE, idle),
    ]


def _ours(*words: str) -> tuple[float, float]:
    """Seconds and MiB of a process that migrates."""
    done = subprocess.run(
        [sys.executable, "-m", "contrib.bench.migrating", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    secs, mib = done.stdout.split()
    return float(secs), float(mib)


def main() -> None:
    """Migrate, or rehearse; say what it took."""
    url = sys.argv[1]
    factory: Any = store_sqlite if url.startswith("sqlite:") else store_postgresql
    began = time.monotonic()
    if "idle" in sys.argv:
        factory.check(url)
    elif "rehearse" in sys.argv:
        factory.rehearse(url, "bench", time.time, time.monotonic)
    else:
        factory.migrate(url, "bench", time.time, time.monotonic)
    took = time.monotonic() - began
    # Not what getrusage says, which begins with what our parent was.
    status = Path("/proc/self/status").read_text("ascii")
    most = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    print(took, int(most.split()[1]) / 1024)


if __name__ == "__main__":
    main()
