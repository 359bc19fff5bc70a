"""Proofs over the Merkle tree, against the tree as the standard defines it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.proofs import (
    RangeHashes,
    check_consistency,
    check_inclusion,
    consistency_ranges,
    inclusion_ranges,
)
from svc.errors import AuditBroken
from tests.support.examples import examples
from tests.support.proof import proves

INPUTS = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
"""The leaves that implementations of RFC 6962 test each other with, and the root over them."""
ROOT = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"

sizes = st.integers(1, 130)


def leaf_of(data: bytes) -> bytes:
    """RFC 6962: a leaf's hash."""
    return sha256(b"\0" + data).digest()


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word, of leaf hashes."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    return sha256(b"\1" + tree_hash(leaves[:left]) + tree_hash(leaves[left:])).digest()


def hashes(ranges: Sequence[tuple[int, int]], leaves: Sequence[bytes]) -> list[bytes]:
    """The proof, from leaves that go by once."""
    found = RangeHashes(ranges)
    for leaf in leaves:
        found.take(leaf)
    return found.hashes()


def some(size: int) -> list[bytes]:
    """So many leaf hashes."""
    return [leaf_of(n.to_bytes(2, "big")) for n in range(size)]


class ProofTests(SynchronousTestCase):
    """Inclusion and consistency."""

    def included(self, index: int, leaves: list[bytes], path: Sequence[bytes]) -> bool:
        try:
            check_inclusion(index, len(leaves), leaves[index], path, tree_hash(leaves))
        except AuditBroken:
            return False
        return True

    def test_known_tree(self) -> None:
        """The root over the well-known leaves is the well-known one, and each is in it."""
        leaves = [leaf_of(data) for data in INPUTS]
        self.assertEqual(tree_hash(leaves).hex(), ROOT)
        for at in range(len(leaves)):
            self.assertTrue(self.included(at, leaves, hashes(inclusion_ranges(at, 8), leaves)))

    @proves("G-OPEN-12")
    def test_every_leaf_and_size(self) -> None:
        """Every leaf of every tree up to forty has a proof, which is no other leaf's."""
        for size in range(1, 41):
            leaves = some(size)
            paths = [hashes(inclusion_ranges(at, size), leaves) for at in range(size)]
            for at in range(size):
                for other in range(size):
                    self.assertEqual(self.included(at, leaves, paths[other]), at == other)

    def test_every_pair_of_sizes(self) -> None:
        """Every tree begins every larger one, and a root changed by a bit is refused."""
        for second in range(1, 41):
            leaves = some(second)
            root = tree_hash(leaves)
            for first in range(1, second + 1):
                path = hashes(consistency_ranges(first, second), leaves)
                before = tree_hash(leaves[:first])
                check_consistency(first, second, path, before, root)
                odd = bytes([before[0] ^ 1]) + before[1:]
                for roots in ((odd, root), (before, bytes([root[0] ^ 1]) + root[1:])):
                    self.assertRaises(AuditBroken, check_consistency, first, second, path, *roots)

    @settings(max_examples=examples(200))
    @given(st.data(), sizes)
    def test_changed(self, data: st.DataObject, size: int) -> None:
        """A hash changed, left out or added makes a proof worth nothing."""
        leaves = some(size)
        at = data.draw(st.integers(0, size - 1))
        first = data.draw(st.integers(1, size))
        path = hashes(inclusion_ranges(at, size), leaves)
        for odd in self.altered(data, path):
            self.assertFalse(self.included(at, leaves, odd))
        path = hashes(consistency_ranges(first, size), leaves)
        roots = tree_hash(leaves[:first]), tree_hash(leaves)
        for odd in self.altered(data, path):
            self.assertRaises(AuditBroken, check_consistency, first, size, odd, *roots)

    def altered(self, data: st.DataObject, path: list[bytes]) -> list[list[bytes]]:
        """*path* in some other forms."""
        found = [[*path, bytes(32)], [bytes(32), *path]]
        if path:
            at = data.draw(st.integers(0, len(path) - 1))
            bit = data.draw(st.integers(0, 255))
            one = bytearray(path[at])
            one[bit // 8] ^= 1 << bit % 8
            found += [[*path[:at], bytes(one), *path[at + 1 :]], path[:at] + path[at + 1 :]]
        return found

    def test_history_rewritten(self) -> None:
        """No proof joins a tree to a larger one that began otherwise."""
        for second in range(2, 20):
            for first in range(1, second):
                other = [leaf_of(b"other"), *some(second)[1:]]
                path = hashes(consistency_ranges(first, second), other)
                self.assertRaises(
                    AuditBroken,
                    check_consistency,
                    first,
                    second,
                    path,
                    tree_hash(some(first)),
                    tree_hash(other),
                )

    def test_outside(self) -> None:
        """A leaf past the end, and an empty or larger first tree, have no proof."""
        root = tree_hash(some(3))
        self.assertRaises(AuditBroken, check_inclusion, 3, 3, root, [], root)
        self.assertRaises(AuditBroken, check_inclusion, 0, 0, root, [], root)
        for first, second in ((0, 3), (4, 3)):
            self.assertRaises(AuditBroken, check_consistency, first, second, [], root, root)
