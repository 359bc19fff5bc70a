"""What a rehearsal of migrations found: a pure comparison of a copy before and after them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from svc.model.store.migration import MigrationReport

WHOLE = ""
"""The part of an object that replaces its whole definition; told only where no other differs."""

Objects = Mapping[str, Mapping[str, str]]
"""Of each object (``table persons``, ``index of_a_node``) its parts, such as columns, as texts."""


@frozen
class TableRows:
    """What a table holds, in short.

    Attributes:
        count: Its rows.
        sums: Of each column a sum over its values, the same in whatever order they come;
            comparable within one rehearsal only.
    """

    count: int
    sums: Mapping[str, int]


@frozen
class StoreContents:
    """A store at one moment; the ledger is not among ``rows``."""

    objects: Objects
    rows: Mapping[str, TableRows]


@frozen
class RowChange:
    """A table whose rows are others than before.

    Attributes:
        before: How many there were; None: there was no such table.
        after: How many there are; None: there is no such table any more.
        rewritten: Columns that were there before and hold other values now.
    """

    table: str
    before: int | None
    after: int | None
    rewritten: tuple[str, ...] = ()


@frozen
class RehearsedMigration:
    """The result of one migration on the copy."""

    id: str
    secs: float


@frozen
class Rehearsal:
    """What pending migrations would do.

    Attributes:
        steps: In their order.
        copy_secs: What making the copy took.
        level: The copy's last migration, and ``count`` how many it has.
        schema: Lines beginning with ``+``, ``-`` or ``~``.
    """

    steps: tuple[RehearsedMigration, ...]
    copy_secs: float
    level: str
    count: int
    schema: tuple[str, ...]
    rows: tuple[RowChange, ...]


def schema_changes(before: Objects, after: Objects) -> tuple[str, ...]:
    """One line for each object that is new, gone or another."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            columns = ", ".join(part for part in after[name] if part != WHOLE)
            lines.append(f"+ {name} ({columns})" if columns else f"+ {name}")
        elif name not in after:
            lines.append(f"- {name}")
        else:
            lines += [f"~ {name}: {each}" for each in _parts(before[name], after[name])]
    return tuple(lines)


def _parts(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    found = False
    for part in (*before, *(each for each in after if each not in before)):
        old, new = before.get(part), after.get(part)
        if part == WHOLE or old == new:
            continue
        found = True
        if old is None:
            yield f"+ {part} {new}"
        elif new is None:
            yield f"- {part}"
        else:
            yield f"{part} {old} -> {new}"
    if not found and before.get(WHOLE) != after.get(WHOLE):
        yield "its definition differs"


def row_changes(
    before: Mapping[str, TableRows], after: Mapping[str, TableRows]
) -> tuple[RowChange, ...]:
    """The tables whose rows are others than before; one that is new, or gone, only with rows."""
    changes = []
    for table in sorted(before.keys() | after.keys()):
        old, new = before.get(table), after.get(table)
        if old is None or new is None:
            if (old or new or TableRows(0, {})).count:
                counts = [None if one is None else one.count for one in (old, new)]
                changes.append(RowChange(table, counts[0], counts[1]))
            continue
        rewritten = tuple(
            column for column, value in old.sums.items() if new.sums.get(column, value) != value
        )
        if old.count != new.count or rewritten:
            changes.append(
                RowChange(table=table, before=old.count, after=new.count, rewritten=rewritten)
            )
    return tuple(changes)


def rehearsed(
    before: StoreContents,
    after: StoreContents,
    steps: Sequence[RehearsedMigration],
    copy_secs: float,
    report: MigrationReport,
) -> Rehearsal:
    """The report of a rehearsal."""
    return Rehearsal(
        steps=tuple(steps),
        copy_secs=copy_secs,
        level=report.level,
        count=report.count,
        schema=schema_changes(before.objects, after.objects),
        rows=row_changes(before.rows, after.rows),
    )
