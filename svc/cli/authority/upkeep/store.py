"""``svc authority store``: works whether or not a role runs.

Looking takes no lock and creates nothing; migrating waits for the one writer
to leave.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc import __version__
from svc.cli.control import authority_settings, authority_state
from svc.cli.groups import Group
from svc.cli.output import json_option, print_result, table
from svc.errors import (
    Fault,
    MigrationsBroken,
    MigrationsPending,
    SvcError,
    UnknownApplied,
    UsageError,
)
from svc.model.store.migration import MigrationReport, StoreStanding, report_lines, status_lines
from svc.model.store.rehearsal import Rehearsal
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.config import RoleSettings
    from svc.ops.store import StorePlace

_EXIT = {
    StoreStanding.CURRENT: 0,
    StoreStanding.PENDING: MigrationsPending.exit_code,
    StoreStanding.UNKNOWN_APPLIED: UnknownApplied.exit_code,
    StoreStanding.BROKEN: MigrationsBroken.exit_code,
}


@click.group(cls=Group)
def store() -> None:
    """The store, opened directly; the Authority need not be running."""


@store.command("migrate")
@click.option(
    "--check", is_flag=True, help="Only report what is pending; change and create nothing."
)
@click.option(
    "--backup-manifest",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Migrate only if the backup in DIR is the restore point of this store and these keys.",
)
@click.option(
    "--identity",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The backup's private key; with it the whole backup is verified as well.",
)
@click.option(
    "--rehearse",
    "rehearsal",
    is_flag=True,
    help="Apply the migrations to a temporary copy, and delete it afterwards.",
)
@json_option
@click.pass_context
def migrate(
    context: click.Context,
    check: bool,
    rehearsal: bool,
    backup_manifest: Path | None,
    identity: Path | None,
    as_json: bool,
) -> int:
    """Apply pending migrations to the store.

    Status 0: applied, rehearsed or already current; 3: migrations are pending (with --check);
    4: the store is newer than this build; 5: the store stayed locked for 120 s.

    Example:
        svc --config authority.toml authority store migrate --check
    """
    from svc.ops.store import store_place

    if identity is not None and backup_manifest is None:
        raise click.UsageError("--identity requires --backup-manifest")
    if check and rehearsal:
        raise UsageError("--check and --rehearse: give only one of them")
    settings = authority_settings(context)
    place = store_place(settings)
    if backup_manifest is not None:
        _require_backup(settings, backup_manifest, identity)
    if check:
        return _check(place, as_json)
    if rehearsal:
        return rehearse(place, as_json, time.time, time.monotonic)
    return apply(place, as_json, time.time, time.monotonic)


def _require_backup(settings: RoleSettings, directory: Path, identity: Path | None) -> None:
    """Refuse to go on without a restore point.  Raises BackupBroken."""
    from svc.ops.backup.check import BackupCheck, check_pairing, read_backup
    from svc.ops.backup.place import backup_place
    from svc.ops.backup.sealing import read_identities

    found = read_backup(directory, () if identity is None else read_identities(identity))
    if identity is not None:
        BackupCheck(found, os.urandom).verify()
    check_pairing(found, backup_place(settings, authority_state(settings)))


def apply(
    place: StorePlace, as_json: bool, now: Callable[[], float], monotonic: Callable[[], float]
) -> int:
    """Apply what is pending and print what was done; the exit status.

    Raises:
        LockTimeout: another writer did not leave in time.
        UnknownApplied, MigrationsBroken, StoreUnavailable: nothing was changed.
    """
    from svc.ops.store import legible

    with legible("migration status"):
        status = place.factory.migration_status(place.url)
    if status.standing is StoreStanding.CURRENT:
        # Nothing to wait for the store's writer for.
        report = MigrationReport((), status.level, status.count)
    else:
        report = place.factory.migrate(place.url, __version__, now, monotonic)
    result = {"applied": list(report.applied), "level": report.level, "count": report.count}
    print_result(as_json, result, report_lines(report))
    return 0


def rehearse(
    place: StorePlace, as_json: bool, now: Callable[[], float], monotonic: Callable[[], float]
) -> int:
    """Apply what is pending to a copy, and print what it did there; the exit status.

    A signal that ends the command removes the copy first.

    Raises:
        SvcError: ``rehearsal_refused``.
        UnknownApplied, MigrationsBroken, StoreUnavailable: nothing was changed.
    """
    from svc.interfaces.store import IRehearser
    from svc.ops.store import legible

    if not IRehearser.providedBy(place.factory):
        raise SvcError(
            f"store: the drop-in {place.factory.name} does not support --rehearse; restore a "
            "backup elsewhere and migrate that",
            reason="rehearsal_refused",
            fault=Fault.PRECONDITION,
        )
    with ended_by_signals(), legible("rehearse"):
        found = place.factory.rehearse(place.url, __version__, now, monotonic)
    print_result(as_json, _rehearsal_document(found), _rehearsal_lines(found))
    return 0


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Where a signal would end the process at once, it ends what runs here in order."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, was in before.items():
            signal.signal(each, was)


def _rehearsal_lines(found: Rehearsal) -> list[str]:
    if not found.steps:
        return report_lines(MigrationReport((), found.level, found.count))
    lines = [f"{each.id}  {each.secs:.3f} s" for each in found.steps]
    lines += map(escaped, found.schema)
    if found.rows:
        heads = ("TABLE", "BEFORE", "AFTER", "REWRITTEN")
        lines += table(
            heads,
            (
                (each.table, _count(each.before), _count(each.after), ", ".join(each.rewritten))
                for each in found.rows
            ),
        )
    lines.append(
        f"rehearsed {len(found.steps)} migration(s) on a copy made in {found.copy_secs:.3f} s; "
        "the store itself was not changed"
    )
    return lines


def _count(rows: int | None) -> str:
    return "" if rows is None else str(rows)


def _rehearsal_document(found: Rehearsal) -> dict[str, object]:
    return {
        "copy_secs": round(found.copy_secs, 6),
        "migrations": [{"id": each.id, "secs": round(each.secs, 6)} for each in found.steps],
        "schema": list(found.schema),
        "rows": [
            {
                "table": each.table,
                "before": each.before,
                "after": each.after,
                "rewritten": list(each.rewritten),
            }
            for each in found.rows
        ],
        "level": found.level,
        "count": found.count,
    }


def _check(place: StorePlace, as_json: bool) -> int:
    from svc.ops.store import legible

    with legible("migration status"):
        status = place.factory.migration_status(place.url)
    result = {
        "standing": status.standing.value.replace("_", "-"),
        "ids": list(status.ids),
        "level": status.level or None,
        "count": status.count,
    }
    print_result(as_json, result, status_lines(status))
    return _EXIT[status.standing]
