"""A WebSocket ping and its pong: what a page that keeps a connection open waits for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from attrs import evolve

from contrib.bench.figures import DIRECT
from contrib.bench.rows import NO_GOAL, Goal, Row, Table
from contrib.bench.trips import Sessions, opened
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns
from contrib.bench.ways import SSH, Way

_PAYLOAD = 8
_CASE = Case(
    name=f"WebSocket ping of {_PAYLOAD} bytes, p50",
    unit="ms",
    goals={(DIRECT, SSH): (Goal(value=0.4), NO_GOAL)},
)


def measure(ways: Mapping[str, Way], scale: Scale) -> tuple[list[Table], list[Row]]:
    """Pings over one session of each way.

    Args:
        ways: To a port that answers WebSocket pings.
    """
    with ExitStack() as ending:
        held = {
            name: ending.enter_context(opened(way, "websocket", 1)) for name, way in ways.items()
        }
        turns = in_turns(held, scale.rounds, partial(_turn, seconds=scale.seconds))
    table, rows = compared(_CASE, ways, turns)
    return [table], rows


def _turn(sessions: Sessions, seconds: float) -> Turn:
    found = sessions.turn(_PAYLOAD, seconds)
    assert found.spread is not None
    return evolve(found, value=found.spread[0])
