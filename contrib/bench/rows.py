"""A row of the table, and its two forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict, frozen

from contrib.bench.build import this_build


@frozen
class Goal:
    """What a row is to reach; both limits where both are given.

    Attributes:
        ratio: The least ratio to the peer.
        value: The figure itself: the most of it, or the least where there should be much.
    """

    ratio: float | None = None
    value: float | None = None


NO_GOAL = Goal()


@frozen
class Table:
    """Figures that belong together, where a row for each would be too many."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]

    def text(self) -> str:
        """For people, aligned, its title above it."""
        return f"{self.title}\n{_aligned([self.head, *self.lines])}"


@frozen
class Row:
    """One figure beside its peer's.

    Attributes:
        ratio: Ours to the peer's, the way that above 1 is better for us.
        goal: As the table shows it; empty where the row has none.
        met: Whether the goal is reached; None where the row has none.
    """

    name: str
    value: float
    unit: str
    peer: str
    peer_value: float
    ratio: float
    goal: str = ""
    met: bool | None = None


def more_is_better(
    name: str, value: float, unit: str, peer: str, peer_value: float, goal: Goal = NO_GOAL
) -> Row:
    """A row of something there should be much of."""
    met = goal.value is None or value >= goal.value
    return _row(name, value, unit, peer, peer_value, value / peer_value, goal, "≥", met)


def less_is_better(
    name: str, value: float, unit: str, peer: str, peer_value: float, goal: Goal = NO_GOAL
) -> Row:
    """A row of something there should be little of."""
    met = goal.value is None or value <= goal.value
    return _row(name, value, unit, peer, peer_value, peer_value / value, goal, "≤", met)


def _row(
    name: str,
    value: float,
    unit: str,
    peer: str,
    peer_value: float,
    ratio: float,
    goal: Goal,
    sign: str,
    is_met: bool,
) -> Row:
    words = []
    if goal.ratio is not None:
        words.append(f"≥ {goal.ratio:g} times")
        is_met = is_met and ratio >= goal.ratio
    if goal.value is not None:
        words.append(f"{sign} {goal.value:g} {unit}")
    met = is_met if words else None
    return Row(
        name=name,
        value=value,
        unit=unit,
        peer=peer,
        peer_value=peer_value,
        ratio=ratio,
        goal=", ".join(words),
        met=met,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows for people, aligned."""
    head = ("figure", "ours", "unit", "peer", "peer's", "ratio", "goal", "met")
    return _aligned([head, *(_cells(row) for row in rows)])


def shown(value: float) -> str:
    """A figure for people: four digits, or the whole of a large one."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _aligned(cells: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def write(rows: Sequence[Row], tables: Sequence[Table], path: Path) -> None:
    """The rows and tables for programs, and how the interpreter was built that made them."""
    document = {
        "interpreter": asdict(this_build()),
        "rows": [asdict(row) for row in rows],
        "tables": [asdict(one) for one in tables],
    }
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _cells(row: Row) -> tuple[str, ...]:
    met = "-" if row.met is None else "yes" if row.met else "no"
    return (
        row.name,
        f"{shown(row.value)}{this_build().mark}",
        row.unit,
        row.peer,
        shown(row.peer_value),
        f"{row.ratio:.2f}",
        row.goal or "-",
        met,
    )
