"""With SVC_LONG=1: PostgreSQL's regression scripts by its own psql, direct and through the gate."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psycopg2
from attrs import frozen

from svc.testing.gateway.settings import POLICY
from tests.fault.tally import in_long_form
from tests.kinds.postgres.regress import scripts
from tests.support.postgres import connected
from tests.system.databases import DatabaseCase, programs_of_18

RUN_BY = "make fault LONG=1"

OF_THE_CLUSTER = frozenset({"tablespace", "test_setup"})
"""They make what all databases of a server share: no second run finds what the first did."""

ENDED = "(reason: reading_changed)"
READING = frozenset({"copyencoding", "plpgsql", "strings"})
"""They give ``client_encoding`` or ``standard_conforming_strings`` another value, which ends a
session: its output is the beginning of the server's own."""

NO_NAME = 'prepared statement "svc_unknown" does not exist'
"""In place of the client's own name of a statement that is not there."""

VARIABLES = ("-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on")
SECONDS = 300


@frozen
class Place:
    """Where psql connects to."""

    host: str
    port: str


def said(script: str, database: str, place: Place) -> list[str]:
    """What psql prints of a script, with its errors in their places."""
    psql = str(programs_of_18() / "psql")
    words = [psql, "-X", "-w", "-a", "-q", *VARIABLES, "-h", place.host, "-p", place.port]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    done = subprocess.run(
        [*words, "-U", "app", "-d", database],
        input=script.encode("utf-8", "surrogateescape"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environ, "PGSSLMODE": "disable"},
        timeout=SECONDS,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace").splitlines()


def differs(name: str, direct: list[str], through: list[str]) -> str:
    """The first line that no explanation covers; empty where there is none."""
    if name in READING:
        ended = [at for at, line in enumerate(through) if ENDED in line]
        if not ended:
            return "its session did not end"
        direct, through = direct[: ended[0]], through[: ended[0]]
    if len(direct) != len(through):
        return f"{len(direct)} lines, and {len(through)} through the gate"
    wrong = (
        f"{ours}  (in place of: {theirs})"
        for theirs, ours in zip(direct, through, strict=True)
        if ours != theirs and NO_NAME not in ours
    )
    return next(wrong, "")


@in_long_form
class RegressionScripts(DatabaseCase):
    """PostgreSQL 18, a role that may do everything, and a policy that allows it."""

    has_tls = False

    def programs(self) -> Path:
        """See the base."""
        return programs_of_18()

    def test_scripts(self) -> None:
        """Every script prints the same, line for line, but for what the documentation says."""
        self.gateway.set_policy(POLICY)
        direct = Place(str(self.server.directory), self.port)
        through = Place(*map(str, self.where()))
        self.run_sql(
            "ALTER ROLE app SUPERUSER",
            "CREATE DATABASE prepared OWNER app TEMPLATE template0 LOCALE 'C' ENCODING 'UTF8'",
        )
        every = scripts()
        said(every["test_setup"], "prepared", direct)
        wrong, lines = [], 0
        for name in sorted(every.keys() - OF_THE_CLUSTER):
            told = []
            for place in (direct, through):
                self.begin_again()
                told.append(said(every[name], "regression", place))
            lines += len(told[0])
            if found := differs(name, *told):
                wrong.append(f"{name}: {found}")
        sys.stdout.write(f"{len(every)} scripts, {lines} lines\n")
        self.assertEqual(wrong, [])

    def begin_again(self) -> None:
        """A database as it was, and no role of a script before."""
        self.run_sql(
            "DROP DATABASE IF EXISTS regression WITH (FORCE)",
            "CREATE DATABASE regression OWNER app TEMPLATE prepared",
        )
        with connected(self.url) as cursor:
            cursor.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'regress%'")
            left = [name for (name,) in cursor.fetchall()]
        for name in left:
            with contextlib.suppress(psycopg2.Error):  # it owns something that all share
                self.run_sql(f'DROP ROLE "{name}"')

    def run_sql(self, *texts: str) -> None:
        """Each in a transaction of its own, as the server's owner."""
        with connected(self.url) as cursor:
            for text in texts:
                cursor.execute(text)
