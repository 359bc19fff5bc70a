"""Restores a backup to an empty place, all of it or nothing.

Everything is unpacked and filled in beside its place and verified there.  Then the store
is brought to its place, then the files, the keys as the last: without them no Authority
starts, so a restore that was killed on the way is ended by the same command.
Blocks; called by a command, as the user the Authority runs as.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import asdict, define, evolve, field, frozen

from svc.audit.checkpoint.anchor import AnchorDirectory, heads_given, heads_in
from svc.audit.checkpoint.head import head_time
from svc.audit.checkpoint.latest import GREATEST
from svc.audit.checkpoint.rewind import restorations
from svc.audit.checkpoint.startup_request import StartupRequestFile
from svc.audit.log.verify import verify
from svc.audit.state.anchor import check_anchor
from svc.audit.state.in_force import StateView
from svc.authority.state.rewind import RESTORE_REQUEST, RestoreRequest, restore_request_file
from svc.errors import AlreadyExists, AuditBroken, BackupBroken
from svc.interfaces.copies import IStoreFilling
from svc.interfaces.crash import CrashPoint, no_crash
from svc.model.audit.ledger import ChainHead
from svc.model.audit.record import SignedHead, chain_hash
from svc.ops.backup.check import Backup, BackupCheck
from svc.ops.backup.left_out import LeftOut, lost_receiver, unpacked_receiver
from svc.ops.backup.place import (
    CONFIGURATION,
    KEPT,
    RESTORING,
    STATE,
    AuthorityFiles,
    BackupPlace,
    own_within,
)
from svc.ops.verify.rows import checked_rows
from svc.pki import files
from svc.pki.receiver import RECEIVER_FILE, ReceiverOfAnother
from svc.runtime import durable
from svc.runtime.state_directory import StateDirectory

MARK = "whole.json"
"""In the directory of a restore: everything is there and verified, of this generation."""


@frozen
class Restored:
    """What came of a restore.

    Attributes:
        request: What the next start is asked for, where records are given up.
        left_out: Damaged files of the backup that were not put back.
    """

    request: RestoreRequest | None
    left_out: Sequence[LeftOut]


@define
class RestoreRun:
    """One restore.

    Args:
        place: Named by today's configuration.
        reason: Why an older generation is put back; empty: it must not be older.
        known: Files of signed heads that somebody kept elsewhere.
        crash_point: Called by name at each step; fault tests end there.
    """

    backup: Backup
    place: BackupPlace
    now: Callable[[], float]
    entropy: Callable[[int], bytes]
    reason: str = ""
    known: Sequence[Path] = ()
    crash_point: CrashPoint = no_crash
    _why_lost: str = field(default="", init=False)

    def restore(self) -> Restored:
        """Put it back.

        Raises:
            SvcError: the backup does not verify, or the place is not empty, or somebody else's;
                nothing was changed.
            AuditBroken: ``audit_rolled_back``: a greater head is known and no reason was given.
            OSError: the disk refuses.
        """
        stamp, wanted = self.backup.manifest.stamp, self.place.settings.cluster
        if stamp.cluster != wanted:
            raise BackupBroken(
                f"the backup belongs to the cluster {stamp.cluster}, but the configuration to "
                f"{wanted}",
                reason="backup_mismatch",
            )
        within = own_within([file.path for file in self.backup.manifest.files])
        own = self.place.base.joinpath(*within.split("/")[1:])
        self.place = evolve(self.place, own=own)
        state = StateDirectory(self.place.base)
        state.claim()
        try:
            request = self._restored(within)
        except BaseException:
            state.abandon()
            raise
        state.release()
        is_there = (self.place.own / RECEIVER_FILE).exists()
        lost = () if is_there else lost_receiver(self.backup.manifest, within, self._why_lost)
        return Restored(request, tuple(lost))

    @property
    def _staged(self) -> Path:
        return self.place.own / RESTORING

    def _restored(self, within: str) -> RestoreRequest | None:
        is_new = not self.place.own.exists()
        if not self._was_whole():
            self._require_empty()
            if is_new:
                files.make_private_directory(self.place.own)
            try:
                self._stage(within)
            except BaseException:
                if not (self._staged / MARK).exists():
                    shutil.rmtree(self._staged, ignore_errors=True)
                    if is_new and not any(self.place.own.iterdir()):
                        self.place.own.rmdir()
                raise
        return self._bring(within)

    def _was_whole(self) -> bool:
        """Whether an earlier run ended between the store's commit and the last file."""
        try:
            begun = json.loads((self._staged / MARK).read_bytes())
        except FileNotFoundError:
            return False
        except ValueError:
            begun = None
        said = self.backup.manifest.store
        if begun != asdict(self.backup.manifest.stamp):
            raise AlreadyExists(
                f"{self._staged}: a restore of a different backup was started here; complete "
                "that one, or empty this directory"
            )
        if not self.place.copies.is_there(self.place.store.url):
            return False
        end = self.place.store.look("restore", lambda tx: tx.audit.head())
        return (end.seq, end.hash.hex()) == (said.records, said.last_hash)

    def _require_empty(self) -> None:
        place = self.place
        ours = {Path(os.path.abspath(each)) for each in place.copies.files(place.store.url)}
        passing = {place.base / "lock", self._staged, place.own / "anchor", place.own}
        for directory in (place.base, place.own):
            for each in directory.iterdir() if directory.is_dir() else ():
                if each not in ours | passing and each.suffix != ".toml":
                    raise AlreadyExists(
                        f"state_dir: {each} already exists; a backup is restored only to an "
                        "empty location (anchor/ may stay: it holds the heads known here)"
                    )
        if place.copies.is_there(place.store.url):
            raise AlreadyExists(
                "store_url: a store already exists; a backup is restored only to an empty location"
            )

    def _stage(self, within: str) -> None:
        """Everything beside its place, verified; then the store's commit."""
        shutil.rmtree(self._staged, ignore_errors=True)
        files.make_private_directory(self._staged)
        material = BackupCheck(self.backup, self.entropy).unpacked(lambda file: self._staged)
        self._require_same_owner(within, material)
        self._require_apart()
        self.crash_point("unpacked")
        witnesses, beyond = self._known_heads(material)
        manifest, url = self.backup.manifest, self.place.store.url
        with self.place.copies.filled(url, chain_hash, self.now) as filling:
            self._fill(filling, material, witnesses)
            self.crash_point("filled")
            if beyond is not None:
                end = ChainHead(manifest.store.records, bytes.fromhex(manifest.store.last_hash))
                request = RestoreRequest(
                    reason=self.reason,
                    uid=os.getuid(),
                    lost=beyond,
                    differs=end.seq + 1,
                    end=end,
                    good=end,
                )
                self._request_file(within).write(request)
            for directory, _, _ in os.walk(self._staged):
                durable.sync_directory(Path(directory))
            durable.replace(self._staged / MARK, json.dumps(asdict(manifest.stamp)).encode())
            self.crash_point("marked")
            filling.commit()
        self.crash_point("committed")

    def _request_file(self, within: str) -> StartupRequestFile[RestoreRequest]:
        """Where the next start finds that it is to go on from an older store."""
        return restore_request_file(self._staged / within / "anchor" / RESTORE_REQUEST)

    def _require_same_owner(self, within: str, material: AuthorityFiles) -> None:
        """Refuse to bring the receiver credential of one Authority to another one.

        A damaged one is left out: nobody's, it is of no use.  The name that the backup itself was
        made under is compared then; an earlier svc made backups without it.

        Raises:
            ReceiverOfAnother: naming both.
        """
        found = unpacked_receiver(self._staged, within, self.backup.manifest.stamp.cluster)
        if isinstance(found, str):
            self._why_lost = found
            (self._staged / within / RECEIVER_FILE).unlink(missing_ok=True)
            manifest = self.backup.manifest
            if f"{within}/{RECEIVER_FILE}" not in {file.path for file in manifest.files}:
                return  # there was none: it is no matter whose name it gets
        owner = self.backup.manifest.stamp.authority_name if isinstance(found, str) else found.owner
        wanted = self.place.settings.authority.name or material.authority
        if owner not in (wanted, material.authority, ""):
            raise ReceiverOfAnother(
                RECEIVER_FILE,
                f"the backup has the receiver credential of {owner}, and the configuration is that "
                f"of {wanted}; restore it where {owner} was, with authority.name = "
                f'"{owner}"; a further Authority is made with a copy of keys/ alone',
            )

    def _require_apart(self) -> None:
        """Refuse a file that would come to lie over the store that the configuration names."""
        stores = {os.path.abspath(each) for each in self.place.copies.files(self.place.store.url)}
        for file in self.backup.manifest.files:
            if str(self.place.base.joinpath(*file.path.split("/")[1:])) in stores:
                raise AlreadyExists(
                    f"store_url: the backup contains a file {file.path} at the path of the "
                    "store; set store_url to another path"
                )

    def _fill(
        self, filling: IStoreFilling, material: AuthorityFiles, witnesses: Mapping[int, SignedHead]
    ) -> None:
        manifest, tx = self.backup.manifest, filling.tx
        with self.backup.store() as lines:
            head = filling.fill(lines)
            self.backup.check_stamp(head)
        keeper = material.keeper
        verified = verify(
            checked_rows(tx),
            keeper.heads(),
            material.verify_head,
            latest=keeper.latest(),
            witnesses=[witnesses[size] for size in sorted(witnesses)],
            cluster=manifest.stamp.cluster,
        )
        self.backup.check_end(head, verified.records, verified.last_hash)
        if (tx.schema.fact("cluster") or manifest.stamp.cluster) != manifest.stamp.cluster:
            raise BackupBroken(
                "in the backup: the store belongs to a different cluster from the keys"
            )
        anchor = material.state_anchor
        check_anchor(tx.state, anchor.checkpoint() or StateView(), anchor.tip())

    def _known_heads(
        self, material: AuthorityFiles
    ) -> tuple[dict[int, SignedHead], SignedHead | None]:
        """Heads known outside the backup that its log must bear out, and the greatest beyond it.

        Raises:
            AuditBroken: one is beyond it and no reason was stated, or one is not to be believed.
        """
        manifest = self.backup.manifest
        borne: dict[int, SignedHead] = {}
        beyond: SignedHead | None = None
        here = AnchorDirectory(self.place.own / "anchor").restored()
        said = restorations([*here, *material.keeper.restored()], material.verify_head)
        for signed in self._all_known():
            head = signed.head
            if any(one.gives_up(signed) for one in said):
                continue
            if head.cluster != manifest.stamp.cluster:
                raise AuditBroken(
                    f"a known head belongs to the cluster {head.cluster}",
                    reason="audit_head_foreign",
                )
            if head.tree_size <= manifest.store.records:
                if borne.setdefault(head.tree_size, signed).head.root != head.root:
                    raise AuditBroken(f"two known heads over {head.tree_size} records differ")
            elif beyond is None or head.tree_size > beyond.head.tree_size:
                beyond = signed
        if beyond is not None:
            material.verify_head(beyond.signed, head_time(beyond.head))
            if not self.reason:
                raise AuditBroken(
                    f"the backup ends at record {manifest.store.records}, behind the signed "
                    f"head over {beyond.head.tree_size} that is known, so the records between them "
                    "would be lost. If that is intended, give --reason TEXT",
                    reason="audit_rolled_back",
                )
        return borne, beyond

    def _all_known(self) -> Iterator[SignedHead]:
        for name in ("heads.jsonl", GREATEST):
            yield from heads_in(self.place.own / "anchor" / name, missing_ok=True)
        for path in self.known:
            yield from heads_given(path)()

    def _bring(self, within: str) -> RestoreRequest | None:
        """Bring the files to their place; the keys come last.  May be run again and again."""
        own, staged = self.place.own, self._staged
        ours, all_roles = staged / within, staged / STATE
        if ours != all_roles:
            for other in sorted(each for each in all_roles.iterdir() if each != ours):
                durable.move(other, self.place.base / other.name)
        if (ours / "anchor").exists():
            if (own / "anchor").exists():
                # What was known here is evidence of what the restored log has lost.
                before = f"before-{self.backup.manifest.stamp.id[:8]}"
                durable.move(own / "anchor", ours / "anchor" / before)
            durable.move(ours / "anchor", own / "anchor")
            self.crash_point("moved anchor")
        for each in sorted(ours.iterdir() if ours.exists() else ()):
            if each.name != "keys":
                durable.move(each, own / each.name)
                self.crash_point(f"moved {each.name}")
        if (staged / CONFIGURATION).exists():
            durable.move(staged / CONFIGURATION, own / KEPT)
        if (ours / "keys").exists():
            durable.move(ours / "keys", own / "keys")
        self.crash_point("moved keys")
        # In one step: half removed it could neither be gone on with nor be begun again.
        left = own / f"{RESTORING}.new"
        shutil.rmtree(left, ignore_errors=True)
        durable.move(staged, left)
        self.crash_point("done")
        shutil.rmtree(left)
        return restore_request_file(own / "anchor" / RESTORE_REQUEST).read()
