"""Rehearses migrations on a temporary copy of a SQLite store.

The copy lies in a private directory beside the store.  A process that is killed
leaves it there; the next rehearsal removes it, and knows by the lock on the
directory that no other one works in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from svc.model.store.rehearsal import WHOLE, Rehearsal, StoreContents, TableRows, rehearsed
from svc.store.migrate import Migration, Stopwatch, apply_pending, refused
from svc.store.sqlite.connection import SqliteDatabase, SqliteReader, open_writer, read_ledger
from svc.store.sqlite.location import create_private

PREFIX = ".rehearsal-"
ROOM = 3
"""Times the store: a copy, its journal, and as much again for an Authority that runs."""
_LEDGER = "svc_migrations"
_STEPS_BETWEEN_SIGNALS = 1_000_000


def rehearse_file(
    path: str,
    migrations: tuple[Migration, ...],
    binary_version: str,
    now: Callable[[], float],
    monotonic: Callable[[], float],
) -> Rehearsal:
    """Migrate a copy of the store at *path*.

    Raises:
        SvcError: ``rehearsal_refused``: there is no room for a copy.
        sqlite3.Error: as the database raised it.
    """
    with _private_directory(Path(path).parent) as directory:
        started = monotonic()
        copy = str(directory / "store.db")
        create_private(copy)
        if os.path.exists(path):
            _require_room(path)
            _copy(path, copy)
        began = monotonic()
        with closing(open_writer(copy)) as connection:
            # A signal is heard between two steps of a long statement, too, and ends it.
            connection.set_progress_handler(lambda: 0, _STEPS_BETWEEN_SIGNALS)
            before, watch = look(connection), Stopwatch(monotonic)
            report = apply_pending(
                SqliteDatabase(connection),
                migrations,
                lambda: read_ledger(connection),
                binary_version,
                now,
                on_applied=watch.lap,
            )
            return rehearsed(before, look(connection), watch.laps, began - started, report)


def look(connection: sqlite3.Connection) -> StoreContents:
    """What is in a store file."""
    objects: dict[str, dict[str, str]] = {}
    rows: dict[str, TableRows] = {}
    for kind, name, sql in connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'"
    ).fetchall():
        parts = {WHOLE: sql}
        if kind == "table":
            columns = _columns(connection, name)
            parts |= {column: declared for column, declared, _ in columns}
            if name != _LEDGER:
                kept = [column for column, _, is_kept in columns if is_kept]
                rows[name] = _rows(connection, name, kept)
        objects[f"{kind} {name}"] = parts
    return StoreContents(objects, rows)


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, bool]]:
    """Of each column its name, what it is, and whether it is kept (not derived)."""
    found = []
    for _, name, kind, needed, default, _, hidden in connection.execute(
        f"PRAGMA table_xinfo({_quoted(table)})"
    ):
        declared = kind + (" NOT NULL" if needed else "")
        declared += f" DEFAULT {default}" if default is not None else ""
        found.append((name, declared + (" derived" if hidden else ""), not hidden))
    return found


def _rows(connection: sqlite3.Connection, table: str, columns: list[str]) -> TableRows:
    """Values are hashed as Python does it: quickly, and alike within one process."""
    sums, count = [0] * len(columns), 0
    names = ", ".join(map(_quoted, columns))
    for row in connection.execute(f"SELECT {names} FROM {_quoted(table)}"):
        count += 1
        for place, value in enumerate(row):
            sums[place] += hash(value)
    return TableRows(count, dict(zip(columns, sums, strict=True)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _copy(path: str, copy: str) -> None:
    with closing(sqlite3.connect(copy)) as target:
        SqliteReader(path).look(lambda source: source.backup(target))


def _require_room(path: str) -> None:
    size = sum(os.path.getsize(each) for each in (path, path + "-wal") if os.path.exists(each))
    free = shutil.disk_usage(os.path.dirname(path)).free
    if free < ROOM * size:
        raise refused(
            f"store: rehearsing needs {ROOM * size >> 20} MiB free next to {path}, but only "
            f"{free >> 20} MiB are free; make room, or rehearse on a copy elsewhere"
        )


@contextmanager
def _private_directory(beside: Path) -> Iterator[Path]:
    """A directory of our own, held while we live and removed at the end."""
    _remove_left(beside)
    try:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=beside))
    except OSError as error:
        raise refused(f"store: cannot write to {beside}: {error.strerror}") from None
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Before there is anything in it: who finds it empty leaves it alone.
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield directory
    finally:
        shutil.rmtree(directory)
        os.close(held)


def _remove_left(beside: Path) -> None:
    """Remove what rehearsals that were killed have left."""
    for directory in beside.glob(f"{PREFIX}*"):
        try:
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.listdir(held):
                shutil.rmtree(directory)
        except BlockingIOError:
            pass  # it runs
        finally:
            os.close(held)
