"""Migrates stores and dies on the way: ``mortal``, then lines of ``URL STEP`` on its stdin.

For each line a child is forked that migrates the store and kills itself at that step: before a
statement, before a commit, after it; over PostgreSQL also once a statement was sent and not yet
answered.  A line of its status answers: -9, or 0 where there was no such step any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from attrs import define

from svc.plugins.store_postgresql import store_postgresql
from svc.plugins.store_sqlite import store_sqlite
from svc.store.postgres import connect
from svc.store.postgres.connection import PostgresConnection
from svc.store.sqlite import factory
from svc.store.sqlite.connection import SqliteDatabase
from svc.testing.gateway.processes import die_with_parent
from tests.store.places import ROOT

_left = 0


def _step() -> None:
    global _left
    _left -= 1
    if _left < 0:
        os.kill(os.getpid(), signal.SIGKILL)


class MortalFile(SqliteDatabase):
    """A file."""

    def change(self, sql: str, *values: object) -> int:
        """See ``Statements``."""
        _step()
        return super().change(sql, *values)

    def commit(self) -> None:
        """See ``Database``."""
        _step()
        super().commit()
        _step()


class MortalConnection(PostgresConnection):
    """A connection to a database; every message over it is two steps."""

    def ask(self, sql: str) -> Any:
        """See :class:`PostgresConnection`."""
        _step()
        self._cursor.execute(sql)
        _step()
        self._wait()
        return self._cursor


def serve() -> None:
    """Answer line after line."""
    global _left
    for line in sys.stdin:
        url, step = line.split()
        pid = os.fork()
        if pid == 0:
            _left = int(step)
            store: Any = store_sqlite if url.startswith("sqlite:") else store_postgresql
            store.migrate(url, "mortal", time.time, time.monotonic)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


@define(eq=False)
class Mortal:
    """The process, for a test."""

    process: subprocess.Popen[str]

    @classmethod
    def started(cls) -> Mortal:
        """Ready for lines."""
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", "tests.fault.mortal"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=die_with_parent,
            )
        )

    def migrate(self, url: str, step: int) -> bool:
        """Migrate a store; whether the process was killed on the way."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{url} {step}\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        assert status in (0, -signal.SIGKILL), status
        return status != 0

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


if __name__ == "__main__":
    vars(factory)["SqliteDatabase"] = MortalFile
    vars(connect)["PostgresConnection"] = MortalConnection
    serve()
