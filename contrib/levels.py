"""``python -m contrib.levels --config FILE --at N``: a store of an earlier level, with rows.

Makes the store of an Authority as a build of level N (74 to the last migration) would have left
it: the migrations up to N and no more, and rows in every table.  Protected rows are signed with
the keys of the cluster that ``svc init`` made, so an Authority starts over it once it is migrated.

    svc init gate
    python -m contrib.levels --config gate/authority.toml --at 74 [--store-url URL]
    svc --config gate/authority.toml authority store migrate --check

The Authority must not run, and must not have run: its signed heads would say that this store is
another one.  Rows are written by this build's own code into a store of the last level, of which
then only what level N has is taken.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from contrib.level_cluster import Cluster, finished
from contrib.level_life import Life
from svc.errors import SvcError
from svc.interfaces.store import IStoreFactory, StoreNeeds
from svc.model.audit.record import chain_hash
from svc.ops.store import StorePlace, store_place
from svc.plugin import load
from svc.store.migrate import Migration, apply_pending, discover, migrations_folder
from svc.store.sqlite.connection import SqliteDatabase, open_memory, read_ledger
from svc.store.sqlite.copy import SqliteCopy, tables
from svc.store.sqlite.store import MemoryStore

FIRST = 74
"""Levels before it were never a release's, and the numbers of some rows came after them."""

FORMER: Mapping[tuple[str, str], tuple[str, str]] = {
    ("resources", "assigned_to"): (
        "text",
        (
            "SELECT i.resource_id, b.node_id FROM resource_identities i JOIN manual_bindings b"
            " ON b.identity = i.identity AND b.state = 'current' WHERE i.retired_at IS NULL"
        ),
    ),
}
"""Of a column that a later level has no more (table, column): its kind, and a query over a store of
the last level that gives the value it had by the value of the table's first column."""

Former = Mapping[tuple[str, str], tuple[str, Mapping[Any, Any]]]

_SIGNED = "audit_origins"
"""From the level that has this table on, rows of the audit queue are signed by who wrote them."""


def migrations() -> tuple[Migration, ...]:
    """Those of this build, as SQLite applies them; the ids are the same everywhere."""
    return discover(migrations_folder(), "sqlite")


def columns_at(level: int) -> Mapping[str, tuple[str, ...]]:
    """The tables of a level with their columns."""
    connection = open_memory()
    database = SqliteDatabase(connection)
    for migration in migrations()[:level]:
        migration.apply(database)
    found = {each.name: each.columns for each in tables(connection)}
    connection.close()
    return found


def copy_at(cluster: Cluster, level: int) -> list[bytes]:
    """The lines of a copy (``svc.store.copy.lines``) of a store of that level.

    Raises:
        ValueError: a column of that level is gone since; say in ``FORMER`` what was in it.
    """
    known, at = migrations(), columns_at(level)
    connection = open_memory()
    database = SqliteDatabase(connection)
    apply_pending(database, known, lambda: read_ledger(connection), f"level {level}", time.time)
    clock: Any = Clock()  # nobody waits for an answer that is there at once
    needs = StoreNeeds(
        clock=clock,
        now=time.time,
        call_from_thread=lambda fn, *args: fn(*args),
        chain_hash=chain_hash,
    )
    store = MemoryStore.over(connection, needs)
    finished(Life(cluster, store, _SIGNED in at).live(database))
    lines = list(SqliteCopy(connection, chain_hash).lines({"made": f"at level {level}"}))
    former: Former = {
        place: (kind, dict(database.all(sql))) for place, (kind, sql) in FORMER.items()
    }
    finished(store.close())
    return list(cut(lines, level, at, former))


def cut(
    lines: Iterable[bytes], level: int, at: Mapping[str, tuple[str, ...]], former: Former
) -> Iterator[bytes]:
    """Of a copy at the last level what an earlier one has, with the columns that are gone since."""
    counts: dict[str, int] = {}
    table, values = "", list[Callable[[list[Any]], Any]]()
    for number, line in enumerate(b"".join(lines).splitlines()):
        form = json.loads(line)
        if number == 0:
            form["ledger"] = form["ledger"][:level]
        elif isinstance(form, list):
            if table not in at:
                continue
            counts[table] += 1
            form = [value(form) for value in values]
        elif "end" in form:
            form = {"end": counts}
        else:
            table = form["table"]
            if table not in at:
                continue
            found = [_column(form, column, former) for column in at[table]]
            values = [value for _, value in found]
            form = {"table": table, "columns": at[table], "kinds": [kind for kind, _ in found]}
            counts.setdefault(table, 0)
        yield json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _column(
    form: Mapping[str, Any], column: str, former: Former
) -> tuple[str, Callable[[list[Any]], Any]]:
    """The kind of a column, and how a row of that section gives its value."""
    table, columns = form["table"], form["columns"]
    if column in columns:
        place = columns.index(column)
        return form["kinds"][place], itemgetter(place)
    if (table, column) not in former:
        raise ValueError(f"{table}.{column}: the last level has no such column")
    kind, known = former[table, column]
    return kind, lambda row: known.get(row[0])


def fill(place: StorePlace, lines: Iterable[bytes]) -> None:
    """Make the store at *place*, where none may be."""
    with place.factory.filled(place.url, chain_hash, time.time) as filling:
        filling.fill(iter(lines))
        filling.commit()


def place_of(url: str) -> StorePlace:
    """The store of a URL."""
    (loaded,) = load(IStoreFactory, "store", [url.partition("://")[0]])
    place = StorePlace(loaded.provider, url)
    place.factory.check(url)
    return place


def main(argv: list[str] | None = None) -> int:
    """Make the store; 1 where it cannot be made."""
    last = len(migrations())
    options = argparse.ArgumentParser(
        prog="contrib.levels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--config", type=Path, required=True, help="of the Authority")
    options.add_argument(
        "--at",
        type=int,
        required=True,
        choices=range(FIRST, last + 1),
        metavar="N",
        help=f"{FIRST} to {last}",
    )
    options.add_argument("--store-url", help="another place than the configuration names")
    chosen = options.parse_args(argv)
    try:
        cluster = Cluster.opened(chosen.config)
        url = chosen.store_url
        place = store_place(cluster.settings) if url is None else place_of(url)
        fill(place, copy_at(cluster, chosen.at))
    except SvcError as refused:
        print(refused.text, file=sys.stderr)
        return 1
    print(f"made a store at {migrations()[chosen.at - 1].id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
