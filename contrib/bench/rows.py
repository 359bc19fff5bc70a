"""A row of the table, and its two forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict, frozen


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
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def write(rows: Sequence[Row], path: Path) -> None:
    """The rows for programs."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", "utf-8")


def _cells(row: Row) -> tuple[str, ...]:
    met = "-" if row.met is None else "yes" if row.met else "no"
    return (
        row.name,
        f"{row.value:.4g}",
        row.unit,
        row.peer,
        f"{row.peer_value:.4g}",
        f"{row.ratio:.2f}",
        row.goal or "-",
        met,
    )
