"""Keeps the latest signed head that anybody presented on disk, and never goes back from it.

Proxies, residents and Authorities keep one (rule R10).  Two heads alone show
which is the greater, and that two of one size differ; whether the greater one
continues the smaller is seen only with the records, so that is for the
Authority, which is told the head at each greeting, and for an auditor.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from attrs import define, field
from twisted.internet.defer import DeferredLock

from svc.audit.checkpoint.head import from_line, head_time, to_line
from svc.audit.checkpoint.rewind import restoration
from svc.errors import AuditBroken, Malformed, SvcError
from svc.interfaces.audit import HeadVerifier
from svc.model.audit.record import SignedHead
from svc.runtime import durable
from svc.runtime.durable import open_regular
from svc.runtime.threads import InThread, inline

MAX_HEAD = 32_768
"""Bytes of a head as a peer tells it, with certificate and the record of a restored store."""


MAX_PROOFS = 8
"""Restored stores whose lost lines are remembered."""

GREATEST = "greatest"
"""In the anchor directory: a head of others that our own records contradict."""


class HeadComparison(Enum):
    """The result of checking a presented head."""

    KNOWN = "known"
    BEHIND = "behind"
    """It covers fewer records than the one kept."""
    NEWER = "newer"
    RESTORED = "restored"
    """The log goes on from an older store, as a signed record says."""


@define
class LatestCheckpoint:
    """One file with one head; :meth:`load` comes first.

    Attributes:
        path: The file; the head that a restored store gave up is kept beside it, as ``.lost``.
        verify_head: Judges what somebody says was signed.
        cluster: Of all heads that are taken.
        log_id: Of all heads that are taken.
        in_thread: Where the file is written.
    """

    path: Path
    verify_head: HeadVerifier
    cluster: str
    log_id: str
    in_thread: InThread = inline
    kept: SignedHead | None = field(default=None, init=False)
    _given_up: tuple[SignedHead, ...] = field(default=(), init=False)
    _lock: DeferredLock = field(factory=DeferredLock, init=False)

    def load(self) -> None:
        """Read what was kept; blocks.

        Raises:
            SvcError: the file cannot be read as what it is.
        """
        try:
            with open_regular(self.path) as file:
                self.kept = from_line(file.read(MAX_HEAD + 1).removesuffix(b"\n"), {})
        except FileNotFoundError:
            self.kept = None
        except (OSError, Malformed):
            raise SvcError(
                f"{self.path}: it cannot be read as a signed audit head; move it away to start "
                "again without it",
                reason="audit_head_file",
            ) from None

        self._given_up = self._loaded_proofs()

    def set_aside_foreign(self) -> Path | None:
        """Keep what was loaded under another name if it is of another log; blocks.

        Somebody who joined another gateway in the same place must not compare its log with that
        of the one before.

        Returns:
            Where it is now, or None: it is of our log, or there is none.
        """
        kept = self.kept
        if kept is None:
            return None
        try:
            check_place(kept, self.cluster, self.log_id)
            self.verify_head(kept.signed, head_time(kept.head))
            return None
        except SvcError:
            aside = self.path.with_name(self.path.name + ".before")
            durable.move(self.path, aside)
            self._proofs_path.unlink(missing_ok=True)
            self.kept, self._given_up = None, ()
            return aside

    def _loaded_proofs(self) -> tuple[SignedHead, ...]:
        try:
            lines = self._proofs_path.read_bytes().splitlines()
            return tuple(from_line(line, {}) for line in lines[-MAX_PROOFS:])
        except FileNotFoundError:
            return ()
        except (OSError, Malformed):
            raise SvcError(
                f"{self._proofs_path}: it cannot be read as signed audit heads; move it away",
                reason="audit_head_file",
            ) from None

    @property
    def _proofs_path(self) -> Path:
        return self.path.with_name(self.path.name + ".restored")

    @property
    def line(self) -> bytes:
        """The stored head, in the form for others; empty if there is none."""
        return b"" if self.kept is None else to_line(self.kept)

    @property
    def restoration(self) -> str:
        """The hash, in hex, of the newest head that gave a line up which was kept; empty: none."""
        return self._given_up[-1].hash.hex() if self._given_up else ""

    async def take(self, line: bytes) -> HeadComparison:
        """Accept a presented head; it is durable when this returns.

        Raises:
            AuditBroken: ``audit_rolled_back``: it contradicts the one kept;
                ``audit_head_foreign``: it is of another log.
            Malformed: it is no head.
            SvcError: nobody that we trust signed it.
        """
        head = parse_head(line)
        await self._lock.acquire()
        try:
            return await self._take(head)
        finally:
            self._lock.release()

    async def _take(self, head: SignedHead) -> HeadComparison:
        check_place(head, self.cluster, self.log_id)
        # What a line says of a restored store is not covered by its signature: it must fold.
        restoration(head)
        kept, size = self.kept, head.head.tree_size
        if kept is None:
            return await self._keep(head, HeadComparison.NEWER)
        if head.hash == kept.hash:
            return HeadComparison.KNOWN
        if head.restored is not None and head.head.time > kept.head.time:
            return await self._restored(head, kept)
        if self._is_given_up(head):
            return HeadComparison.BEHIND
        if size > kept.head.tree_size:
            return await self._keep(head, HeadComparison.NEWER)
        if size < kept.head.tree_size:
            return HeadComparison.BEHIND
        self.verify_head(head.signed, head_time(head.head))
        if (head.head.root, head.head.last_hash) != (kept.head.root, kept.head.last_hash):
            raise AuditBroken(
                f"audit log: two signed heads over {size} records differ, so there are two "
                "histories",
                reason="audit_rolled_back",
            )
        return HeadComparison.KNOWN

    async def _restored(self, head: SignedHead, kept: SignedHead) -> HeadComparison:
        proof = restoration(head)
        assert proof is not None
        if head.head.tree_size <= kept.head.tree_size and not proof.gives_up(kept):
            raise AuditBroken(
                f"audit log: the record of a restored store gives up a head over {proof.lost_size}"
                f" records, and not the one over {kept.head.tree_size} that is kept here",
                reason="audit_rolled_back",
            )
        return await self._keep(head, HeadComparison.RESTORED)

    def _is_given_up(self, head: SignedHead) -> bool:
        """Whether it is of a line that was given up: somebody was away since, and still has it."""
        proof = (restoration(one) for one in self._given_up)
        return any(one is not None and one.gives_up(head) for one in proof)

    async def _keep(self, head: SignedHead, taken: HeadComparison) -> HeadComparison:
        self.verify_head(head.signed, head_time(head.head))
        before, proofs = self.kept, self._given_up
        if taken is HeadComparison.RESTORED:
            proofs = (*proofs, head)[-MAX_PROOFS:]

        def write() -> None:
            if taken is HeadComparison.RESTORED and before is not None:
                lost = self.path.with_name(self.path.name + ".lost")
                durable.replace(lost, to_line(before) + b"\n")
                durable.replace(self._proofs_path, b"".join(to_line(one) + b"\n" for one in proofs))
            durable.replace(self.path, to_line(head) + b"\n")

        await self.in_thread(write)
        self.kept, self._given_up = head, proofs
        return taken


def parse_head(line: bytes) -> SignedHead:
    """The head in a line that a peer sent; nothing of it is believed yet.

    Raises:
        Malformed: it is none, or too long.
    """
    if len(line) > MAX_HEAD:
        raise Malformed("audit head: it is too long")
    return from_line(line, {})


def check_place(head: SignedHead, cluster: str, log_id: str) -> None:
    """Refuse a head of another log.

    Raises:
        AuditBroken: ``audit_head_foreign``.
    """
    if (head.head.cluster, head.head.log_id) != (cluster, log_id):
        raise AuditBroken(
            "audit head: it belongs to another cluster or log", reason="audit_head_foreign"
        )
