"""Verifies the log: computes everything again from the stored rows.

Pure over iterators, in constant memory.  The chain by itself shows an edit, a
gap, an insertion; only the signed heads show that the newest rows were cut off
or that an older store was put back.  So without a head nothing is verified,
and whatever cannot be read is a fault, never a reason to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json.scanner import make_scanner
from typing import Any, cast

from attrs import define, evolve, field, frozen

from svc.audit.checkpoint.head import NO_HEAD, head_time
from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.audit.log.alike import Alike, KnownRecords
from svc.audit.log.entries import decided_over, erased_values, event_of, missing_values
from svc.audit.log.record import is_hashed, is_hidden, marker
from svc.errors import AuditBroken, Malformed, SvcError
from svc.interfaces.audit import HeadVerifier
from svc.model.audit.batch import RequestBatch, is_batch, read_batch
from svc.model.audit.events import ERASING
from svc.model.audit.ledger import ChainRow, PersonalValue
from svc.model.audit.record import FIRST_SEQ, GENESIS, Head, SignedHead, chain_hash

PersonalOf = Callable[[int, int], Mapping[int, Sequence[PersonalValue]]]
"""``personal_of(first, last)``: what is not erased of the records *first* to *last*."""

LEAF_BYTES = 32
"""Of a row's hash, and of its leaf in the tree."""

NOT_BEFORE = "it does not name the record before it"
_SCAN: Callable[[str, int], tuple[object, int]] = make_scanner(cast("Any", json.JSONDecoder()))
PLACED = b',"spool":{'
"""In the bytes of every record with a place in a spool; a quick look before it is decoded."""


class ChainFault(AuditBroken):
    """The log does not verify.

    Args:
        seq: The first sequence number that is not as it was.
        kind: ``gap``, ``hash``, ``prev_link``, ``record``, ``personal``,
            ``head_mismatch``, ``head_beyond_end``, ``head_link``,
            ``head_signature``, ``head_unreadable``, ``no_anchor``, ``origin``, ``batch`` or
            ``unreadable``.
        what: What was found there.
    """

    def __init__(self, seq: int, kind: str, what: str) -> None:
        super().__init__(f"audit log: record {seq}: {kind}: {what}")
        self.seq: int = seq
        self.kind: str = kind
        self.what: str = what


@frozen
class Verified:
    """A log that verifies.

    ``anchored`` is how many records signed heads cover; ``by_others`` whether any record may be
    one that another instance than the leader wrote.  ``slices`` has the digest of every slice
    of entities that a record of a decision names, with the number of the first such record;
    ``erased`` is what records say was erased beside the log.
    """

    records: int
    last_hash: bytes
    anchored: int
    key_id: str
    by_others: bool = False
    slices: Mapping[str, int] = field(factory=dict, repr=False)
    erased: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def text(self) -> str:
        """One line for a person; the form is documented."""
        if not self.records:
            return "verified 0 records, the log is empty and no head is known"
        return (
            f"verified {self.records} records, head seq {self.records}"
            f" hash {self.last_hash.hex()}, anchor {self.key_id}"
            + (f" at {self.anchored}" if self.anchored != self.records else "")
        )


@frozen
class VerifiedRange:
    """Consecutive rows that were verified against each other; ranges are joined to a log.

    Attributes:
        prev: What the first row names as the hash before it; None where it is not the first
            that it should be, or there is none.
        hashes: The hashes of the rows, 32 bytes each.
        leaves: Their leaf hashes.
        fault: Sequence number, kind and text of what is wrong with the row that would follow.
        by_others: Whether a row may be one that another instance than the leader wrote.
        slices: Digests of the slices of entities that decisions were made over, each with the
            number of the first of these rows that names it.
        missing: Personal values of entries that are not there.
        erased: Those of which these rows say that they were erased.
    """

    prev: bytes | None
    hashes: bytes = field(repr=False)
    leaves: bytes = field(repr=False)
    fault: tuple[int, str, str] | None = None
    by_others: bool = False
    slices: Mapping[str, int] = field(factory=dict, repr=False)
    missing: Sequence[str] = ()
    erased: Sequence[str] = ()


