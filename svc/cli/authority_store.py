"""``svc authority store``: works whether or not a role runs.

Looking takes no lock and creates nothing; migrating waits for the one writer
to leave.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc import __version__
from svc.cli.control import authority_settings, authority_state
from svc.cli.output import document, say
from svc.errors import MigrationsBroken, MigrationsPending, UnknownApplied
from svc.model.migration import MigrationReport, Standing, report_lines, status_lines

if TYPE_CHECKING:
    from svc.compose.store_place import StorePlace
    from svc.config import RoleSettings

_EXIT = {
    Standing.CURRENT: 0,
    Standing.PENDING: MigrationsPending.exit_code,
    Standing.UNKNOWN_APPLIED: UnknownApplied.exit_code,
    Standing.BROKEN: MigrationsBroken.exit_code,
}


@click.group(no_args_is_help=False)
def store() -> None:
    """The store, opened directly: the Authority need not run."""


@store.command("migrate")
@click.option(
    "--check", is_flag=True, help="Only say what is pending; changes and creates nothing."
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
    help="With the private key the whole backup is verified, too.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def migrate(
    context: click.Context,
    check: bool,
    backup_manifest: Path | None,
    identity: Path | None,
    as_json: bool,
) -> int:
    """Apply what is pending.

    Status 0: applied or current; 3: pending (with --check); 4: the store is
    newer than this build; 5: another writer did not leave within 120 s.
    """
    from svc.compose.store_place import store_place

    if identity is not None and backup_manifest is None:
        raise click.UsageError("--identity goes with --backup-manifest")
    settings = authority_settings(context)
    place = store_place(settings)
    if backup_manifest is not None:
        _require_backup(settings, backup_manifest, identity)
    if check:
        return _check(place, as_json)
    return apply(place, as_json, time.time, time.monotonic)


def _require_backup(settings: RoleSettings, directory: Path, identity: Path | None) -> None:
    """Refuse to go on without a restore point.  Raises BackupBroken."""
    from svc.backup.sealing import read_identities
    from svc.compose.backup_check import Verifying, check_pairing, read_backup
    from svc.compose.backup_place import backup_place

    found = read_backup(directory, () if identity is None else read_identities(identity))
    if identity is not None:
        Verifying(found, os.urandom).verify()
    check_pairing(found, backup_place(settings, authority_state(settings)))


def apply(
    place: StorePlace, as_json: bool, now: Callable[[], float], monotonic: Callable[[], float]
) -> int:
    """Apply what is pending and print what was done; the exit status.

    Raises:
        LockTimeout: another writer did not leave in time.
        UnknownApplied, MigrationsBroken, StoreUnavailable: nothing was changed.
    """
    from svc.compose.store_place import legible

    with legible("migration status"):
        status = place.factory.migration_status(place.url)
    if status.standing is Standing.CURRENT:
        # Nothing to wait for the store's writer for.
        report = MigrationReport((), status.level, status.count)
    else:
        report = place.factory.migrate(place.url, __version__, now, monotonic)
    if as_json:
        said = {"applied": list(report.applied), "level": report.level, "count": report.count}
        say([document(said)])
    else:
        say(report_lines(report))
    return 0


def _check(place: StorePlace, as_json: bool) -> int:
    from svc.compose.store_place import legible

    with legible("migration status"):
        status = place.factory.migration_status(place.url)
    if as_json:
        said = {
            "standing": status.standing.value.replace("_", "-"),
            "ids": list(status.ids),
            "level": status.level or None,
            "count": status.count,
        }
        say([document(said)])
    else:
        say(status_lines(status))
    return _EXIT[status.standing]
