"""What commands print: one form for people, one for programs.

Pure.  Command data goes to stdout and nothing else does; whatever a peer may
have chosen (names, labels, reasons) is escaped before a terminal sees it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from svc.telemetry.escape import escaped

NOTHING = "-"
"""What an empty value looks like to a person."""


def moment(seconds: float) -> str:
    """A time in UTC to the second; empty for 0, which stands for never."""
    if not seconds:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def labels(pairs: Mapping[str, str]) -> str:
    """Labels in the form in which they are typed, in order of their keys."""
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Aligned lines, the heads first; the last column is not padded."""
    shown = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[at]) for line in shown) for at in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in shown
    ]


def pairs(rows: Iterable[tuple[str, object]]) -> list[str]:
    """One line a fact, the names padded to one width."""
    cells = [(escaped(name), _cell(value)) for name, value in rows]
    width = max(len(name) for name, _ in cells)
    return [f"{name.ljust(width)}  {value}" for name, value in cells]


def with_nulls(value: Any) -> Any:
    """*value* with null wherever there is no text: an empty one says that nothing is known."""
    if isinstance(value, dict):
        return {name: with_nulls(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_nulls(each) for each in value]
    return None if value == "" else value


def document(value: object) -> str:
    """One JSON document, ASCII only, so that no terminal obeys what it holds."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
"""Every command that ends with a result takes it; :func:`tell` prints the one or the other."""


def print_result(
    as_json: bool, value: object, lines: Iterable[str], hints: Iterable[str] = ()
) -> None:
    """The result of a command: *value* for programs, or *lines* and *hints* for people.

    The names in *value* are among those of ``contrib/reference/json_names.py``, which the page of
    the commands lists; times are RFC 3339 in UTC.
    """
    if as_json:
        print_lines([document(value)])
        return
    print_lines(lines)
    hint(hints)


def print_list(
    as_json: bool, value: object, heads: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """A list: *value* for programs, or its rows under *heads* for people; tells an empty one."""
    lines = table(heads, rows) if rows else ()
    print_result(as_json, value, lines, () if rows else ("no rows",))


def print_lines(lines: Iterable[str]) -> None:
    """Command data, on stdout."""
    for line in lines:
        click.echo(line)


def write(lines: Iterable[str]) -> None:
    """Command data of any length, on stdout; flushed when a line cannot be made, too."""
    stream = sys.stdout
    try:
        for line in lines:
            stream.write(f"{line}\n")
    finally:
        stream.flush()


def hint(lines: Iterable[str], *, is_for_others: bool = False) -> None:
    """What is meant for the person at the terminal, on stderr.

    Args:
        is_for_others: Whether other people type the commands in it, with options of their own;
            otherwise they get the options that were typed here.
    """
    from svc.cli.next_commands import completed

    for line in lines:
        click.echo(line if is_for_others else completed(line), err=True)


def _cell(value: object) -> str:
    if isinstance(value, (list, tuple)):
        value = ",".join(str(each) for each in value)
    return escaped("" if value is None else str(value)) or NOTHING