def verified_range(
    first: int,
    rows: Sequence[ChainRow],
    personal: Mapping[int, Sequence[PersonalValue]] | None,
    known: KnownRecords | None = None,
) -> VerifiedRange:
    """Check *rows*, which are to be the records from *first* on.  Nearly all work is here.

    Args:
        personal: What stands beside them; None where only the chain is to be checked.
        known: How records were written that were good; None to judge each by itself.
    """
    prev = rows[0].prev_hash if rows and rows[0].seq == first else None
    last = GENESIS if prev is None else prev
    hashes: list[bytes] = []
    leaves: list[bytes] = []
    told, fault = SaidBeside(is_whole=personal is not None), None
    try:
        for seq, row in enumerate(rows, first):
            last = follow(row, seq, last)
            beside = personal.get(seq, ()) if personal else ()
            alike = None if known is None else known.read(row.canonical)
            if alike is None:
                told.by(row, check_record(row, beside, known), beside)
            else:
                check_said(row, beside, alike)
                told.alike(seq, alike)
            hashes.append(last)
            leaves.append(leaf_hash(row.canonical, row.signature))
            if row.signature:
                told.by_others = True
    except ChainFault as found:
        fault = (found.seq, found.kind, found.what)
    return VerifiedRange(
        prev=prev,
        hashes=b"".join(hashes),
        leaves=b"".join(leaves),
        fault=fault,
        by_others=told.by_others,
        slices=told.slices,
        missing=told.missing,
        erased=told.erased,
    )


@define
class SaidBeside:
    """What records say of what is kept beside them, and by whom they are; see VerifiedRange."""

    is_whole: bool
    by_others: bool = False
    slices: dict[str, int] = field(factory=dict)
    missing: list[str] = field(factory=list)
    erased: list[str] = field(factory=list)

    def by(
        self, row: ChainRow, record: Mapping[str, object], beside: Sequence[PersonalValue]
    ) -> None:
        """Take in a record that was judged by itself."""
        digest = decided_over(record)
        if digest is not None:
            self.slices.setdefault(digest, row.seq)
        if self.is_whole and "batch" in record and is_batch(record):
            self.missing += missing_values(row.seq, batch_at(row, record, beside))
        if event_of(record) in ERASING:
            self.erased += erased_values(record)
        if "spool" in record:
            self.by_others = True

    def alike(self, seq: int, alike: Alike) -> None:
        """Take in a record of a known form."""
        form, said = alike
        if form.digest:
            self.slices.setdefault(said[form.digest].decode(), seq)
        if form.is_placed:
            self.by_others = True


def verified_ranges(
    batches: Iterable[Sequence[ChainRow]],
    personal_of: PersonalOf | None = None,
    first: int = FIRST_SEQ,
    known: KnownRecords | None = None,
) -> Iterator[VerifiedRange]:
    """Check *batches* of rows, from record *first* on, one after the other.

    Args:
        personal_of: The personal values of records that are not erased.
        known: How records were written that were good.
    """
    known = KnownRecords() if known is None else known
    for batch in batches:
        end = first + len(batch)
        personal = personal_of(first, end - 1) if personal_of and batch else None
        yield verified_range(first, batch, personal, known)
        first = end


def verify(
    checked: Iterable[VerifiedRange],
    heads: Iterable[SignedHead],
    verify_head: HeadVerifier,
    *,
    latest: SignedHead | None = None,
    witnesses: Iterable[SignedHead] = (),
    cluster: str | None = None,
) -> Verified:
    """Verify a log against the heads signed over it.

    Args:
        checked: The rows in order, as they were in the store after *heads* was taken.
        heads: In order, as :meth:`IHeadKeeper.heads` gives them.
        verify_head: Judges a head's signature and certificates.
        latest: The newest head as kept elsewhere; must be among *heads*.
        witnesses: Heads that somebody kept elsewhere, in order; not necessarily all.
        cluster: Refuse heads of another cluster.

    Raises:
        ChainFault: naming the first bad sequence number and the kind of fault.
    """
    kept = _Heads(heads=iter(heads), verify_head=verify_head, cluster=cluster, latest=latest)
    outside = _Heads(iter(witnesses), verify_head, cluster, linked=False)
    tree, last, size = Tree(), GENESIS, 0
    due, by_others = _nearest(kept, outside), False
    slices: dict[str, int] = {}
    missing, erased = dict[str, None](), set[str]()
    for part in checked:
        by_others = by_others or part.by_others
        missing.update(dict.fromkeys(part.missing))
        erased.update(part.erased)
        for digest, seq in part.slices.items():
            slices.setdefault(digest, seq)
        if part.prev is not None and part.prev != last:
            raise ChainFault(size + 1, "prev_link", NOT_BEFORE)
        begin, count = 0, len(part.leaves) // LEAF_BYTES
        while begin < count:
            end = begin + due - size if size < due < size + count - begin else count
            tree.extend(part.leaves[begin * LEAF_BYTES : end * LEAF_BYTES])
            size += end - begin
            begin = end
            if size == due:
                for heads_of in (kept, outside):
                    heads_of.match(tree, part.hashes[(end - 1) * LEAF_BYTES : end * LEAF_BYTES])
                due = _nearest(kept, outside)
        last = part.hashes[-LEAF_BYTES:] or last
        if part.fault is not None:
            raise ChainFault(*part.fault)
    _check_missing(missing, erased)
    found = _better(kept.finish(size), outside.finish(size), size, last)
    return evolve(found, by_others=by_others, slices=slices, erased=frozenset(erased))


