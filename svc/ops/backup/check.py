"""Verifies a backup in place: decrypts and computes everything again.

Nothing of it is put on a disk: the log is verified as it goes by, and keys are unpacked
where the system keeps memory files, for as long as they are looked at.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field, frozen

from svc.audit.log.verify import verified_ranges, verify
from svc.errors import BackupBroken, ConfigError, Malformed, SvcError
from svc.interfaces.copies import CopyHead
from svc.model.audit.state import StateHead
from svc.ops.backup import manifest as form
from svc.ops.backup.archive import unpack
from svc.ops.backup.classes import is_consistent
from svc.ops.backup.left_out import LeftOut, lost_receiver, unpacked_receiver
from svc.ops.backup.manifest import KeptFile, Manifest, SealedFile, stamp_of
from svc.ops.backup.place import AuthorityFiles, BackupPlace, facts_of, load_material, own_within
from svc.ops.backup.sealing import opened
from svc.store.copy.log import CopiedLog

_MEMORY = Path("/dev/shm")
_IN_BULK = frozenset({"audit-outbox", "recording-buffers", "snapshot-cache", "state"})
"""Classes of which files may be large, and that nothing here looks into."""
_MAX_LINE = 1 << 26


@frozen
class Backup:
    """A backup as it lies there, not verified."""

    directory: Path
    manifest: Manifest
    identities: Sequence[Any] = ()

    @contextmanager
    def files(self) -> Iterator[BinaryIO]:
        """The stream of the files."""
        with self._opened(form.FILES) as stream:
            yield stream

    @contextmanager
    def store(self) -> Iterator[StoreStream]:
        """The lines of the store's copy; at the end they must have been those of the manifest.

        Raises:
            BackupBroken: also for whatever :class:`Malformed` says inside the block.
        """
        try:
            with (
                self._opened(form.STORE) as stream,
                gzip.GzipFile(fileobj=stream, mode="rb") as unpacked,
            ):
                lines = StoreStream(unpacked)
                yield lines
        except Malformed as refused:
            raise BackupBroken(f"{form.STORE}: {refused.text}") from None
        except (zlib.error, gzip.BadGzipFile, EOFError):
            raise BackupBroken(f"{form.STORE}: is not a complete gzip stream") from None
        said = self.manifest.store
        if (lines.size, lines.digest.hexdigest()) != (said.size, said.sha256):
            raise BackupBroken(f"{form.STORE}: its contents differ from the manifest")

    def check_stamp(self, head: CopyHead) -> None:
        """Refuse a copy of another generation."""
        manifest, found = self.manifest, stamp_of(head.stamp)
        if found != manifest.stamp:
            raise BackupBroken(
                f"{form.STORE}: is of {found.text}; the manifest is of {manifest.stamp.text}",
                reason="backup_mismatch",
            )

    def check_end(self, head: CopyHead, last_seq: int, last_hash: bytes) -> None:
        """Refuse a copy of another log than the manifest says."""
        said = self.manifest.store
        level = head.ledger[-1].id if head.ledger else ""
        copied = (head.dialect, level, len(head.ledger), last_seq, last_hash.hex())
        if copied != (said.dialect, said.level, said.migrations, said.records, said.last_hash):
            raise BackupBroken(
                f"{form.STORE}: it ends at a different record than the manifest says"
            )

    def _opened(self, name: str) -> Any:
        return opened(self.directory / name, self.identities, self.manifest.sealed[name])


@define
class StoreStream:
    """Lines that are counted and hashed while they are read."""

    _file: Any
    size: int = 0
    digest: Any = field(factory=sha256)

    def __iter__(self) -> Iterator[bytes]:
        read, update = self._file.readline, self.digest.update
        while line := read(_MAX_LINE):
            self.size += len(line)
            update(line)
            yield line


def read_backup(directory: Path, identities: Sequence[Any] = ()) -> Backup:
    """The backup in *directory*; only its manifest is read.

    Raises:
        BackupBroken: there is none, or a half of it is missing.
    """
    try:
        with (directory / form.NAME).open("rb") as file:
            data = file.read(form.MAX_BYTES + 1)
    except OSError as error:
        raise BackupBroken(
            f"{directory / form.NAME}: {error.strerror}; the backup is incomplete"
        ) from None
    if len(data) > form.MAX_BYTES:
        raise BackupBroken(f"{form.NAME}: is too long")
    manifest = form.from_json(data)
    for name, other in ((form.STORE, form.FILES), (form.FILES, form.STORE)):
        if not (directory / name).is_file():
            raise BackupBroken(
                f"{directory / name}: is missing; the backup is incomplete with {other} alone",
                reason="backup_incomplete",
            )
    return Backup(directory, manifest, identities)


@define
class BackupCheck:
    """One verification.

    Args:
        entropy: Named where it is needed to read keys; nothing is made with it.
    """

    backup: Backup
    entropy: Callable[[int], bytes]

    def verify(self) -> Sequence[LeftOut]:
        """Decrypt and check everything; the damaged files that a restore leaves out.

        Changes nothing.

        Raises:
            BackupBroken, ConfigError, AuditBroken: naming the first thing that does not hold.
        """
        with _scratch() as scratch:
            material = self.unpacked(lambda file: None if file.sort in _IN_BULK else scratch)
            self._verify_log(material)
            manifest = self.backup.manifest
            own = own_within([file.path for file in manifest.files])
            found = unpacked_receiver(scratch, own, manifest.stamp.cluster)
            return tuple(lost_receiver(manifest, own, found)) if isinstance(found, str) else ()

    def unpacked(self, below: Callable[[KeptFile], Path | None]) -> AuthorityFiles:
        """Unpack files below the directories that *below* gives, and check what is of keys."""
        manifest = self.backup.manifest
        tops: set[Path] = set()

        def place_of(file: KeptFile) -> Path | None:
            top = below(file)
            if top is not None:
                tops.add(top)
            return None if top is None else top / file.path

        with self.backup.files() as stream:
            unpack(stream, manifest.stamp, manifest.files, place_of)
        if not is_consistent(manifest.classes, {file.sort for file in manifest.files}):
            raise BackupBroken(f"{form.NAME}: its classes do not match its files")
        own = own_within([file.path for file in manifest.files])
        (top,) = tops  # keys are among them, and are never in bulk
        return self._material(top, own)

    def _material(self, top: Path, own: str) -> AuthorityFiles:
        manifest = self.backup.manifest
        try:
            material = load_material(
                top / own, manifest.stamp.cluster, os.geteuid(), manifest.created, self.entropy
            )
            newest = material.newest
        except SvcError as refused:
            # As the backup has it, not where it was looked at.
            text = refused.text.replace(f"{top}/", "in the backup: ")
            raise BackupBroken(text, reason="backup_mismatch") from None
        if (material.authority, material.keys.ca_pin) != (
            manifest.stamp.authority,
            manifest.ca_pin,
        ):
            raise BackupBroken(
                "in the backup: the keys or the identity belong to a different Authority or root "
                "than the manifest names",
                reason="backup_mismatch",
            )
        if facts_of(newest) != manifest.head and not _is_later(newest, manifest):
            raise BackupBroken(
                "in the backup: the anchor does not end with the head in the manifest"
            )
        return material

    def _verify_log(self, material: AuthorityFiles) -> None:
        manifest = self.backup.manifest
        tip, checkpoint = material.state_anchor.tip(), material.state_anchor.checkpoint()
        known = [each for each in (tip, _head_of(checkpoint)) if each is not None and each.n]
        with self.backup.store() as lines:
            log = CopiedLog(lines, frozenset(each.seq for each in known))
            head = log.head()
            self.backup.check_stamp(head)
            verified = verify(
                verified_ranges(log.batches(), log.personal),
                material.keeper.heads(),
                material.verify_head,
                latest=material.keeper.latest(),
                cluster=manifest.stamp.cluster,
            )
            self.backup.check_end(head, verified.records, verified.last_hash)
            if dict(log.rows) != dict(manifest.store.rows):
                raise BackupBroken(f"{form.STORE}: its rows differ from the manifest")
        if log.facts.get("cluster", manifest.stamp.cluster) != manifest.stamp.cluster:
            raise BackupBroken(
                "in the backup: the store belongs to a different cluster from the keys"
            )
        for each in known:
            if (log.states.get(each.n), log.hashes.get(each.seq)) != (each.seq, each.hash):
                raise BackupBroken(
                    f"in the backup: the store lacks the record of state {each.n}, which the "
                    "anchor names",
                    reason="backup_mismatch",
                )


def check_pairing(backup: Backup, place: BackupPlace) -> None:
    """Refuse a backup that is not the restore point of this very store and these very keys.

    Needs no private key: sealed files are compared by digest, the store by the end of its log,
    the keys beside it file by file.

    Raises:
        BackupBroken: naming what does not fit.
    """
    manifest = backup.manifest
    for name, said in manifest.sealed.items():
        if _sealed(backup.directory / name) != said:
            raise BackupBroken(f"{name}: differs from the manifest (SHA-256)")
    if manifest.stamp.cluster != place.settings.cluster:
        raise BackupBroken(
            f"the backup belongs to the cluster {manifest.stamp.cluster}, but the configuration "
            f"to {place.settings.cluster}",
            reason="backup_mismatch",
        )
    end = place.store.look("backup pairing", lambda tx: tx.audit.head())
    if (end.seq, end.hash.hex()) != (manifest.store.records, manifest.store.last_hash):
        raise BackupBroken(
            f"the backup holds {manifest.store.records} records of the log, but the store "
            f"{end.seq}; stop every Authority, take a new backup, then migrate",
            reason="backup_mismatch",
        )
    status = place.copies.migration_status(place.store.url)
    if (status.level, status.count) != (manifest.store.level, manifest.store.migrations):
        raise BackupBroken(
            f"the backup was taken at {manifest.store.level}, but the store is at {status.level}",
            reason="backup_mismatch",
        )
    _check_keys(manifest, place)


def _check_keys(manifest: Manifest, place: BackupPlace) -> None:
    own = own_within([file.path for file in manifest.files])
    there = place.critical()
    for file in manifest.files:
        name = file.path.removeprefix(f"{own}/")
        if name == file.path or not name.startswith(("keys/", "identity/", "trust/")):
            continue
        digest = sha256(file.link.encode()).hexdigest() if file.link else file.sha256
        if there.get(name) != digest:
            what = "is missing" if name not in there else "differs from the one in the backup"
            raise BackupBroken(f"{place.own / name}: {what}", reason="backup_mismatch")


def _sealed(path: Path) -> SealedFile:
    digest, size = sha256(), 0
    try:
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                digest.update(data)
                size += len(data)
    except OSError as error:
        raise BackupBroken(f"{path}: {error.strerror}") from None
    return SealedFile(size, digest.hexdigest())


def _is_later(newest: Any, manifest: Manifest) -> bool:
    """Beside a live writer the anchor may have gone on before it was copied."""
    size = 0 if manifest.head is None else manifest.head.tree_size
    return manifest.moment == form.SNAPSHOT and newest is not None and newest.head.tree_size > size


def _head_of(view: Any) -> StateHead | None:
    return None if view is None else StateHead(view.n, view.seq, view.hash)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A private directory in memory, gone at the end.

    Raises:
        ConfigError: the system has no such place.
    """
    if not os.access(_MEMORY, os.W_OK):
        raise ConfigError(
            str(_MEMORY), "cannot be written: keys are checked in memory, never on disk"
        )
    made = Path(tempfile.mkdtemp(prefix="svc-backup-", dir=_MEMORY))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
