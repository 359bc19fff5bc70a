"""What it costs that each request is decided and recorded: statements, web requests, API calls.

The peer is the same path with nothing decided in it, in the same run: for statements and calls the
session of a ``tcp`` resource in the tunnel, for web requests three processes that parse HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from contrib.bench import peers
from contrib.bench.figures import TUNNEL
from contrib.bench.ours import Ours
from contrib.bench.pgbench import Database, statements
from contrib.bench.rows import NO_GOAL, Goal, Row, Table, less_is_better
from contrib.bench.trips import Sessions, opened
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns
from contrib.bench.ways import NO_RELAY, Way
from svc.testing.gateway.postgres import USER
from svc.testing.gateway.settings import GatewayTarget

DURABLE, BUFFERED = "gate, durable", "gate, buffered"
_HOPS = "h11, three TLS hops"
_SIZE = 100
_SESSIONS = (1, 16)
_KEPT = (Goal(ratio=0.9), NO_GOAL)
_BOTH = {(DURABLE, BUFFERED): (Goal(ratio=0.7), NO_GOAL), (BUFFERED, TUNNEL): _KEPT}
_STATEMENTS: tuple[tuple[tuple[str, ...], bool, Mapping[tuple[str, str], tuple[Goal, Goal]]], ...]
_STATEMENTS = (
    (("-S", "-M", "prepared", "-c", "16"), True, _BOTH),
    (("-S", "-M", "simple", "-c", "16"), True, {(BUFFERED, TUNNEL): (Goal(ratio=0.6), NO_GOAL)}),
    (("-S", "-M", "prepared", "-c", "1"), False, {(BUFFERED, TUNNEL): _KEPT}),
    (("-M", "prepared", "-c", "16"), False, {(BUFFERED, TUNNEL): _KEPT}),
)
"""Words of pgbench, whether the quick form has them too, and what they are to reach."""


@frozen
class Targets:
    """What the gates stand before.

    Attributes:
        http: The port of a server that answers ``GET /SIZE``.
        token: A file with what the API is told of the Connector.
    """

    postgres: int
    http: int
    token: Path

    @property
    def decided(self) -> list[GatewayTarget]:
        """As resources whose requests are decided."""
        http = f"127.0.0.1:{self.http}"
        return [
            GatewayTarget(
                "orders",
                f"127.0.0.1:{self.postgres}",
                "postgres",
                more={"tls": "off", "auth": "trust"},
            ),
            GatewayTarget("board", http, "web"),
            GatewayTarget("prod", http, "kube", more={"tls": "off", "token_file": str(self.token)}),
            GatewayTarget("plain", http),
            GatewayTarget("database", f"127.0.0.1:{self.postgres}"),
        ]


def token_file(directory: Path) -> Path:
    """A credential of the Connector's, as such a file has to be."""
    path = directory / "token"
    path.touch(0o600)
    path.write_text("bench", "ascii")
    return path


def measure_statements(
    database: Database, gates: Mapping[str, Ours], scale: Scale
) -> tuple[list[Table], list[Row]]:
    """``pgbench`` through each gate, and through the first one's tunnel.

    Args:
        gates: A gateway for :data:`DURABLE` and one for :data:`BUFFERED`.
    """
    first = next(iter(gates.values()))
    ways = {
        NO_RELAY: Way(("127.0.0.1", database.port), {}),
        TUNNEL: Way(first.ports["database"], first.processes, is_ours=True),
    }
    for name, ours in gates.items():
        ways[name] = Way(ours.ports["orders"], ours.processes, is_ours=True)
    tables, rows = [], []
    for words, is_quick, goals in _STATEMENTS:
        if scale.is_quick and not is_quick:
            continue
        turns = in_turns(ways, scale.rounds, partial(statements, database, words))
        case = Case(name=f"pgbench {' '.join(words)}, as {USER}", unit="/s", goals=goals)
        table, met = compared(case, ways, turns)
        tables.append(table)
        rows += met
    return tables, rows


def measure_requests(
    targets: Targets, gates: Mapping[str, Ours], directory: Path, scale: Scale
) -> tuple[list[Table], list[Row]]:
    """Web requests and calls of an API over connections that are kept.

    Raises:
        Missing: there is no h11.
    """
    tables, rows = [], []
    with _ways(targets, gates, directory) as ways:
        for count in _SESSIONS[:1] if scale.is_quick else _SESSIONS:
            table, met, turns = _requests(ways, count, scale)
            tables.append(table)
            rows += met
            if count == 1:
                for what, most in _ADDED.items():
                    rows.append(_added(f"{what}, {DURABLE}", turns, NO_RELAY, Goal(value=most)))
                rows += [_added(f"web request, {name}", turns, _HOPS, NO_GOAL) for name in gates]
    return tables, rows


_ADDED = {"web request": 1.5, "kubectl get": 2.0}
"""Milliseconds that the median may be longer than without a relay."""


@contextmanager
def _ways(
    targets: Targets, gates: Mapping[str, Ours], directory: Path
) -> Iterator[Mapping[str, Way]]:
    with peers.h11_chain(directory, targets.http) as hops:
        first = next(iter(gates.values()))
        names = ("hop 1", "hop 2", "hop 3")
        ways = {
            NO_RELAY: Way(("127.0.0.1", targets.http), {}),
            _HOPS: Way(("127.0.0.1", hops.port), dict(zip(names, hops.pids, strict=True))),
            TUNNEL: Way(first.ports["plain"], first.processes, is_ours=True),
        }
        for name, ours in gates.items():
            ways[f"web request, {name}"] = Way(ours.ports["board"], ours.processes, is_ours=True)
            ways[f"kubectl get, {name}"] = Way(ours.ports["prod"], ours.processes, is_ours=True)
        yield ways


def _requests(
    ways: Mapping[str, Way], count: int, scale: Scale
) -> tuple[Table, list[Row], dict[str, list[Turn]]]:
    with ExitStack() as ending:
        held = {
            name: ending.enter_context(opened(way, "http", count)) for name, way in ways.items()
        }
        measured: Callable[[Sessions], Turn] = partial(
            Sessions.turn, size=_SIZE, seconds=scale.seconds
        )
        turns = in_turns(held, scale.rounds, measured)
    goal = Goal(ratio=0.7)
    goals = {(f"web request, {name}", _HOPS): (goal, goal) for name in (DURABLE, BUFFERED)}
    case = Case(name=f"requests of {_SIZE} bytes, {count} at once", unit="/s", goals=goals)
    table, rows = compared(case, ways, turns)
    return table, rows, turns


def _added(name: str, turns: Mapping[str, list[Turn]], than: str, goal: Goal) -> Row:
    """How much longer the best median of a way is than that of another."""
    p50 = {
        way: min(turn.spread[0] for turn in each if turn.spread is not None)
        for way, each in turns.items()
    }
    added = max(p50[name] - p50[than], 0.001)
    return less_is_better(f"{name}, added p50", added, "ms", than, p50[than], goal)
