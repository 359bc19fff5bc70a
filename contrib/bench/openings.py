"""Opening a session: from the connect to the first byte back, one by one and many at once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from contrib.bench import peers
from contrib.bench.ends import round_trip
from contrib.bench.rows import NO_GOAL, Goal, Row, Table, less_is_better
from contrib.bench.turns import Case, Scale, Turn, compared, in_turns, used_by
from contrib.bench.ways import SSH, Way

GATEWAY = "gateway"
_AT_ONCE = 16
_ALONE, _ALONE_QUICK = 60, 15
_MANY, _MANY_QUICK = 240, 80
_WARM = 10
_JUMPS = 8
_ONE_BY_ONE = Case(
    name="opening, p50",
    unit="ms",
    goals={(GATEWAY, SSH): (Goal(value=10), Goal(value=15_000))},
)
_TOGETHER = Case(
    name=f"openings, {_AT_ONCE} at once",
    unit="/s",
    goals={(GATEWAY, SSH): (Goal(value=250), NO_GOAL)},
)


def measure(
    ssh: peers.Ssh | None, ways: Mapping[str, Way], scale: Scale
) -> tuple[list[Table], list[Row]]:
    """Openings over each way, with the CPU time of one.

    Args:
        ways: To the sink; ours is :data:`GATEWAY`.
    """
    alone, many = (_ALONE_QUICK, _MANY_QUICK) if scale.is_quick else (_ALONE, _MANY)
    for way in ways.values():
        for _ in range(_WARM):
            round_trip(way.address)
    one_by_one = in_turns(ways, scale.rounds, partial(opened, count=alone))
    together = in_turns(ways, scale.rounds, partial(_opened_at_once, count=many))
    tables, rows = [], []
    for case, turns in ((_ONE_BY_ONE, one_by_one), (_TOGETHER, together)):
        table, met = compared(case, ways, turns)
        tables.append(table)
        rows += met
    if ssh is not None:
        jump = min(_jump(ssh) for _ in range(3 if scale.is_quick else _JUMPS))
        p50, p99 = (min(each) for each in zip(*_spreads(one_by_one[GATEWAY]), strict=True))
        goal = Goal(ratio=10, value=8)
        rows.append(less_is_better("opening, p50", p50, "ms", "ssh -J", jump, goal))
        rows.append(less_is_better("opening, p99", p99, "ms", "ssh -J", jump, Goal(value=25)))
    return tables, rows


def _spreads(turns: Sequence[Turn]) -> list[tuple[float, float]]:
    return [turn.spread for turn in turns if turn.spread is not None]


def opened(way: Way, count: int) -> Turn:
    """Sessions opened one after another."""
    before = way.cpu_seconds()
    took = sorted(round_trip(way.address) for _ in range(count))
    after = way.cpu_seconds()
    spread = took[count // 2], took[int(0.99 * count)]
    return Turn(value=spread[0], cpu=used_by(way, before, after, count), spread=spread)


def _opened_at_once(way: Way, count: int) -> Turn:
    before = way.cpu_seconds()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        began = time.perf_counter()
        took = sorted(pool.map(lambda _: round_trip(way.address), range(count)))
        whole = time.perf_counter() - began
    after = way.cpu_seconds()
    spread = took[count // 2], took[int(0.99 * count)]
    return Turn(value=count / whole, cpu=used_by(way, before, after, count), spread=spread)


def _jump(ssh: peers.Ssh) -> float:
    """Milliseconds of a command on a host behind a jump host."""
    words = [peers.tool("ssh"), "-F", str(ssh.config), "-J", "jump", "target", "true"]
    began = time.perf_counter()
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return (time.perf_counter() - began) * 1000
