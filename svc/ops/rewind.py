"""What an operator sees before the log continues from an older store (rule R10)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path

from attrs import frozen

from svc.audit.checkpoint.anchor import AnchorDirectory, heads_given, heads_in
from svc.audit.checkpoint.head import head_time
from svc.audit.checkpoint.latest import GREATEST, LatestCheckpoint, check_place
from svc.audit.checkpoint.rewind import restorations
from svc.authority.state.rewind import (
    MAX_REASON,
    RESTORE_REQUEST,
    RestoreRequest,
    restore_request_file,
)
from svc.config import RoleSettings
from svc.errors import AuditBroken, Fault, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainHead
from svc.model.audit.record import GENESIS, SignedHead, chain_hash
from svc.ops.verify.log import OutsideLog, outside_log
from svc.ops.verify.rows import batches


class NothingLost(SvcError):
    """The store has every record that a known head covers, so nothing would be lost."""

    fault = Fault.PRECONDITION
    reason = "audit_not_rolled_back"


@frozen
class LostLine:
    """An older store, and what is known of the line that it lost.

    Attributes:
        end: Where it ends.
        good: The last record that verifies, from the common head on.
        lost: The greatest head whose records it does not hold; None: it holds those of all.
        differs: How many the smallest such head covers.
        common: The greatest of our own heads whose records it holds.
    """

    end: ChainHead
    good: ChainHead
    lost: SignedHead | None
    differs: int
    common: SignedHead | None

    @property
    def damaged(self) -> int:
        """How many records follow the last one that verifies."""
        return self.end.seq - self.good.seq

    @property
    def first_missing(self) -> int:
        """The first record that is missing, or after which the two differ."""
        if self.lost is None or self.damaged:
            return self.good.seq + 1
        if self.end.seq < self.lost.head.tree_size:
            return self.end.seq + 1
        return 1 if self.common is None else self.common.head.tree_size + 1


def find_lost(settings: RoleSettings, state: Path, files: Sequence[Path] = ()) -> LostLine:
    """Verify the store's log, and compare it with every head that is known here.

    Blocks for as long as it takes to read the log once; nothing is changed.

    Args:
        state: The Authority's own state directory.
        files: Heads that others kept.

    Raises:
        NothingLost: the store holds them all.
        AuditBroken, SvcError: a head is not good, or the store cannot be read.
    """
    log = outside_log(settings, state)
    said = restorations(log.keeper.restored(), log.verify_head)
    known = [
        head
        for head in _known(log, state / "anchor", witness_files(settings), files)
        if not any(one.gives_up(head) for one in said)
    ]
    for head in known:
        check_place(head, settings.cluster, settings.cluster)
        log.verify_head(head.signed, head_time(head.head))
    ours = list(log.keeper.heads())

    def look(tx: ITransaction) -> LostLine:
        good, hashes = _verified(tx, {head.head.tree_size for head in (*known, *ours)})
        lost = [head for head in known if not _stands(head, hashes)]
        lost.sort(key=lambda head: head.head.tree_size)
        standing = [head for head in ours if _stands(head, hashes)]
        return LostLine(
            end=tx.audit.head(),
            good=good,
            lost=lost[-1] if lost else None,
            differs=lost[0].head.tree_size if lost else 0,
            common=standing[-1] if standing else None,
        )

    found = log.store.look("audit adopt", look)
    if found.lost is None and not found.damaged:
        raise NothingLost(
            f"the store ends at record {found.end.seq}: it contains the records of every known "
            "head, and the later ones verify; there is nothing to adopt"
        )
    return found


def _verified(tx: ITransaction, sizes: Set[int]) -> tuple[ChainHead, dict[int, bytes]]:
    """The last record that follows from all before it, and the hashes of those in *sizes*."""
    good, hashes = ChainHead(), {0: GENESIS}
    try:
        for row in chain.from_iterable(batches(tx.audit)):
            expected = chain_hash(good.seq + 1, good.hash, row.canonical)
            if (row.seq, row.prev_hash, row.hash) != (good.seq + 1, good.hash, expected):
                break
            good = ChainHead(row.seq, row.hash)
            if row.seq in sizes:
                hashes[row.seq] = row.hash
    except AuditBroken:
        # A record that cannot be read does not verify, as long as it is the record and not
        # the store: what answers no more has lost nothing.
        tx.audit.head()
    return good, hashes


def _stands(head: SignedHead, hashes: Mapping[int, bytes]) -> bool:
    return hashes.get(head.head.tree_size) == head.head.last_hash


def ask_to_go_on(state: Path, found: LostLine, reason: str) -> None:
    """Store the request for the next start of the Authority. Blocks.

    Raises:
        SvcError: there is no reason, or a very long one.
    """
    if not reason.strip() or len(reason) > MAX_REASON:
        raise SvcError(
            f"a reason of 1 to {MAX_REASON} characters is required, for the audit log",
            reason="usage",
            fault=Fault.INVALID,
        )
    request = RestoreRequest(
        reason=reason.strip(),
        uid=os.getuid(),
        lost=found.lost,
        differs=found.differs,
        end=found.end,
        good=found.good,
    )
    restore_request_file(state / "anchor" / RESTORE_REQUEST).write(request)


def witness_files(settings: RoleSettings) -> list[Path]:
    """The witnesses that are files, and are there."""
    places = [
        Path(url.removeprefix("file://"))
        for url in settings.audit.witness
        if url.startswith("file://")
    ]
    return [place for place in places if place.exists()]


def _known(
    log: OutsideLog, anchor: Path, witnesses: Sequence[Path], given: Sequence[Path]
) -> Iterator[SignedHead]:
    newest = AnchorDirectory(anchor).newest()
    told = LatestCheckpoint(
        path=anchor / GREATEST, verify_head=log.verify_head, cluster=log.cluster, log_id=log.cluster
    )
    told.load()
    yield from (head for head in (newest, told.kept) if head is not None)
    for path in witnesses:
        yield from heads_in(path)
    for path in given:
        yield from heads_given(path)()
