"""The records that one signed head covers, for exports and proofs.

Only these are ever given to others.  They cannot change any more: a store that
lost one of them is refused at start.  So a number that was handed on always
means the same record.  Pure over what reads the rows; constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import define, field, frozen

from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.checkpoint.proofs import (
    RangeHashes,
    check_consistency,
    check_inclusion,
    consistency_ranges,
    inclusion_ranges,
)
from svc.audit.log.alike import Alike, KnownRecords
from svc.audit.log.verify import (
    ChainFault,
    batch_at,
    beyond_end,
    check_record,
    check_said,
    follow,
)
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
        alike: What the record says, where it is of a known form; it is then canonical.
    """

    row: ChainRow
    _record: dict[str, object] | None
    personal: Sequence[PersonalValue] = ()
    batch: RequestBatch | None = None
    alike: Alike | None = field(default=None, repr=False)

    @property
    def record(self) -> dict[str, object]:
        """What the row says; one of a known form is read only if somebody asks."""
        return check_record(self.row) if self._record is None else self._record


ReadEntries = Callable[[int, int], Sequence[tuple[ChainRow, Sequence[PersonalValue]]]]
"""``read(from_seq, limit)``: at most *limit* rows, in order, with what is to be told of them.

May be of another snapshot of the store each time: covered rows do not change."""


@frozen
class CoveredPart:
    """Consecutive rows that were verified against each other, and the lines made of them.

    Attributes:
        prev: What the first row names as the hash before it.
        last: The hash of the last row.
        leaves: Of the rows, in order.
    """

    prev: bytes
    last: bytes
    leaves: Sequence[bytes] = field(repr=False)
    lines: Sequence[str] = field(repr=False)


@define
class CoveredChain:
    """How far a walk along the records that a head covers has come; the last one is as it says.

    Attributes:
        seq: The record that was reached.
        last: Its hash.
        tree: Of the records up to it, where the walk began with the first: the tree covers
            origins' signatures, which the chain does not.
    """

    head: SignedHead
    seq: int
    last: bytes
    tree: Tree | None

    @classmethod
    def after(cls, read: ReadEntries, head: SignedHead, seq: int) -> CoveredChain:
        """Begin past record *seq*.

        Args:
            head: Its signature has been judged.

        Raises:
            NoSuchRow: *seq* is past what the head covers.
            ChainFault: the record is missing.
        """
        last = _hash_at(read, head, seq)
        return cls(head=head, seq=seq, last=last, tree=None if seq else Tree())

    @property
    def end(self) -> int:
        """The last record that the head covers."""
        return self.head.head.tree_size

    def entries(self, read: ReadEntries, *, requests: bool = False) -> Iterator[CoveredRow]:
        """Walk to the end.

        Args:
            requests: Whether the entries of batches are wanted; then *read* gives what is beside
                them.

        Raises:
            ChainFault: naming the first record that is not as it was.
        """
        known = KnownRecords()
        while self.seq < self.end:
            batch = read(self.seq + 1, min(BATCH, self.end - self.seq))
            if not batch:
                what = beyond_end(self.end, self.seq)
                raise ChainFault(self.seq + 1, "head_beyond_end", what)
            for row, personal in batch:
                self.seq += 1
                self.last = follow(row, self.seq, self.last)
                entry = covered_row(row, personal, known, requests=requests)
                if self.tree is not None:
                    self.tree.append(leaf_hash(row.canonical, row.signature))
                if self.seq == self.end:
                    _check_end(self.head, self.last, self.tree)
                yield entry
        _check_end(self.head, self.last, self.tree)

    def join(self, part: CoveredPart) -> bool:
        """Go on by rows that were verified; False, and no step, where they do not fit."""
        if part.prev != self.last:
            return False
        seq, tree = self.seq + len(part.leaves), None
        if self.tree is not None:
            tree = Tree(self.tree.size, list(self.tree.edge))
            for leaf in part.leaves:
                tree.append(leaf)
        if seq == self.end:
            try:
                _check_end(self.head, part.last, tree)
            except ChainFault:
                return False
        self.seq, self.last, self.tree = seq, part.last, tree
        return True


def entries(
    read: ReadEntries, head: SignedHead, after: int = 0, *, requests: bool = False
) -> Iterator[CoveredRow]:
    """The entries past *after*, as far as *head*, whose signature has been judged, covers them.

    Raises:
        NoSuchRow: *after* is past what the head covers.
        ChainFault: naming the first record that is not as it was.
    """
    return CoveredChain.after(read, head, after).entries(read, requests=requests)


def covered_part(
    read: ReadEntries,
    first: int,
    count: int,
    lines_of: Callable[[CoveredRow], Iterable[str]],
    known: KnownRecords,
    *,
    requests: bool = False,
) -> CoveredPart:
    """The records from *first* on, by themselves.

    Args:
        known: How records are written that were read before.

    Raises:
        ChainFault: not all are as they were.
    """
    rows = read(first, count)
    if len(rows) != count:
        raise ChainFault(first + len(rows), "gap", "the record is missing")
    prev = last = rows[0][0].prev_hash
    leaves, lines = list[bytes](), list[str]()
    for seq, (row, personal) in enumerate(rows, first):
        last = follow(row, seq, last)
        lines += lines_of(covered_row(row, personal, known, requests=requests))
        leaves.append(leaf_hash(row.canonical, row.signature))
    return CoveredPart(prev=prev, last=last, leaves=leaves, lines=lines)


def covered_row(
    row: ChainRow,
    personal: Sequence[PersonalValue],
    known: KnownRecords | None = None,
    *,
    requests: bool = False,
) -> CoveredRow:
    """The record of a row.  Raises ChainFault: what belongs to it is not what it hides."""
    alike = None if known is None else known.read(row.canonical)
    if alike is not None:
        check_said(row, personal, alike)
        return CoveredRow(row, None, personal, alike=alike)
    record = check_record(row, personal, known)
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
