"""The tree over the entries of a batch; its shape is that of RFC 6962, its prefixes are its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

_NODE = b"svc-request-node-v1\0"


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
    above = [node(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return [*above, level[-1]] if len(level) & 1 else above


def entry_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that show leaf *index* under the root, nearest first."""
    level, found = list(leaves), []
    while len(level) > 1:
        if index ^ 1 < len(level):
            found.append(level[index ^ 1])
        level, index = _risen(level), index >> 1
    return found
