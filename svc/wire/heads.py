"""Header blocks that come again, coded and judged once for a connection.

The calls of one connection begin and end with the same few lists of fields.  Once the header table
of their direction holds them, each such list is the same few bytes, whose coding changes nothing
in that table: until the table does change, the block stands for the list, and the list for the
block.  What is remembered is small and bounded, and forgotten with the first change of the table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from hpack import Decoder, Encoder

from svc.wire.headers import RequestHead
from svc.wire.lean import Entries

_MOST = 8
"""Lists of fields remembered in each direction."""

LONGEST = 64
"""Bytes of a block that is remembered: it names fields of a table, one or two bytes each."""

_FIELD = 32
_CONTENT_LENGTH, _STATUS = b"content-length", b":status"


class Fields(list[Any]):
    """A list of fields that is remembered; nobody changes it.

    Attributes:
        size: Counted as HTTP/2 counts.
        names_length: Whether ``content-length`` is among them.
        is_interim: Whether they are an answer that another one follows.
        checked: What they are once they have been judged, by what they were judged as.
        head: The head of the call that they are, once it was read.
    """

    __slots__ = ("checked", "head", "is_interim", "names_length", "size")

    def __init__(self, fields: Iterable[Any]) -> None:
        super().__init__(fields)
        self.size = sum(len(name) + len(value) + _FIELD for name, value in self)
        self.names_length = any(name == _CONTENT_LENGTH for name, _ in self)
        self.is_interim = any(name == _STATUS and value[:1] == b"1" for name, value in self)
        self.checked: dict[Hashable, Fields] = {}
        self.head: RequestHead | None = None


class HeadDecoder(Decoder):
    """Reads blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._entries = self.header_table.dynamic_entries = Entries()  # type: ignore[assignment]
        self._known: dict[bytes, Fields] = {}
        self._known_at = 0
        self._table_size = self.header_table.maxsize

    @property
    def header_table_size(self) -> int:
        """The most that the table may hold, counted as HPACK counts."""
        return self._table_size

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        self._table_size = self.header_table.maxsize = value

    def known(self, data: bytes) -> Fields | None:
        """What a block stands for, if that is remembered, and may pass still."""
        entries = self._entries
        if self._known_at != entries.changes:
            self._known.clear()
            self._known_at = entries.changes
        known = self._known.get(data)
        if known is None or known.size > self.max_header_list_size:
            return None
        return known if self._table_size <= self.max_allowed_table_size else None

    def decode(self, data: bytes, raw: bool = False) -> Iterable[Any]:
        """The fields of a block, as hpack reads them."""
        entries = self._entries
        if not raw or len(data) > LONGEST:
            return super().decode(data, raw)
        known = self.known(data)
        if known is not None:
            return known
        fields = super().decode(data, raw)
        if self._known_at != entries.changes or self._resizes(data):
            return fields
        if len(self._known) >= _MOST:
            self._known.clear()
        known = self._known[bytes(data)] = Fields(fields)
        return known

    @staticmethod
    def _resizes(data: bytes) -> bool:
        """Whether a block begins with a new size of the table: that counts each time."""
        return bool(data) and data[0] >> 5 == 1


_HUFFMAN = Encoder().huffman_coder
"""The code, which is the same for all; nothing in it changes."""


class HeadEncoder(Encoder):
    """Makes blocks of plain pairs; of fields that must not be indexed there is none among ours."""

    def __init__(self) -> None:
        super().__init__()
        self.huffman_coder = _HUFFMAN
        self._entries = self.header_table.dynamic_entries = Entries()  # type: ignore[assignment]
        self._known: dict[tuple[Any, ...], bytes] = {}
        self._known_at = 0

    def encode(self, headers: Any, huffman: bool = True) -> bytes:
        """The block of some fields, as hpack makes it."""
        entries, key = self._entries, tuple(headers)
        if self.header_table.resized or not huffman:
            return super().encode(key, huffman)
        if self._known_at != entries.changes:
            self._known.clear()
            self._known_at = entries.changes
        block = self._known.get(key)
        if block is not None:
            return block
        block = super().encode(key, huffman)
        if self._known_at == entries.changes and len(block) <= LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = block
        return block
