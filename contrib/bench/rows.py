"""A row of the table, and its two forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict, frozen


@frozen
class Row:
    """One figure beside its peer's.

    Attributes:
        ratio: Ours to the peer's, the way that above 1 is better for us.
    """

    name: str
    value: float
    unit: str
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None


def more_is_better(name: str, value: float, unit: str, peer: str, peer_value: float) -> Row:
    """A row of something there should be much of."""
    return Row(name, value, unit, peer, peer_value, value / peer_value)


def less_is_better(name: str, value: float, unit: str, peer: str, peer_value: float) -> Row:
    """A row of something there should be little of."""
    return Row(name, value, unit, peer, peer_value, peer_value / value)


def table(rows: Sequence[Row]) -> str:
    """The rows for people, aligned."""
    head = ("figure", "ours", "unit", "peer", "peer's", "ratio")
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
    peer_value = "-" if row.peer_value is None else f"{row.peer_value:.4g}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    return (row.name, f"{row.value:.4g}", row.unit, row.peer or "-", peer_value, ratio)
