"""``svc authority preflight``: what is checked before an upgrade; changes nothing."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import WORD
from svc.cli.output import document, hint, json_option, print_lines
from svc.errors import Fault, SvcError
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.config import RoleSettings
    from svc.model.doctor import DoctorReport
    from svc.ops.preflight.run import Preflight


@click.command()
@click.option(
    "--artifacts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    metavar="DIR",
    help="The directory with the artifacts, SHA256SUMS and SHA256SUMS.sig of the release.",
)
@click.option(
    "--pubkey",
    "public_key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The public key that releases are signed with (svc-release.pub).",
)
@click.option(
    "--change-id", type=WORD, required=True, metavar="X", help="The id of the change, as you plan."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The record of the change, a new file, written whatever the result is.",
)
@json_option
@click.pass_context
def preflight(
    context: click.Context,
    artifacts: Path,
    public_key: Path,
    change_id: str,
    out: Path,
    as_json: bool,
) -> None:
    r"""Check a release, this Authority, its store and its log before an upgrade; change nothing.

    In this order, and the first that fails ends it: the signature of the checksums, the
    checksums, the bill of materials, `doctor`, the migrations, the audit log.  Migrations that are
    pending are named and no fault; store_auto_migrate must be false.  Run it with the program
    of the release, beside the Authority that runs or with every Authority stopped.

    Status 0: everything passed; 2: doctor has a finding, such as a store that is newer than this
    program; 6: the audit log does not verify; 1: any other fault, such as artifacts that are not
    signed, or are of another version than this program.

    Example:
        svc --config authority.toml authority preflight --artifacts release/ \
            --pubkey svc-release.pub --change-id CHG-7 --out CHG-7.json
    """
    from svc.ops.preflight.run import Preflight
    from svc.ops.turns import cores

    settings = authority_settings(context)
    found = Preflight(
        change=change_id,
        artifacts=artifacts,
        public_key=public_key,
        settings=settings,
        state=authority_state(settings),
        examine=partial(_examined, settings),
        at=time.time(),
        jobs=cores(),
    )
    with _new_file(out) as handle:
        try:
            found.run()
        except BaseException:
            out.unlink(missing_ok=True)  # Nothing was found: an empty file is no record.
            raise
        handle.write(document(found.form()).encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    if as_json:
        print_lines([document(found.form())])
    else:
        print_lines(_lines(found))
    if found.failure is not None:
        hint([f"the upgrade stops here; the record is in {out}"])
        raise found.failure


def _examined(settings: RoleSettings) -> DoctorReport:
    from svc.compose.added_checks import every_check
    from svc.compose.doctor import role_contexts, this_program
    from svc.ops.doctor.run import examine

    checks = every_check(settings)
    return examine(checks, role_contexts(settings, time.time(), this_program()))


def _lines(found: Preflight) -> list[str]:
    width = max(len(one.name) for one in found.steps)
    return [f"{one.name:<{width}}  {one.result:<7}  {escaped(one.text)}" for one in found.steps]


def _new_file(path: Path) -> IO[bytes]:
    """The record, which replaces none.  Raises SvcError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise SvcError(
            f"{path}: exists; name a new file, because a record of a change is kept",
            reason="record_exists",
            fault=Fault.EXISTS,
        ) from None
    except OSError as failed:
        text = (failed.strerror or "cannot be written").lower()
        raise SvcError(f"{path}: {text}", reason="record", fault=Fault.INVALID) from None
    return os.fdopen(handle, "wb")
