"""The tree over the entries of a batch; its shape is that of RFC 6962, its prefixes are its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from attrs import frozen

_ENTRY, _NODE = b"svc-request-entry-v1\0", b"svc-request-node-v1\0"


@frozen
class RequestPlace:
    """Where the entries of a batch are: part of the leaf of each of them."""

    origin: str
    spool_id: str
    n: int

    def prefix(self) -> bytes:
        """What begins each leaf."""
        origin = self.origin.encode()
        return b"".join(
            (
                _ENTRY,
                len(origin).to_bytes(1, "big"),
                origin,
                bytes.fromhex(self.spool_id),
                self.n.to_bytes(8, "big"),
            )
        )


def entry_leaves(place: RequestPlace, texts: Sequence[bytes]) -> list[bytes]:
    """The leaf of each entry: its place, its number in the batch, its length, its bytes."""
    begin = sha256(place.prefix())
    found = []
    for index, text in enumerate(texts):
        leaf = begin.copy()
        leaf.update(index.to_bytes(4, "big") + len(text).to_bytes(4, "big") + text)
        found.append(leaf.digest())
    return found


def node(left: bytes, right: bytes) -> bytes:
    """The hash above two others."""
    return sha256(_NODE + left + right).digest()


def entries_root(leaves: Sequence[bytes]) -> bytes:
    """The root over one leaf or more."""
    level = list(leaves)
    while len(level) > 1:
        level = _risen(level)
    return level[0]


def _risen(level: Sequence[bytes]) -> list[bytes]:
    pairs = zip(level[::2], level[1::2], strict=False)  # of an odd number the last stands alone
    above = [sha256(_NODE + left + right).digest() for left, right in pairs]
    return [*above, level[-1]] if len(level) & 1 else above


def entry_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that show leaf *index* under the root, nearest first."""
    level, found = list(leaves), []
    while len(level) > 1:
        if index ^ 1 < len(level):
            found.append(level[index ^ 1])
        level, index = _risen(level), index >> 1
    return found
