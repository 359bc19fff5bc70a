"""Finds this build's migrations and applies them to a database.

Each migration is applied in one transaction together with its row of the
ledger, so a store is always at a boundary between two of them.  Which database
it is, and how writers are kept out meanwhile, is the caller's matter.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from runpy import run_path
from typing import Protocol

from attrs import define, field, frozen

import svc
from svc.errors import Fault, SvcError
from svc.model.store.migration import (
    AppliedMigration,
    KnownMigration,
    MigrationReport,
    MigrationStatus,
    StoreStanding,
    compare,
)
from svc.model.store.rehearsal import RehearsedMigration
from svc.store.sql.statements import Statements

_NAME = re.compile(r"(?P<id>m(?P<number>\d{4})_[a-z0-9_]+)(?:\.(?P<dialect>[a-z]+))?\.(sql|py)\Z")
LEDGER = (
    "CREATE TABLE IF NOT EXISTS svc_migrations (id TEXT PRIMARY KEY, checksum TEXT NOT NULL,"
    " applied_at REAL NOT NULL, binary_version TEXT NOT NULL) STRICT"
)


class Database(Statements, Protocol):
    """What a runner needs of a database: statements and transactions."""

    def begin(self) -> None:
        """Begin a transaction that excludes all other writers."""

    def commit(self) -> None:
        """Make it durable."""

    def rollback(self) -> None:
        """Undo it, where one is open."""


@frozen
class Migration:
    """One file: SQL statements, or Python with a function ``up(statements)``."""

    id: str
    path: Path
    checksum: str

    @property
    def known(self) -> KnownMigration:
        """What the ledger is compared with."""
        return KnownMigration(self.id, self.checksum)

    def apply(self, database: Statements) -> None:
        """Run it inside the transaction that is open."""
        if self.path.suffix == ".py":
            self._apply_python(database)
            return
        text = self.path.read_text("utf-8")
        # What is for PostgreSQL alone goes as it is: it takes several statements at once, and
        # may quote a function's body in a way that SQLite's judge of statements does not know.
        for statement in [text] if self.path.name.endswith(".postgresql.sql") else split(text):
            database.change(statement)

    def _apply_python(self, database: Statements) -> None:
        # Not imported: that would leave a __pycache__ where migrations are installed.
        run_path(str(self.path))["up"](database)


@define
class Stopwatch:
    """Measures how long each migration takes, with a monotonic clock.

    Attributes:
        laps: Each migration with the time since the one before it.
    """

    _seconds: Callable[[], float]
    laps: list[RehearsedMigration] = field(factory=list)
    _since: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._since = self._seconds()

    def lap(self, name: str) -> None:
        """This one is applied."""
        at = self._seconds()
        self.laps.append(RehearsedMigration(name, at - self._since))
        self._since = at


def refused(text: str) -> SvcError:
    """Why a rehearsal is not begun."""
    return SvcError(text, reason="rehearsal_refused", fault=Fault.PRECONDITION)


def split(script: str) -> Iterator[str]:
    """The statements of a script, one by one.

    ``executescript`` would commit first, and the migration would not be whole.
    """
    pending = ""
    for part in re.split(r"(?<=;)", script):
        pending += part
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if re.sub(r"--[^\n]*", "", pending).strip():
        yield pending


def migrations_folder() -> Path:
    """The folder of this build's migrations: next to ``svc/``, or in ``share`` once installed.

    Raises:
        SvcError: in neither place; the installation is not whole.
    """
    places = (
        Path(svc.__file__).resolve().parent.parent / "migrations",
        Path(sys.prefix) / "share" / "svc" / "migrations",
    )
    for place in places:
        if place.is_dir() and any(name.startswith("m0001_") for name in os.listdir(place)):
            return place
    raise SvcError("store: the migrations of this build are not installed with it")


def discover(folder: Path, dialect: str) -> tuple[Migration, ...]:
    """The migrations of a folder for one database, in order.

    Raises:
        SvcError: their numbers have a gap or a duplicate number.
    """
    found = []
    # By their names: to compare paths takes longer than to read the files.
    for name in sorted(os.listdir(folder)):
        match = _NAME.match(name)
        if match and match["dialect"] in (None, dialect):
            path = folder / name
            found.append(Migration(match["id"], path, sha256(path.read_bytes()).hexdigest()))
    numbers = [int(each.id[1:5]) for each in found]
    if numbers != list(range(1, len(found) + 1)):
        raise SvcError(f"store: the migrations in {folder} have a gap or a duplicate number")
    return tuple(found)


def status_of(
    migrations: Sequence[Migration], applied: Sequence[AppliedMigration]
) -> MigrationStatus:
    """Compare a ledger with this build's files."""
    return compare([each.known for each in migrations], applied)


def _ends_as(status: MigrationStatus, database: Statements) -> bool:
    """Whether the ledger is as we left it.  Reading it whole would cost with its square."""
    end = database.one("SELECT count(*), coalesce(max(id), '') FROM svc_migrations")
    return end == (status.count, status.level)


def apply_pending(
    database: Database,
    migrations: Sequence[Migration],
    applied: Callable[[], Sequence[AppliedMigration]],
    binary_version: str,
    now: Callable[[], float],
    ledger: str = LEDGER,
    on_applied: Callable[[str], object] = lambda name: None,
) -> MigrationReport:
    """Apply what is pending, one transaction each.

    The ledger is looked at inside every one: of two runs each migration is applied by one.

    Args:
        applied: Reads the ledger inside the open transaction.
        ledger: The statement that makes the ledger where there is none.
        on_applied: Given the id of each migration that was applied.

    Raises:
        UnknownApplied, MigrationsBroken: nothing was changed.
    """
    done: list[str] = []
    status: MigrationStatus | None = None
    while True:
        database.begin()
        try:
            database.change(ledger)
            if status is None or not _ends_as(status, database):
                status = status_of(migrations, applied())
            if status.standing is not StoreStanding.PENDING:
                database.rollback()
                status.require_current()
                return MigrationReport(tuple(done), status.level, status.count)
            chosen = migrations[status.count]
            chosen.apply(database)
            database.change(
                "INSERT INTO svc_migrations (id, checksum, applied_at, binary_version)"
                " VALUES (?, ?, ?, ?)",
                chosen.id,
                chosen.checksum,
                now(),
                binary_version,
            )
            database.commit()
        except BaseException:
            database.rollback()
            raise
        status = status.advanced()
        done.append(chosen.id)
        on_applied(chosen.id)
