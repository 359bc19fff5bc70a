"""Continuing from an older store on purpose: the record that says so, and the head that proves it.

Pure.  ``store.restored`` is the last record of the first head that the log goes
on with.  The line of that head brings the record and the edge of the tree
before it, so whoever keeps a head of the lost line can judge by the signature
alone that somebody gave it up, which head that was, and why (rule R10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import frozen

from svc.audit.checkpoint.head import head_time
from svc.audit.checkpoint.merkle import Tree, leaf_hash
from svc.errors import AuditBroken, Malformed
from svc.interfaces.audit import HeadVerifier
from svc.model.audit.events import STORE_RESTORED
from svc.model.audit.record import SignedHead
from svc.model.canonical import Json, decode


@frozen
class Restoration:
    """What a ``store.restored`` record states.

    Attributes:
        seq: The record's number.
        time: When its head was signed.
        lost_size: Records that the greatest head of the lost line covers.
        lost_hash: The hash of that head, in hex.
        lost_time: When that head was signed.
        shared_size: So many records are known to be on both lines: heads over them stand.
    """

    seq: int
    time: str
    lost_size: int
    lost_hash: str
    lost_time: str
    shared_size: int

    def gives_up(self, head: SignedHead) -> bool:
        """Whether *head* is of the line that was given up.

        A greater head than the one that is named is not: whoever keeps it knows more than
        the operator did who gave the line up.
        """
        if head.hash.hex() == self.lost_hash:
            return True
        size = head.head.tree_size
        return self.shared_size < size < self.lost_size and head.head.time <= self.lost_time


def restoration(head: SignedHead) -> Restoration | None:
    """The restoration that the head's line proves, or None if it has no such proof.

    Args:
        head: Its signature has been judged, or will be.

    Raises:
        AuditBroken: the record is not the last one of the head, or not such a record.
    """
    proof = head.restored
    if proof is None:
        return None
    tree = Tree(head.head.tree_size - 1, list(proof.before))
    if len(tree.edge) != tree.size.bit_count():
        raise AuditBroken("audit head: its member restored does not lead to its root")
    tree.append(leaf_hash(proof.record))
    if tree.root != head.head.root:
        raise AuditBroken("audit head: its member restored does not lead to its root")
    lost = lost_head(proof.record)
    if lost is None:
        raise AuditBroken(f"audit head: its last record is not {STORE_RESTORED.name}")
    return Restoration(head.head.tree_size, head.head.time, *lost)


def lost_head(record: bytes) -> tuple[int, str, str, int] | None:
    """Size, hash and time of the head that the record gives up, and how many records it shares.

    None for any other record.
    """
    try:
        form = decode(record)
    except Malformed:
        return None
    if not isinstance(form, Mapping) or form.get("event") != STORE_RESTORED.name:
        return None
    details = form.get("details")
    if not isinstance(details, Mapping):
        return None
    sizes = details.get("lost_size"), details.get("shared_size")
    lost = details.get("lost_hash"), details.get("until")
    if not all(map(_is_size, sizes)) or not all(isinstance(each, str) for each in lost):
        return None
    return int(str(sizes[0])), str(lost[0]), str(lost[1]), int(str(sizes[1]))


def _is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def restorations(heads: Iterable[SignedHead], verify_head: HeadVerifier) -> list[Restoration]:
    """What those of *heads* prove that give up a line.

    Raises:
        SvcError: one is not signed, or does not prove what it says.
    """
    found = list[Restoration]()
    for head in heads:
        if head.restored is not None:
            verify_head(head.signed, head_time(head.head))
            stated = restoration(head)
            assert stated is not None
            found.append(stated)
    return found


def standing(
    read: Callable[[], Iterator[SignedHead]], verify_head: HeadVerifier
) -> Iterator[SignedHead]:
    """The heads of a witness's file that were not given up, in order; one that came twice once.

    Args:
        read: Begins to read the file; called twice.

    Raises:
        SvcError: what gives others up is not signed, or the file cannot be read.
    """
    stated = list[tuple[int, Restoration]]()
    for at, head in enumerate(read()):
        if head.restored is not None:
            verify_head(head.signed, head_time(head.head))
            found = restoration(head)
            assert found is not None
            stated.append((at, found))
    before = b""
    for at, head in enumerate(read()):
        is_given_up = any(later > at and one.gives_up(head) for later, one in stated)
        if not is_given_up and head.hash != before:
            before = head.hash
            yield head
