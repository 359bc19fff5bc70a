"""``pgbench -S`` through a ``tcp`` resource: statements of people who work on a database."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from contrib.bench.figures import DIRECT
from contrib.bench.peers import Missing, tool
from contrib.bench.rows import NO_GOAL, Goal, Row, Table
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns, used_by
from contrib.bench.ways import SSH, Way
from svc.testing.gateway.postgres import SETTINGS, USER, PostgresServer, find_programs

_HOST_ACCESS = "host all all 127.0.0.1/32 trust\n"
_DONE = re.compile(r"transactions actually processed: (\d+)")
_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
_SECONDS = 3
"""Of a turn.  pgbench leaves connecting out of its rate, but sessions move to lanes within it:
of one second that is much, and statements over connections that stay are what the row is about."""
_Goals = Mapping[tuple[str, str], tuple[Goal, Goal]]
_CASES: tuple[tuple[tuple[str, ...], _Goals], ...] = (
    (("-S", "-c", "8"), {(DIRECT, SSH): (Goal(ratio=0.65), NO_GOAL)}),
    (("-S", "-C", "-c", "8", "-j", "8"), {(DIRECT, SSH): (Goal(ratio=0.5), NO_GOAL)}),
)
_MORE_CASES: tuple[tuple[tuple[str, ...], _Goals], ...] = (
    (("-S", "-c", "1"), {}),
    (("-S", "-C", "-c", "1"), {}),
)


@frozen
class Database:
    """A server with pgbench's tables in it.

    Attributes:
        pgbench: The program.
    """

    port: int
    pgbench: str


def measure(
    database: Database, ways: Mapping[str, Way], scale: Scale
) -> tuple[list[Table], list[Row]]:
    """Selects over sessions that stay, and each over a session of its own (``-C``).

    The CPU time has the opening of the sessions in it.

    Args:
        ways: To the port of *database*.
    """
    tables, rows = [], []
    for words, goals in (*_CASES, *(() if scale.is_quick else _MORE_CASES)):
        name = f"pgbench {' '.join(words)}"
        rounds = 1 if scale.is_quick and "-C" in words else scale.rounds
        turns = in_turns(ways, rounds, partial(statements, database, words))
        table, met = compared(Case(name=name, unit="/s", goals=goals), ways, turns)
        tables.append(table)
        rows += met
    return tables, rows


def statements(database: Database, words: Sequence[str], way: Way) -> Turn:
    """Some seconds of pgbench over a way, with these words on its command line."""
    before = way.cpu_seconds()
    said = _ran(database.pgbench, way.address, ("-n", *words, "-T", str(_SECONDS)))
    after = way.cpu_seconds()
    done, tps = _DONE.search(said), _TPS.search(said)
    if done is None or tps is None or not int(done[1]):
        raise AssertionError(f"pgbench said no rate:\n{said}")
    return Turn(value=float(tps[1]), cpu=used_by(way, before, after, int(done[1])))


@contextmanager
def serving(port: int) -> Iterator[Database]:
    """A server on a loopback port.

    Raises:
        Missing: there is none, or no pgbench.
    """
    programs = find_programs()
    if programs is None:
        raise Missing("PostgreSQL")
    beside = programs / "pgbench"
    pgbench = str(beside) if beside.exists() else tool("pgbench")
    more = {"listen_addresses": "127.0.0.1", "port": str(port)}
    server = PostgresServer.made(programs, {**SETTINGS, **more})
    try:
        with (Path(server.directory) / "data" / "pg_hba.conf").open("a", encoding="ascii") as file:
            file.write(_HOST_ACCESS)
        server.start()
        _ran(pgbench, ("127.0.0.1", port), ("-i", "-q"))
        yield Database(port, pgbench)
    finally:
        server.remove()


_DATABASE = "dbname=postgres sslmode=disable"
"""Without TLS on this machine, which the server does not have and the resident's endpoint has."""


def _ran(pgbench: str, address: tuple[str, int], words: Sequence[str]) -> str:
    host, port = address
    command = [pgbench, "-h", host, "-p", str(port), "-U", USER, *words, _DATABASE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
