"""``svc authority backup``: the store and its keys as one generation, encrypted.

All three work on files and the store directly; no Authority is asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict

from svc.cli import Globals
from svc.cli.control import authority_settings, authority_state, config_path
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, moment, pairs, print_result, with_nulls
from svc.model.audit.record import rfc3339

if TYPE_CHECKING:
    from svc.ops.backup.left_out import LeftOut
    from svc.ops.backup.manifest import Manifest

_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)

identity_option = click.option(
    "--identity",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="The private key: age identities, or an OpenSSH key without a passphrase.",
)


@click.group(cls=Group)
def backup() -> None:
    """Back up the store, keys, identity and anchor together; verify and restore backups."""


@backup.command("create")
@click.option(
    "--out", type=_DIRECTORY, required=True, metavar="DIR", help="The directory to create."
)
@click.option(
    "--encrypt-to",
    "recipients",
    multiple=True,
    required=True,
    metavar="RECIPIENT",
    help="A public key (age1…, ssh-ed25519 …) or a file of public keys; may be repeated.",
)
@click.option(
    "--window-closed",
    is_flag=True,
    help="Copy a snapshot while an Authority is running. Stop all traffic first, or the backup "
    "misses what is written later.",
)
@json_option
@click.pass_context
def create(
    context: click.Context,
    out: Path,
    recipients: tuple[str, ...],
    window_closed: bool,
    as_json: bool,
) -> None:
    """Write an encrypted backup of store and keys to a new directory.

    Refused while a process has the store open for writing, unless --window-closed is given.

    Example:
        svc --config authority.toml authority backup create --out /backup/1 --encrypt-to age1…
    """
    from svc.ops.backup.create import BackupOptions, BackupRun
    from svc.ops.backup.place import backup_place
    from svc.ops.backup.sealing import read_recipients

    given = context.find_object(Globals)
    assert given is not None
    settings = authority_settings(context)
    options = BackupOptions(
        out=out,
        recipients=read_recipients(recipients),
        alone=not window_closed,
        config=Path(config_path(context)),
        environ=given.environ,
    )
    place = backup_place(settings, authority_state(settings))
    made = BackupRun(place=place, options=options, now=time.time, entropy=os.urandom).make()
    _print_manifest(made, as_json)
    hint(["copy it off this host, and verify the copy there with the private key"])


@backup.command("verify")
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@identity_option
@json_option
def verify(directory: Path, identity: Path, as_json: bool) -> None:
    """Decrypt and check every part of a backup; changes nothing and needs no configuration.

    Status 0: the backup can be restored; 6: the audit log in it does not verify; 1: any other
    fault.  A damaged receiver.key is named (`left_out`): a restore goes on without it.

    Example:
        svc authority backup verify /mnt/copy/2026-11-22 --identity backup.key
    """
    from svc.ops.backup.check import BackupCheck, read_backup
    from svc.ops.backup.sealing import read_identities

    found = read_backup(directory, read_identities(identity))
    _print_manifest(found.manifest, as_json, BackupCheck(found, os.urandom).verify())


@backup.command("restore")
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@identity_option
@click.option(
    "--known-head",
    "known",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Signed heads kept elsewhere (another Authority's heads.jsonl, a witness's copy).",
)
@click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help="Why a backup older than the latest known checkpoint is restored; recorded in the audit "
    "log.",
)
@json_option
@click.pass_context
def restore(
    context: click.Context,
    directory: Path,
    identity: Path,
    known: tuple[Path, ...],
    reason: str,
    as_json: bool,
) -> None:
    r"""Restore a backup, completely or not at all, to the empty locations in the configuration.

    Run it as the Authority's user.  If audit records are lost by it, the next start
    records that.  A damaged receiver.key is left out and named (`left_out`): the Authority makes
    another one.

    Example:
        svc --config authority.toml authority backup restore /mnt/copy/2026-11-22 \
            --identity backup.key
    """
    from svc.ops.backup.check import read_backup
    from svc.ops.backup.place import backup_place
    from svc.ops.backup.restore import RestoreRun
    from svc.ops.backup.sealing import read_identities

    settings = authority_settings(context)
    found = read_backup(directory, read_identities(identity))
    place = backup_place(settings, Path(settings.state_dir))
    done = RestoreRun(
        backup=found,
        place=place,
        now=time.time,
        entropy=os.urandom,
        reason=reason.strip(),
        known=known,
    ).restore()
    _print_manifest(found.manifest, as_json, done.left_out)
    request = done.request
    if request is not None and request.lost is not None:
        lost = request.lost.head.tree_size - request.end.seq
        hint(
            [f"{lost} records covered by a signed head are not in it; the next start reports them"]
        )
    hint(["restored; compare the old configuration in restored-configuration/, then start"])


def _print_manifest(
    manifest: Manifest, as_json: bool, left_out: Sequence[LeftOut] | None = None
) -> None:
    store, head = manifest.store, manifest.head
    value = _document(manifest)
    if left_out is not None:
        value["left_out"] = [asdict(each) for each in left_out]
    print_result(
        as_json,
        with_nulls(value),
        pairs(
            [
                ("generation", f"{manifest.stamp.number} ({manifest.stamp.id})"),
                ("cluster", manifest.stamp.cluster),
                ("authority", manifest.stamp.authority),
                ("authority_name", manifest.stamp.authority_name),
                ("ca_pin", manifest.ca_pin),
                ("taken", f"{moment(manifest.created)}, {manifest.moment}"),
                ("by", f"svc {manifest.binary_version}"),
                ("schema", f"{store.level} ({store.migrations}), {store.dialect}"),
                ("log", f"{store.records} records, hash {store.last_hash}"),
                ("head", "" if head is None else f"{head.tree_size} records, {head.hash}"),
                ("files", len(manifest.files)),
                *(
                    (f"sha256 {name}", f"{each.sha256} ({each.size} bytes)")
                    for name, each in sorted(manifest.sealed.items())
                ),
                *(("left_out", f"{each.path}: {each.message}") for each in left_out or ()),
            ]
        ),
        [f"{each.path}: {each.hint}" for each in left_out or ()],
    )


def _document(manifest: Manifest) -> dict[str, object]:
    """The manifest with the names that every command has; those in its file are its own."""
    from svc.ops.backup.manifest import FORM

    stamp, store, head = manifest.stamp, manifest.store, manifest.head
    return {
        "form": FORM,
        "stamp": {
            "number": stamp.number,
            "id": stamp.id,
            "cluster": stamp.cluster,
            "authority_id": stamp.authority,
            "authority_name": stamp.authority_name or None,
        },
        "created_at": rfc3339(manifest.created),
        "version": manifest.binary_version,
        "moment": manifest.moment,
        "log_id": manifest.log_id,
        "ca_pin": manifest.ca_pin,
        "recipients": list(manifest.recipients),
        "store": {
            "dialect": store.dialect,
            "level": store.level,
            "count": store.migrations,
            "records": store.records,
            "last_hash": store.last_hash,
            "rows": [{"table": name, "count": count} for name, count in store.rows.items()],
            "size": store.size,
            "sha256": store.sha256,
        },
        "head": None
        if head is None
        else {
            "records": head.tree_size,
            "root": head.root,
            "hash": head.hash,
            "key_id": head.key_id,
        },
        "sealed": {name: asdict(each) for name, each in manifest.sealed.items()},
        "classes": dict(manifest.classes),
        "files": [asdict(each) | {"link": each.link or None} for each in manifest.files],
    }
