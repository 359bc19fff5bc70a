"""Rows of the audit log as the store holds them.

The record itself is canonical bytes made elsewhere; here is only what the
chain, the search and the erasing of personal values need.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

GENESIS = bytes(32)
"""The hash before the first row."""


@frozen
class ChainRow:
    """One link: ``hash`` covers ``seq``, ``prev_hash`` and ``canonical``.

    ``signature`` is that of an origin other than the leader; the leaf of the
    log's tree covers it.
    """

    seq: int
    prev_hash: bytes
    hash: bytes
    canonical: bytes
    signature: bytes = field(default=b"", repr=False)


StoredRow: TypeAlias = tuple[int, bytes, bytes, bytes | str, bytes | None]
"""Number, hash before, hash, record and signature, as a store gave them: nothing is looked at."""

StoredValue: TypeAlias = tuple[int, str, bytes, str]
"""Number, path, salt and value of a personal value, as a store gave them."""


@frozen
class FiledRecord:
    """How a record that names a decision begins: enough to see whether to read all of it.

    Attributes:
        beginning: The first :data:`BEGINNING` characters of the record.
    """

    seq: int
    decision_id: str
    beginning: str


BEGINNING = 256
"""A batch of requests names the greatest of its ids before that."""


@frozen
class ChainHead:
    """The last link; ``seq`` 0 and ``hash`` GENESIS while the log is empty."""

    seq: int = 0
    hash: bytes = GENESIS


@frozen
class PersonalValue:
    """A value that the record holds only as SHA-256(salt ‖ value)."""

    path: str
    salt: bytes = field(repr=False)
    value: str = field(repr=False)


@frozen
class EntitySlice:
    """The entities a decision was made over, kept once by their digest."""

    digest: str
    text: str
