"""``python -m contrib.recut [--write]``: give the migrations the numbers of docs/migrations.md.

For a commit that re-cuts the sequence (docs/adr/0019).  It renames nothing
before a store made by the present files and one made by the renamed files are the
same; and nothing at all while a migration of the list is missing before a present one.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from svc.model.store.rehearsal import WHOLE, schema_changes
from svc.store.sqlite.connection import open_reader
from svc.store.sqlite.factory import SqliteFactory
from svc.store.sqlite.rehearsal import look

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "docs" / "migrations.md"
FOLDER = ROOT / "migrations"
_LISTED = re.compile(r"^\| `m(\d{4})_([a-z0-9_]+)` \|", re.MULTILINE)
_FILE = re.compile(r"m(\d{4})_([a-z0-9_]+)(\.[a-z.]+)\Z")


@frozen
class Plan:
    """What the re-cut would do.

    Attributes:
        renames: File names, old to new; those that keep theirs are among them.
        missing: Names of the list that come before a present one and are not there.
        unlisted: Names that are there and not in the list.
    """

    renames: Mapping[str, str]
    missing: Sequence[str]
    unlisted: Sequence[str]


def listed(text: str) -> list[str]:
    """The names of the list, in order.

    Raises:
        ValueError: a number is not the one after the one before, or a name comes twice.
    """
    found = _LISTED.findall(text)
    names = [name for _, name in found]
    if [int(number) for number, _ in found] != list(range(1, len(found) + 1)):
        raise ValueError("the numbers of the list have a gap or a double")
    if len(set(names)) != len(names):
        raise ValueError("the list has a name twice")
    return names


def planned(names: Sequence[str], files: Sequence[str]) -> Plan:
    """Where each of *files* goes by the list."""
    places = {name: number for number, name in enumerate(names, 1)}
    there, renames, unlisted = set(), {}, []
    for file in files:
        match = _FILE.match(file)
        if match is None:
            continue
        name = match[2]
        if name in places:
            there.add(name)
            renames[file] = f"m{places[name]:04d}_{name}{match[3]}"
        else:
            unlisted.append(name)
    last = max((places[name] for name in there), default=0)
    missing = [name for name in names[:last] if name not in there]
    return Plan(renames, missing, sorted(set(unlisted)))


def differences(old: Path, new: Path) -> tuple[str, ...]:
    """What a store made by *new* has otherwise than one made by *old*; neither is kept."""
    with tempfile.TemporaryDirectory(prefix="svc-recut-") as directory:
        before, after = (_objects(Path(directory, str(n)), one) for n, one in enumerate((old, new)))
    return schema_changes(before, after)


def _objects(place: Path, folder: Path) -> dict[str, dict[str, str]]:
    """A table by its columns, in whatever order they came; all else by its definition."""
    place.mkdir(mode=0o700)
    factory = SqliteFactory(folder=lambda: folder)
    factory.migrate(f"sqlite://{place}/store.db", "recut", time.time, time.monotonic)
    connection = open_reader(f"{place}/store.db")
    try:
        found = look(connection)
    finally:
        connection.close()
    return {
        name: {
            part: told
            for part, told in parts.items()
            if part != WHOLE or not name.startswith("table ")
        }
        for name, parts in found.objects.items()
    } | {f"rows of table {name}": {"count": str(rows.count)} for name, rows in found.rows.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Say what would be done, or do it; 1 where it cannot be done."""
    options = argparse.ArgumentParser(prog="contrib.recut", description=__doc__)
    options.add_argument("--write", action="store_true", help="rename the files")
    options.add_argument("--list", type=Path, default=LIST)
    options.add_argument("--folder", type=Path, default=FOLDER)
    chosen = options.parse_args(argv)
    files = sorted(path.name for path in chosen.folder.iterdir())
    plan = planned(listed(chosen.list.read_text("utf-8")), files)
    for old, new in plan.renames.items():
        if old != new:
            print(f"{old} -> {new}")
    for name in plan.missing:
        print(f"missing: {name}")
    for name in plan.unlisted:
        print(f"not in the list: {name}")
    if plan.missing or plan.unlisted:
        return 1
    with tempfile.TemporaryDirectory(prefix="svc-recut-") as directory:
        recut = Path(directory)
        for old, new in plan.renames.items():
            shutil.copy(chosen.folder / old, recut / new)
        if found := differences(chosen.folder, recut):
            print(*found, sep="\n")
            return 1
    if chosen.write:
        _rename(chosen.folder, plan)
    return 0


def _rename(folder: Path, plan: Plan) -> None:
    """In two steps: a new name may be another file's present one."""
    for old in plan.renames:
        (folder / old).rename(folder / f"{old}.recut")
    for old, new in plan.renames.items():
        (folder / f"{old}.recut").rename(folder / new)


if __name__ == "__main__":
    sys.exit(main())