def _check_missing(missing: Iterable[str], erased: set[str]) -> None:
    """A personal value is only ever missing where a record names it as erased (rule R29)."""
    for one in missing:
        if one not in erased:
            seq, index, path = one.split(":", 2)
            what = f"the value at {path} of entry {index} is missing, and no record erased it"
            raise ChainFault(int(seq), "personal", what)


def batch_at(
    row: ChainRow, record: Mapping[str, Any], beside: Sequence[PersonalValue]
) -> RequestBatch:
    """The batch that a row is.

    Raises:
        ChainFault: what stands beside it is not what it commits to.
    """
    try:
        return read_batch(record, beside)
    except Malformed as refused:
        raise ChainFault(row.seq, "batch", refused.text) from refused


def beyond_end(covered: int, size: int) -> str:
    """What is wrong where a head covers more records than the store has."""
    return f"a signed head covers {covered} records, but the store has only {size}"


def follow(row: ChainRow, seq: int, last: bytes) -> bytes:
    """The hash of *row*, which is to be record *seq* after one with the hash *last*.

    Raises:
        ChainFault: it is not.
    """
    if row.seq != seq:
        raise ChainFault(seq, "gap", f"record {seq} is missing; the next one is {row.seq}")
    if row.prev_hash != last:
        raise ChainFault(seq, "prev_link", NOT_BEFORE)
    found = chain_hash(seq, last, row.canonical)
    if row.hash != found:
        raise ChainFault(seq, "hash", "the record differs from the one that was hashed")
    return found


def check_record(
    row: ChainRow, personal: Sequence[PersonalValue] = (), known: KnownRecords | None = None
) -> dict[str, object]:
    """The record that *row* holds, with values that are the ones it hides.

    Args:
        known: Is to remember how the record is written.

    Raises:
        ChainFault: it holds none, or a value is not the one hashed.
    """
    try:
        text = row.canonical.decode("utf-8")
        record, end = _SCAN(text, 0)
        if end != len(text):
            raise ValueError("more than one value")
    except (ValueError, RecursionError, StopIteration):
        raise ChainFault(row.seq, "record", "the record is not JSON") from None
    if type(record) is not dict:
        raise ChainFault(row.seq, "record", "the record is not an object")
    if "batch" in record and is_batch(record):
        return record  # what stands beside it is checked as a whole, where it is wanted
    for value in personal:
        if not is_hidden(marker(record, value.path), value):
            raise _not_hidden(row, value)
    if known is not None:
        known.judged(row.canonical, record)
    return record


def check_said(row: ChainRow, personal: Sequence[PersonalValue], alike: Alike) -> None:
    """Return if the values are the ones that a record of a known form hides.

    Raises:
        ChainFault: one is not.
    """
    form, said = alike
    for value in personal:
        at = form.hidden.get(value.path)
        if at is None or not is_hashed(value, said[at].decode()):
            raise _not_hidden(row, value)


def _not_hidden(row: ChainRow, value: PersonalValue) -> ChainFault:
    return ChainFault(row.seq, "personal", f"the value at {value.path!r} is not the one hashed")


