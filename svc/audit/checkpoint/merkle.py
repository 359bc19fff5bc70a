"""The Merkle tree of RFC 6962 over the log, stored as its right edge.

The edge is one hash for each complete subtree, largest first: as many as the
size has one-bits.  Appending a leaf is amortised one node hash; the root is
folded from the edge.  Pure; proofs are not made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from attrs import define, field

EMPTY_ROOT = sha256(b"").digest()
_HASH = 32


def leaf_hash(canonical: bytes, signature: bytes = b"") -> bytes:
    """The leaf of a record: its bytes with their length, then its origin's signature.

    Records that the leader writes itself have no signature of their own.
    """
    return sha256(b"\0" + len(canonical).to_bytes(4, "big") + canonical + signature).digest()


def leaf_hashes(records: Iterable[bytes], signatures: Iterable[bytes | None]) -> list[bytes]:
    """As :func:`leaf_hash`, of each of the records."""
    return [
        sha256(
            b"\0" + len(canonical).to_bytes(4, "big") + canonical + signature
            if signature
            else b"\0" + len(canonical).to_bytes(4, "big") + canonical
        ).digest()
        for canonical, signature in zip(records, signatures, strict=True)
    ]


def fold(edge: Sequence[bytes]) -> bytes:
    """The root of the tree that has this right edge."""
    if not edge:
        return EMPTY_ROOT
    root = edge[-1]
    for left in reversed(edge[:-1]):
        root = sha256(b"\1" + left + root).digest()
    return root


@define
class Tree:
    """A growing tree: its size and its right edge."""

    size: int = 0
    edge: list[bytes] = field(factory=list)

    @property
    def root(self) -> bytes:
        """The tree hash of what has been appended."""
        return fold(self.edge)

    def append(self, leaf: bytes) -> None:
        """Take the next leaf hash."""
        edge, size = self.edge, self.size
        while size & 1:
            leaf = sha256(b"\1" + edge.pop() + leaf).digest()
            size >>= 1
        edge.append(leaf)
        self.size += 1

    def extend(self, leaves: bytes) -> None:
        """Take the next leaf hashes, 32 bytes each, level by level."""
        nodes = [leaves[at : at + _HASH] for at in range(0, len(leaves), _HASH)]
        edge, size = self.edge, self.size
        self.size += len(nodes)
        kept = list[bytes]()
        while nodes:
            if size & 1:
                nodes.insert(0, edge.pop())
            if len(nodes) & 1:
                kept.append(nodes.pop())
            pairs = iter(nodes)
            nodes = [sha256(b"\1" + left + next(pairs)).digest() for left in pairs]
            size >>= 1
        edge += reversed(kept)


def resume(size: int, edge: Sequence[bytes], root: bytes) -> Tree | None:
    """The tree of *size* leaves with that edge, or None if it does not fold to *root*."""
    if size < 0 or len(edge) != size.bit_count() or fold(edge) != root:
        return None
    return Tree(size, list(edge))
