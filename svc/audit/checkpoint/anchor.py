"""The anchor directory: signed heads on disk, outside the store.

``heads.jsonl`` has a line a head; ``latest`` repeats the newest with the right
edge of the tree, replaced whole.  A line is durable before ``latest`` names
it, so after a crash ``latest`` is at most one line behind; a last line without
its end was never acknowledged and is dropped.  When ``heads.jsonl`` has twice
as many lines as are kept, the older ones are thinned (``svc.audit.checkpoint.pruning``).

Where an older store was put back on purpose the heads that it lost are moved to a
file of their own, ``lost-SIZE-HASH.jsonl``, and ``restored.jsonl`` has the heads that prove
each time that this was asked for (``svc.audit.checkpoint.rewind``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from attrs import define, field
from zope.interface import implementer

from svc.audit.checkpoint.head import from_line, to_line
from svc.audit.checkpoint.pruning import pruned
from svc.errors import AuditBroken, Malformed
from svc.interfaces.audit import IHeadKeeper
from svc.model.audit.record import SignedHead
from svc.runtime import durable
from svc.runtime.durable import open_regular
from svc.runtime.given_file import given_file

MAX_LINE = 1 << 16

MAX_PIPED = 1 << 26
"""Bytes of heads that are read from a pipe."""

CHAIN_EVERY = 256
"""The certificates are repeated after that many lines, and whenever the key changes."""

KEPT = 4096
"""So many of the newest heads are kept: an hour and more, where there is one each second."""

RESTORED_KEPT = 8
"""So many of the newest proofs of a restored store are kept, and told to others."""


class AnchorUnreadable(AuditBroken):
    """A file of the anchor directory is damaged; the text names it, and what to do."""

    reason = "audit_anchor_unreadable"


@implementer(IHeadKeeper)
@define
class AnchorDirectory:
    """Signed heads in one private directory, which the first head creates if it is missing.

    *kept* is how many of the newest heads are never pruned.
    """

    path: Path
    kept: int = KEPT
    _count: int | None = field(default=None, init=False)
    _since_chain: int = field(default=0, init=False)
    _key_id: str = field(default="", init=False)

    def newest(self) -> SignedHead | None:
        """See :class:`IHeadKeeper`.

        Where ``latest`` is missing the last line of ``heads.jsonl`` replaces it: the next head
        makes it again.

        Raises:
            AnchorUnreadable: a file is damaged, or one contradicts the other.
        """
        latest, last = self.latest(), self._last_line()
        if last is None:
            if latest is None:
                return None
            raise self._unreadable("heads.jsonl", "it is empty or missing, but latest exists")
        if latest is None:
            return self._last_head()
        try:
            newest = parsed_head(last, {latest.head.key_id: latest.signed.chain})
        except AuditBroken:
            newest = self._last_head()
        if newest.head.tree_size > latest.head.tree_size:
            return newest
        if newest.hash != latest.hash:
            raise self._unreadable("latest", "it is not the last line of heads.jsonl")
        return latest

    def latest(self) -> SignedHead | None:
        """The head in the file ``latest``, or None if there is no such file.

        Raises:
            AnchorUnreadable: it holds something else.
        """
        try:
            with open_regular(self.path / "latest") as file:
                data = file.read(MAX_LINE + 1)
            return parsed_head(data.removesuffix(b"\n"), {})
        except FileNotFoundError:
            return None
        except OSError as failed:
            raise self._unreadable("latest", failed.strerror or "it cannot be read") from None
        except AuditBroken:
            raise self._unreadable("latest", "it is not a signed head") from None

    def _last_head(self) -> SignedHead:
        """The last line of ``heads.jsonl``, with the certificates of a line before it."""
        try:
            *_, last = self.heads()
        except AuditBroken as broken:
            raise self._unreadable("heads.jsonl", broken.text) from None
        return last

    def _unreadable(self, name: str, why: str) -> AnchorUnreadable:
        advice = "put a copy in its place, from a backup or a witness"
        if name == "latest":
            advice = "remove the file, and the last line of heads.jsonl is used instead"
        return AnchorUnreadable(
            f"{self.path / name}: {why.removeprefix('audit anchor: ')}; {advice}"
        )

    def keep(self, head: SignedHead) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with_chain = head.head.key_id != self._key_id or self._since_chain >= CHAIN_EVERY
        # What failed on the way is tried again with the same head: its line may be there.
        if self._last_line() not in (to_line(head), to_line(head, chain=False)):
            _append(self.path / "heads.jsonl", to_line(head, chain=with_chain) + b"\n")
        if head.restored is not None:
            self._keep_restored(head)
        durable.replace(self.path / "latest", to_line(head, edge=True) + b"\n")
        self._key_id = head.head.key_id
        self._since_chain = 1 if with_chain else self._since_chain + 1
        self._prune()

    def heads(self) -> Iterator[SignedHead]:
        return heads_in(self.path / "heads.jsonl", missing_ok=True)

    def restored(self) -> tuple[SignedHead, ...]:
        """The heads that continued from an older store, oldest first.

        Raises:
            AuditBroken: the file cannot be read.
        """
        return tuple(heads_in(self.path / "restored.jsonl", missing_ok=True))

    def give_up(self, size: int) -> int:
        """Move the heads over more than *size* records aside; how many.  Again changes nothing.

        Raises:
            AuditBroken: what is kept cannot be read.
        """
        kept, lost = list[SignedHead](), list[SignedHead]()
        for head in self.heads():
            (kept if head.head.tree_size <= size else lost).append(head)
        latest = self.latest()
        if lost:
            # First what is moved is there, then what it was moved from is less.
            name = f"lost-{lost[-1].head.tree_size}-{lost[-1].hash.hex()[:8]}.jsonl"
            durable.replace(self.path / name, b"".join(to_line(head) + b"\n" for head in lost))
            lines = b"".join(to_line(head) + b"\n" for head in kept)
            durable.replace(self.path / "heads.jsonl", lines)
        if latest is not None and latest.head.tree_size > size:
            (self.path / "latest").unlink()
        self._count, self._key_id = None, ""
        return len(lost)

    def _keep_restored(self, head: SignedHead) -> None:
        before = [one for one in self.restored() if one.hash != head.hash]
        lines = [to_line(one) + b"\n" for one in [*before, head][-RESTORED_KEPT:]]
        durable.replace(self.path / "restored.jsonl", b"".join(lines))

    def _prune(self) -> None:
        """Thin the file once it has twice the lines that are always kept."""
        path = self.path / "heads.jsonl"
        if self._count is None:
            self._count = _count_lines(path)
        else:
            self._count += 1
        if self._count < 2 * self.kept:
            return
        # Those kept for their day are not counted: they are never fewer again.
        self._count = self.kept
        try:
            with path.open("rb") as file:
                left = pruned(iter(lambda: file.readline(MAX_LINE + 2), b""), self.kept)
            durable.replace(path, b"".join(left))
        except (Malformed, OSError):
            # The head is kept all the same.  A damaged file stays, for verifying to name.
            return

    def _last_line(self) -> bytes | None:
        try:
            with open_regular(self.path / "heads.jsonl") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 2 * MAX_LINE))
                tail = file.read()
        except FileNotFoundError:
            return None
        whole = tail[: tail.rfind(b"\n") + 1].splitlines()
        return whole[-1] if whole else None


def heads_in(path: Path, *, missing_ok: bool = False) -> Iterator[SignedHead]:
    """The heads of a file, a line each, as far as it goes now; blocks while iterating.

    Raises:
        AuditBroken: the file cannot be read; while iterating, a line is not a head.
    """
    try:
        file = open_regular(path)
        return _lines(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError as missing:
        if missing_ok:
            return iter(())
        raise AuditBroken(f"audit anchor: {path}: {missing.strerror}") from None
    except OSError as failed:
        raise AuditBroken(f"audit anchor: {path}: {failed.strerror}") from None


def heads_given(path: Path) -> Callable[[], Iterator[SignedHead]]:
    """Reads the heads of a file that a person names, which may be a pipe.  Blocks, too, each time.

    Raises:
        AuditBroken: the file cannot be read or holds no line; of what is returned: while
            iterating, a line is not a head.
    """
    try:
        opened = given_file(path, MAX_PIPED)
        with opened() as file:
            is_empty = not any(line.strip() for line in _pieces(file))
    except OSError as failed:
        raise AuditBroken(f"audit anchor: {path}: {failed.strerror}") from None
    if is_empty:
        raise AuditBroken(
            f"audit anchor: {path}: it contains no signed head; pass a copy of heads.jsonl or "
            "latest"
        )
    return lambda: _given(opened)


def _given(opened: Callable[[], BinaryIO]) -> Iterator[SignedHead]:
    chains: dict[str, tuple[bytes, ...]] = {}
    found = False
    with opened() as file:
        for line in _pieces(file):
            # Copied while it was written to, a file may end in the middle of a line.
            is_cut = found and not line.endswith((b"\n", b"}"))
            if line.strip() and not is_cut:
                yield parsed_head(line.removesuffix(b"\n"), chains)
                found = True


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The lines, none of them longer than one that is too long for a head."""
    return iter(lambda: file.readline(MAX_LINE + 2), b"")


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _lines(file: BinaryIO, end: int) -> Iterator[SignedHead]:
    chains: dict[str, tuple[bytes, ...]] = {}
    with file:
        while file.tell() < end:
            line = file.readline(MAX_LINE + 2)
            if not line.endswith(b"\n") and file.tell() >= end:
                return
            yield parsed_head(line.removesuffix(b"\n"), chains)


def _append(path: Path, line: bytes) -> None:
    """Append durably, over what an unfinished append may have left."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with durable.naming(path), open(descriptor, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * MAX_LINE))
        tail = file.read()
        file.seek(size - len(tail) + tail.rfind(b"\n") + 1)
        file.truncate()
        file.write(line)
        file.flush()
        os.fsync(descriptor)


def parsed_head(line: bytes, chains: dict[str, tuple[bytes, ...]]) -> SignedHead:
    """The head in a line of a file, without its end.  Raises AuditBroken."""
    try:
        if len(line) > MAX_LINE:
            raise Malformed("audit head: the line is too long")
        return from_line(line, chains)
    except Malformed as refused:
        raise AuditBroken(f"audit anchor: {refused.text}") from refused