@define
class _Heads:
    """Walks along heads while the rows go by.

    *linked* heads are all that were ever signed, but for those said to be
    pruned: each names the one before.  Others are judged one by one.
    """

    _heads: Iterator[SignedHead]
    _verify_head: HeadVerifier
    _cluster: str | None
    _latest: SignedHead | None = None
    _linked: bool = field(default=True, kw_only=True)
    due: int = field(default=0, init=False)
    _previous: SignedHead | None = field(default=None, init=False)
    _next: SignedHead | None = field(default=None, init=False)
    _saw_latest: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._advance()

    @property
    def _covered(self) -> int:
        return 0 if self._previous is None else self._previous.head.tree_size

    def match(self, tree: Tree, last: bytes) -> None:
        """Compare the rows so far with the head over them, if there is one."""
        if self._next is None or self.due != tree.size:
            return
        head = self._next.head
        if head.last_hash != last or head.root != tree.root:
            raise ChainFault(
                self._covered + 1,
                "head_mismatch",
                f"the records up to {head.tree_size} differ from those that a signed head covers",
            )
        self._advance()

    def finish(self, size: int) -> Head | None:
        """What is left to check once the rows have ended; the last head."""
        if self._next is not None:
            end = self._next.head.tree_size
            raise ChainFault(size + 1, "head_beyond_end", beyond_end(end, size))
        if self._latest is not None and not self._saw_latest:
            raise ChainFault(self._covered + 1, "head_mismatch", "the newest head is missing")
        if self._previous is None:
            return None
        self._judge(self._previous)
        return self._previous.head

    def _advance(self) -> None:
        """Take the next head; it must follow from the one before."""
        before = self._previous = self._next
        try:
            following = next(self._heads, None)
        except SvcError as unreadable:
            text = unreadable.text
            raise ChainFault(self._covered + 1, "head_unreadable", text) from unreadable
        self._next = following
        self.due = 0
        if following is None:
            return
        self._check_place(following.head)
        if before is not None and not self._vouched(before, following):
            self._judge(before)
        elif before is None and self._linked and not following.pruned:
            self._check_link(NO_HEAD, following)
        if self._latest is not None and following.hash == self._latest.hash:
            self._saw_latest = True
        self.due = following.head.tree_size

    def _vouched(self, before: SignedHead, following: SignedHead) -> bool:
        """Whether a good signature on the next head makes this one good.

        A head names the hash of the one before, signature included: so the last
        head of a key vouches for all that lead to it without a hole.
        """
        if not self._linked or following.pruned:
            return False
        self._check_link(before.hash, following)
        return before.head.key_id == following.head.key_id

    def _check_link(self, hash_before: bytes, following: SignedHead) -> None:
        if following.head.previous_head_hash != hash_before:
            raise ChainFault(self._covered + 1, "head_link", "a head before this one is missing")

    def _check_place(self, head: Head) -> None:
        before = None if self._previous is None else self._previous.head
        foreign = self._cluster is not None and head.cluster != self._cluster
        if before is not None:
            foreign = foreign or (head.cluster, head.log_id) != (before.cluster, before.log_id)
        if foreign:
            raise ChainFault(self._covered + 1, "head_mismatch", "a head belongs to another log")
        if head.tree_size <= self._covered:
            raise ChainFault(
                self._covered + 1,
                "head_link",
                "a head covers no more records than the head before it",
            )

    def _judge(self, signed: SignedHead) -> None:
        try:
            self._verify_head(signed.signed, head_time(signed.head))
        except SvcError as refused:
            size = signed.head.tree_size
            raise ChainFault(size, "head_signature", refused.text) from refused


def _nearest(*heads: _Heads) -> int:
    """The size at which the next head is due, or 0."""
    return min((each.due for each in heads if each.due), default=0)


def _better(kept: Head | None, outside: Head | None, size: int, last: bytes) -> Verified:
    """What the heads prove together; nothing, where there are none."""
    found = [each for each in (kept, outside) if each is not None]
    if not found:
        if size:
            raise ChainFault(1, "no_anchor", "no signed head is known, so nothing is proved")
        return Verified(records=0, last_hash=last, anchored=0, key_id="")
    best = max(found, key=lambda head: head.tree_size)
    return Verified(records=size, last_hash=last, anchored=best.tree_size, key_id=best.key_id)
