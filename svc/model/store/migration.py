"""Compares the ledger of a store with this build's migrations; pure.

Migrations only go forward and are never edited: from ``m0001`` on, without a
gap, each remembered with the SHA-256 of its file.  Who reads files and ledgers
is ``svc.store.migrate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import frozen

from svc.errors import MigrationsBroken, MigrationsPending, UnknownApplied


class StoreStanding(Enum):
    """What a store is to this build; only ``CURRENT`` may be opened."""

    CURRENT = "current"
    PENDING = "pending"
    UNKNOWN_APPLIED = "unknown_applied"
    BROKEN = "broken"


@frozen
class KnownMigration:
    """One migration of this build; ``checksum`` is SHA-256 in hex."""

    id: str
    checksum: str


@frozen
class AppliedMigration:
    """One row of the ledger; ``applied_at`` is seconds since the epoch."""

    id: str
    checksum: str
    applied_at: float
    binary_version: str


@frozen
class MigrationStatus:
    """The comparison: ``ids`` are the migrations that make it what it is."""

    standing: StoreStanding
    ids: tuple[str, ...] = ()
    level: str = ""
    count: int = 0

    def advanced(self) -> MigrationStatus:
        """The status once the first of the pending migrations is applied."""
        level, *pending = self.ids
        standing = StoreStanding.PENDING if pending else StoreStanding.CURRENT
        return MigrationStatus(
            standing=standing, ids=tuple(pending), level=level, count=self.count + 1
        )

    def require_current(self) -> None:
        """Raise what stops a start unless the store is current.

        Raises:
            UnknownApplied: exit code 4.
            MigrationsBroken: exit code 1.
            MigrationsPending: exit code 3.
        """
        names = ", ".join(self.ids)
        if self.standing is StoreStanding.UNKNOWN_APPLIED:
            raise UnknownApplied(
                f"store: it has migrations that this build does not know ({names}); "
                "run the build that applied them, or a newer one"
            )
        if self.standing is StoreStanding.BROKEN:
            raise MigrationsBroken(
                f"store: its ledger has a gap or a changed checksum ({names}); "
                "restore the store and its keys from an earlier backup"
            )
        if self.standing is StoreStanding.PENDING:
            raise MigrationsPending(
                f"store: {len(self.ids)} migrations are pending ({names}); "
                "run: svc authority store migrate"
            )


@frozen
class MigrationReport:
    """What a run of the migrations did, and where the store is now."""

    applied: tuple[str, ...]
    level: str
    count: int


def compare(
    known: Sequence[KnownMigration], applied: Sequence[AppliedMigration]
) -> MigrationStatus:
    """The status of a ledger; both are in order of their ids.

    Unknown ones are looked for first: a store that is newer than this build
    and lacks something too is newer, and nothing else may be said about it.
    """
    level = applied[-1].id if applied else ""
    checksums = {each.id: each.checksum for each in known}
    unknown = tuple(row.id for row in applied if row.id not in checksums)
    if unknown:
        return MigrationStatus(
            standing=StoreStanding.UNKNOWN_APPLIED, ids=unknown, level=level, count=len(applied)
        )
    have = {row.id: row.checksum for row in applied}
    reach = max((place for place, each in enumerate(known, 1) if each.id in have), default=0)
    broken = tuple(each.id for each in known[:reach] if have.get(each.id) != each.checksum)
    if broken:
        return MigrationStatus(
            standing=StoreStanding.BROKEN, ids=broken, level=level, count=len(applied)
        )
    pending = tuple(each.id for each in known[reach:])
    standing = StoreStanding.PENDING if pending else StoreStanding.CURRENT
    return MigrationStatus(standing=standing, ids=pending, level=level, count=len(applied))


def status_lines(status: MigrationStatus) -> list[str]:
    """What ``store migrate --check`` prints."""
    if status.standing is StoreStanding.CURRENT:
        return ["current"]
    word = status.standing.value.replace("_", "-")
    return [f"{word}: {name}" for name in status.ids]


def report_lines(report: MigrationReport) -> list[str]:
    """What ``store migrate`` prints."""
    did = f"applied {len(report.applied)} migration(s)" if report.applied else "nothing to apply"
    return [did, f"schema current: {report.level} ({report.count})"]
