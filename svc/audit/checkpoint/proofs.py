"""Proofs over the Merkle tree: which hashes they contain, how to make and check them.

A proof is the hashes of some ranges of leaves, nearest first.  Making is the
PATH and PROOF of RFC 6962, sections 2.1.1 and 2.1.2; checking is RFC 9162,
sections 2.1.3.2 and 2.1.4.2.  Indexes count from 0, as there.  Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from attrs import define, field

from svc.audit.checkpoint.merkle import Tree
from svc.errors import AuditBroken

Range = tuple[int, int]
"""The first leaf of a subtree, and the one after its last."""


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The subtrees whose hashes show that leaf *index* is in the tree of *size* leaves."""
    start, end, found = 0, size, list[Range]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            found.append((middle, end))
            end = middle
        else:
            found.append((start, middle))
            start = middle
    return found[::-1]


def consistency_ranges(first: int, second: int) -> list[Range]:
    """The subtrees whose hashes show that *first* leaves begin the tree of *second*."""
    start, end, found = 0, second, list[Range]()
    while first != end:
        middle = start + _split(end - start)
        if first <= middle:
            found.append((middle, end))
            end = middle
        else:
            found.append((start, middle))
            start = middle
    if start:
        # Otherwise the subtree is the first tree itself, whose root its checker knows.
        found.append((start, end))
    return found[::-1]


@define
class RangeHashes:
    """The hashes of ranges that do not overlap, from one pass over the leaves."""

    ranges: Sequence[Range]
    _at: int = field(default=0, init=False)
    _trees: dict[Range, Tree] = field(init=False)
    _waiting: list[Range] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._trees = {each: Tree() for each in self.ranges}
        self._waiting = sorted(self.ranges, reverse=True)

    def take(self, leaf: bytes) -> None:
        """The next leaf, from the first one on."""
        waiting = self._waiting
        if waiting and waiting[-1][1] <= self._at:
            waiting.pop()
        if waiting and waiting[-1][0] <= self._at:
            self._trees[waiting[-1]].append(leaf)
        self._at += 1

    def hashes(self) -> list[bytes]:
        """In the order in which the ranges were given."""
        return [self._trees[each].root for each in self.ranges]


def check_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes], root: bytes) -> None:
    """Return if *leaf* is the leaf *index* of the tree of *size* leaves with that root.

    Raises:
        AuditBroken: it is not shown to be.
    """
    if not 0 <= index < size:
        raise AuditBroken("audit proof: the tree has no such record")
    node, last, found = index, size - 1, leaf
    for each in path:
        if not last:
            raise AuditBroken("audit proof: it has too many hashes")
        if node & 1 or node == last:
            found = sha256(b"\1" + each + found).digest()
            node, last = _risen(node, last)
        else:
            found = sha256(b"\1" + found + each).digest()
        node, last = node >> 1, last >> 1
    if last or found != root:
        raise AuditBroken("audit proof: the record differs from the one in the tree")


def check_consistency(
    first: int, second: int, path: Sequence[bytes], first_root: bytes, second_root: bytes
) -> None:
    """Return if the tree of *first* leaves begins the tree of *second*, by their roots.

    Raises:
        AuditBroken: it is not shown to.
    """
    if not 0 < first <= second:
        raise AuditBroken(
            "audit proof: the first tree must be neither empty nor larger than the second"
        )
    if first == second:
        if path or first_root != second_root:
            raise AuditBroken("audit proof: the two trees have the same size and different roots")
        return
    # A first tree that is one whole subtree is left out of the proof: its root is known.
    hashes = [first_root, *path] if first & (first - 1) == 0 else list(path)
    if not hashes:
        raise AuditBroken("audit proof: it has too few hashes")
    node, last = first - 1, second - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = hashes[0]
    for each in hashes[1:]:
        if not last:
            raise AuditBroken("audit proof: it has too many hashes")
        if node & 1 or node == last:
            old, new = sha256(b"\1" + each + old).digest(), sha256(b"\1" + each + new).digest()
            node, last = _risen(node, last)
        else:
            new = sha256(b"\1" + new + each).digest()
        node, last = node >> 1, last >> 1
    if last or old != first_root or new != second_root:
        raise AuditBroken("audit proof: the larger tree does not start with the smaller one")


def _risen(node: int, last: int) -> tuple[int, int]:
    """Past the levels at which a node at the right edge has no sibling."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _split(count: int) -> int:
    """The largest power of two below *count*: the leaves of the left subtree."""
    return 1 << ((count - 1).bit_length() - 1)
