"""Ways measured in turns, and what a table says of them.

Each round gives every way a short turn, every second round in the other order, so that a machine
that is slower for a while is slower for all of them.  A ratio compares the best turns of two ways
and their medians: where these differ much, the machine was not quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from attrs import frozen

from contrib.bench.build import this_build
from contrib.bench.rows import NO_GOAL, Goal, Row, Table, less_is_better, more_is_better, shown
from contrib.bench.ways import CHAIN, HOPS, NO_RELAY, SSH, Way

_PEERS = (NO_RELAY, SSH, CHAIN, HOPS)
_HEADS = ("to no relay", "to ssh -L", "to ssh chain", "to HAProxy")
_T = TypeVar("_T")


@frozen
class Scale:
    """How much is measured.

    Attributes:
        rounds: Turns of each way.
        seconds: Of a turn that lasts for a time.
        is_quick: Only the cases that have a goal.
    """

    rounds: int
    seconds: float
    is_quick: bool = False


FULL = Scale(rounds=3, seconds=1.0)
QUICK = Scale(rounds=2, seconds=0.3, is_quick=True)


@frozen
class Turn:
    """What one turn of a way found.

    Attributes:
        value: How many a second, or the median of their milliseconds.
        cpu: CPU microseconds for each one, by process.
        spread: Milliseconds of the median and of the 99th of a hundred, where they were taken.
    """

    value: float
    cpu: Mapping[str, float]
    spread: tuple[float, float] | None = None

    @property
    def cpu_micros(self) -> float:
        """Of all processes."""
        return sum(self.cpu.values())


@frozen
class Case:
    """What is measured, and what it is to reach.

    Attributes:
        unit: ``/s``, where more is better, or ``ms``.
        goals: By way and peer: of the figure and of the CPU time.
    """

    name: str
    unit: str
    goals: Mapping[tuple[str, str], tuple[Goal, Goal]] = {}

    def best(self, turns: Sequence[Turn]) -> float:
        """Of the figures of some turns."""
        values = [turn.value for turn in turns]
        return max(values) if self.unit == "/s" else min(values)

    def ratio(self, ours: float, theirs: float) -> float:
        """Above 1 where ours is better."""
        return ours / theirs if self.unit == "/s" else theirs / ours


def in_turns(
    ways: Mapping[str, _T], rounds: int, measure: Callable[[_T], Turn]
) -> dict[str, list[Turn]]:
    """The turns of each way."""
    found: dict[str, list[Turn]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            found[name].append(measure(ways[name]))
    return found


def used_by(
    way: Way, before: Mapping[str, float], after: Mapping[str, float], count: int
) -> dict[str, float]:
    """CPU microseconds for each of *count*, by process."""
    return {name: (after[name] - before[name]) * 1e6 / count for name in way.processes}


def compared(
    case: Case, ways: Mapping[str, Way], turns: Mapping[str, Sequence[Turn]]
) -> tuple[Table, list[Row]]:
    """A line for each way, and a row for each goal whose peer was measured."""
    heads = ("way", "best", "median", "p50 ms", "p99 ms", *_HEADS, "CPU µs", "CPU µs by process")
    lines = [_line(case, name, ways[name], turns) for name in turns]
    rounds = len(next(iter(turns.values())))
    unit = "a second" if case.unit == "/s" else "ms"
    title = f"{case.name}: {unit}, {rounds} turns; a ratio is that of the bests / of the medians"
    return Table(title=title, head=heads, lines=lines), _rows(case, turns)


def _line(case: Case, name: str, way: Way, turns: Mapping[str, Sequence[Turn]]) -> tuple[str, ...]:
    mark = this_build().mark if way.is_ours else ""
    mine = turns[name]
    middle = median(turn.value for turn in mine)
    spreads = [turn.spread for turn in mine if turn.spread is not None]
    times = (f"{median(each):.3g}{mark}" for each in zip(*spreads, strict=True))
    cpu = {part: median(turn.cpu[part] for turn in mine) for part in way.processes}
    return (
        name,
        f"{shown(case.best(mine))}{mark}",
        f"{shown(middle)}{mark}",
        *(times if spreads else ("-", "-")),
        *(_ratios(case, mine, turns.get(peer)) if peer != name else "-" for peer in _PEERS),
        f"{shown(sum(cpu.values()))}{mark}" if cpu else "-",
        ", ".join(f"{part} {shown(float(f'{used:.3g}'))}" for part, used in cpu.items()) or "-",
    )


def _ratios(case: Case, mine: Sequence[Turn], theirs: Sequence[Turn] | None) -> str:
    if theirs is None:
        return "-"
    best = case.ratio(case.best(mine), case.best(theirs))
    middles = (median(turn.value for turn in each) for each in (mine, theirs))
    return f"{best:.2f}/{case.ratio(*middles):.2f}"


def _rows(case: Case, turns: Mapping[str, Sequence[Turn]]) -> list[Row]:
    found = []
    better = more_is_better if case.unit == "/s" else less_is_better
    for (way, peer), (goal, cpu_goal) in case.goals.items():
        if way not in turns or peer not in turns:
            continue
        name, mine, theirs = f"{case.name}, {way}", turns[way], turns[peer]
        if goal != NO_GOAL:
            values = case.best(mine), case.best(theirs)
            found.append(better(name, values[0], case.unit, peer, values[1], goal))
        if cpu_goal != NO_GOAL:
            used = [median(turn.cpu_micros for turn in each) for each in (mine, theirs)]
            found.append(less_is_better(f"{name}, CPU", used[0], "µs", peer, used[1], cpu_goal))
    return found
