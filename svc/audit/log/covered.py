"""The records that one signed head covers, for exports and proofs.

Only these are ever given to others.  They cannot change any more: a store that
lost one of them is refused at start.  So a number that was handed on always
means the same record.  Pure over what reads the rows; constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.checkpoint.proofs import (
    RangeHashes,
    check_consistency,
    check_inclusion,
    consistency_ranges,
    inclusion_ranges,
)
from svc.audit.log.verify import ChainFault, batch_at, beyond_end, check_record, follow
from svc.errors import NoSuchRow
from svc.model.audit.batch import RequestBatch, is_batch
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import GENESIS, SignedHead

BATCH = 1024
"""Records in memory at a time."""


@frozen
class CoveredRow:
    """A row, the record it holds, and its personal values where they were asked for.

    Attributes:
        batch: What the row commits to, where it is a batch of requests and they are asked for.
    """

    row: ChainRow
    record: dict[str, object]
    personal: Sequence[PersonalValue] = ()
    batch: RequestBatch | None = None


ReadEntries = Callable[[int, int], Sequence[tuple[ChainRow, Sequence[PersonalValue]]]]
"""``read(from_seq, limit)``: at most *limit* rows, in order, with what is to be told of them.

May be of another snapshot of the store each time: covered rows do not change."""


def entries(
    read: ReadEntries, head: SignedHead, after: int = 0, *, requests: bool = False
) -> Iterator[CoveredRow]:
    """The entries past *after*, as far as *head* covers them; the last one is as it says.

    Args:
        head: Its signature has been judged.
        after: From the first record on the tree is made, too: it covers origins' signatures,
            which the chain does not.
        requests: Whether the entries of batches are wanted; then *read* gives what is beside them.

    Raises:
        NoSuchRow: *after* is past what the head covers.
        ChainFault: naming the first record that is not as it was.
    """
    end, last = head.head.tree_size, _hash_at(read, head, after)
    seq, tree = after, None if after else Tree()
    while seq < end:
        batch = read(seq + 1, min(BATCH, end - seq))
        if not batch:
            raise ChainFault(seq + 1, "head_beyond_end", beyond_end(end, seq))
        for row, personal in batch:
            seq += 1
            last = follow(row, seq, last)
            entry = covered_row(row, personal, requests=requests)
            if tree is not None:
                tree.append(leaf_hash(row.canonical, row.signature))
            if seq == end:
                _check_end(head, last, tree)
            yield entry
    _check_end(head, last, tree)


def covered_row(
    row: ChainRow, personal: Sequence[PersonalValue], *, requests: bool = False
) -> CoveredRow:
    """The record of a row.  Raises ChainFault: what belongs to it is not what it hides."""
    record = check_record(row, personal)
    if not is_batch(record):
        return CoveredRow(row, record, personal)
    return CoveredRow(row, record, batch=batch_at(row, record, personal) if requests else None)


def _hash_at(read: ReadEntries, head: SignedHead, seq: int) -> bytes:
    end = head.head.tree_size
    if seq > end:
        raise NoSuchRow(
            f"audit log: there is no record {seq}; the newest head covers {end} records"
        )
    if not seq:
        return GENESIS
    found = read(seq, 1)
    if not found or found[0][0].seq != seq:
        raise ChainFault(seq, "gap", "the record is missing")
    return found[0][0].hash


def _check_end(head: SignedHead, last: bytes, tree: Tree | None) -> None:
    end = head.head.tree_size
    if tree is not None and tree.root != head.head.root:
        raise ChainFault(
            end,
            "head_mismatch",
            f"the records up to {end}, with their origins' signatures, are "
            "not those that the head signed",
        )
    if last != head.head.last_hash:
        raise ChainFault(
            end, "head_mismatch", f"record {end} differs from the one that the head covers"
        )


def prove_inclusion(
    read: ReadEntries, head: SignedHead, seq: int
) -> tuple[CoveredRow, Sequence[bytes]]:
    """Record *seq*, and the hashes that show it in the tree of *head*.

    Raises:
        NoSuchRow: the head does not cover such a record.
        ChainFault, AuditBroken: the rows differ from those that the head covers.
    """
    size = head.head.tree_size
    if not 0 < seq <= size:
        raise NoSuchRow(f"audit log: there is no record {seq}; the head covers {size} records")
    path, found = RangeHashes(inclusion_ranges(seq - 1, size)), None
    for entry in entries(read, head):
        path.take(leaf_hash(entry.row.canonical, entry.row.signature))
        if entry.row.seq == seq:
            found = entry
    assert found is not None  # the entries end where the head does
    hashes = path.hashes()
    leaf = leaf_hash(found.row.canonical, found.row.signature)
    check_inclusion(seq - 1, size, leaf, hashes, head.head.root)
    return found, hashes


def prove_consistency(
    read: ReadEntries, head: SignedHead, first: int
) -> tuple[bytes, Sequence[bytes]]:
    """The root over the first records, and the hashes that show them to begin the tree of *head*.

    Raises:
        NoSuchRow: the head does not cover so many records, or there are none.
        ChainFault, AuditBroken: the rows differ from those that the head covers.
    """
    size, before = head.head.tree_size, Tree()
    if not 0 < first <= size:
        raise NoSuchRow(f"audit log: a log of {size} records has no beginning of {first} records")
    path = RangeHashes(consistency_ranges(first, size))
    for entry in entries(read, head):
        leaf = leaf_hash(entry.row.canonical, entry.row.signature)
        path.take(leaf)
        if entry.row.seq <= first:
            before.append(leaf)
    hashes = path.hashes()
    check_consistency(first, size, hashes, before.root, head.head.root)
    return before.root, hashes
