"""Keeps the PostgreSQL server of a run of the tests: ``postgres_guard PROGRAMS TOLD PID``.

Starts it, writes its directory to the file TOLD, and removes it, TOLD and TOLD's directory when
the process PID has ended.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from pathlib import Path

from svc.testing.gateway.postgres import PostgresServer


def keep(programs: Path, told: Path, pid: int) -> None:
    """Keep a server for as long as a process lives."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # of the terminal; the run's end is what counts
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    run = os.pidfd_open(pid)
    server = PostgresServer.made(programs)
    try:
        server.start()
        draft = told.with_suffix(".draft")
        draft.write_text(str(server.directory), "utf-8")
        draft.rename(told)
        select.select([run], [], [])
    finally:
        server.remove()
        shutil.rmtree(told.parent, ignore_errors=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
