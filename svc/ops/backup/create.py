"""Creates a backup: the store and everything that verifies it, as one generation.

The files are read first and the store's snapshot is taken after them, so no head that was
copied is beyond the log that was copied.  The directory appears by one rename, whole.
Blocks; called by a command.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen

from svc import __version__
from svc.errors import BackupBroken, ConfigError, Fault, StoreUnavailable, SvcError
from svc.interfaces.copies import IStoreCopy
from svc.model.audit.record import SignedHead, chain_hash
from svc.model.store.migration import MigrationStatus, StoreStanding
from svc.ops.backup import manifest as form
from svc.ops.backup.archive import Packer, Source
from svc.ops.backup.classes import standings
from svc.ops.backup.manifest import Manifest, SealedFile, Stamp, StoreFacts
from svc.ops.backup.place import CONFIGURATION, BackupPlace, facts_of, load_material
from svc.ops.backup.sealing import Recipient, seal
from svc.ops.store import legible
from svc.pki import files
from svc.runtime import durable

COUNTER = "backups.json"
"""In the anchor directory: the number of the newest generation."""


@frozen
class BackupOptions:
    """What a backup is to be.

    Attributes:
        out: The directory to be made.
        alone: Keep writers out; else one snapshot beside them is all there is.
        config: The configuration's file, and the variables that override it.
    """

    out: Path
    recipients: Sequence[Recipient]
    alone: bool
    config: Path
    environ: Mapping[str, str]


@define
class BackupRun:
    """One backup being made."""

    place: BackupPlace
    options: BackupOptions
    now: Callable[[], float]
    entropy: Callable[[int], bytes]

    def make(self) -> Manifest:
        """Make it.

        Raises:
            SvcError: a writer holds the store, or something that belongs to a backup is missing
                or does not fit; nothing is left behind.
            OSError: the disk refuses.
        """
        place, out = self.place, self._free_place()
        place.wanted_uid()
        with legible("backup"):
            status = place.copies.migration_status(place.store.url)
        _require_store(status)
        beside = out.with_name(f".{out.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        files.make_private_directory(beside)
        try:
            with place.copies.copied(
                place.store.url, chain_hash, self.now, self.options.alone
            ) as copy:
                manifest = self._made(beside, copy, status)
            durable.write_new(beside / form.NAME, form.to_json(manifest))
            durable.sync_directory(beside)
            durable.move(beside, out)
        except SvcError as refused:
            shutil.rmtree(beside, ignore_errors=True)
            if refused.reason != "store_in_use":
                raise
            raise SvcError(
                f"{refused.text}; stop every Authority, or stop all traffic and give "
                "--window-closed to copy a snapshot while it runs",
                reason=refused.reason,
                fault=Fault.UNAVAILABLE,
            ) from None
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        return manifest

    def _free_place(self) -> Path:
        out = Path(os.path.abspath(self.options.out))
        if os.path.lexists(out):
            raise SvcError(
                f"--out: {out} already exists; choose a new directory", fault=Fault.EXISTS
            )
        if not out.parent.is_dir():
            raise SvcError(
                f"--out: the directory {out.parent} does not exist", fault=Fault.NOT_FOUND
            )
        if out.is_relative_to(self.place.base):
            raise SvcError(f"--out: {out} lies in the state directory that is copied")
        return out

    def _made(self, beside: Path, copy: IStoreCopy, status: MigrationStatus) -> Manifest:
        place, at = self.place, self.now()
        before = place.critical()
        material = load_material(place.own, place.settings.cluster, place.uid, at, self.entropy)
        stamp = Stamp(
            number=self._next_number(),
            id=self.entropy(16).hex(),
            cluster=place.settings.cluster,
            authority=material.authority,
            authority_name=place.settings.authority.name or material.authority,
        )
        head = material.newest
        packer = Packer(stamp, self._sources(), place.uid)
        sealed = {form.FILES: seal(packer.chunks(), beside / form.FILES, self.options.recipients)}
        store = self._store(beside, copy, stamp, status, sealed, head)
        if place.critical() != before:
            raise BackupBroken("keys or identity changed while being copied; run this again")
        return Manifest(
            stamp=stamp,
            created=at,
            binary_version=__version__,
            moment=form.STOPPED if self.options.alone else form.SNAPSHOT,
            log_id=place.settings.cluster,
            ca_pin=material.keys.ca_pin,
            recipients=tuple(each.text for each in self.options.recipients),
            store=store,
            head=facts_of(head),
            sealed=sealed,
            classes=standings({each.sort for each in packer.kept}),
            files=tuple(packer.kept),
        )

    def _store(
        self,
        beside: Path,
        copy: IStoreCopy,
        stamp: Stamp,
        status: MigrationStatus,
        sealed: dict[str, SealedFile],
        head: SignedHead | None,
    ) -> StoreFacts:
        # The snapshot begins here, after every file was read.
        with legible("backup"):
            last, cluster = copy.tx.audit.head(), copy.tx.schema.fact("cluster")
            if cluster not in (None, stamp.cluster):
                raise ConfigError(
                    "cluster", f"is {stamp.cluster}, but the store is of the cluster {cluster}"
                )
            _require_head(head, last.seq)
            counted = Compressed(copy.lines(asdict(stamp)))
            sealed[form.STORE] = seal(
                counted.chunks(), beside / form.STORE, self.options.recipients
            )
        return StoreFacts(
            dialect=copy.dialect,
            level=status.level,
            migrations=status.count,
            records=last.seq,
            last_hash=last.hash.hex(),
            rows=dict(copy.rows),
            size=counted.size,
            sha256=counted.digest.hexdigest(),
        )

    def _next_number(self) -> int:
        """The next generation's; it is durable before anything bears it."""
        path = self.place.own / "anchor" / COUNTER
        try:
            number = int(json.loads(path.read_bytes())["generation"]) + 1
        except FileNotFoundError:
            number = 1
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigError(
                str(path), "it cannot be read; remove it to start the generations again at 1"
            ) from None
        path.parent.mkdir(mode=0o700, exist_ok=True)
        durable.replace(path, json.dumps({"generation": number}).encode() + b"\n")
        if os.geteuid() == 0:
            for each in (path.parent, path):
                os.chown(each, self.place.uid, -1)
        return number

    def _sources(self) -> Iterator[Source]:
        yield from self.place.sources()
        config = self.options.config
        yield Source(f"{CONFIGURATION}/{config.name}", data=config.read_bytes())
        ours = {
            name: text for name, text in self.options.environ.items() if name.startswith("SVC_")
        }
        yield Source(f"{CONFIGURATION}/environment.json", data=json.dumps(ours).encode())


@define
class Compressed:
    """Lines as a gzip stream; counts and hashes what goes in."""

    lines: Iterable[bytes]
    size: int = 0
    digest: Any = field(factory=sha256)

    def chunks(self) -> Iterator[bytes]:
        """The stream."""
        # The least effort takes a third of the time and leaves a log a sixth of its size.
        packing = zlib.compressobj(1, zlib.DEFLATED, 31)
        for line in self.lines:
            self.size += len(line)
            self.digest.update(line)
            if packed := packing.compress(line):
                yield packed
        yield packing.flush()


def _require_store(status: MigrationStatus) -> None:
    if not status.level:
        raise StoreUnavailable("store: does not exist; there is nothing to back up")
    if status.standing not in (StoreStanding.CURRENT, StoreStanding.PENDING):
        status.require_current()


def _require_head(head: SignedHead | None, records: int) -> None:
    if records and head is None:
        raise BackupBroken(
            "backup: class audit-anchor: no signed head exists; without one the log of "
            f"{records} records cannot be verified",
            reason="backup_incomplete",
        )
