"""How much of a stream belongs to one body: counted, never copied or decoded."""

from __future__ import annotations

import re

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.head import Body

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n\Z")
_TRAILER = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*)?\r\n\Z")
_LONGEST_LINE = 4096


@define
class BodyScan:
    """Tells where a body ends.

    Attributes:
        body: How its length is told; where neither by a number nor by chunks, it never ends.
        most_trailers: Fields that may follow its chunks: a target may take them for headers.
        is_over: Whether all of it has been taken.
    """

    body: Body
    most_trailers: int = 0
    is_over: bool = field(default=False, init=False)
    _left: int = field(default=0, init=False)
    _line: bytearray = field(factory=bytearray, init=False)
    _is_trailer: bool = field(default=False, init=False)
    _trailers: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self.body.length or 0
        self.is_over = self.body.length == 0

    @property
    def is_between_chunks(self) -> bool:
        """Whether what has come of a body in chunks ends with one, and another may follow."""
        is_amid = self._left or self._line or self._is_trailer
        return self.body.is_chunked and not self.is_over and not is_amid

    def take(self, data: bytes) -> int:
        """How many of these bytes, the next of the stream, belong to it.

        Raises:
            Malformed: chunks are not framed as they must be.
        """
        if self.is_over:
            return 0
        if self.body.is_chunked:
            return self._take_chunks(data)
        if self.body.length is None:
            return len(data)
        taken = min(self._left, len(data))
        self._left -= taken
        self.is_over = not self._left
        return taken

    def _take_chunks(self, data: bytes) -> int:
        at = 0
        while at < len(data) and not self.is_over:
            if self._left > 2:
                step = min(self._left - 2, len(data) - at)
                self._left -= step
                at += step
            else:
                at = self._take_line(data, at)
        return at

    def _take_line(self, data: bytes, at: int) -> int:
        """Up to a line's end: of a chunk's size, of its data, or of a trailer."""
        end = data.find(b"\n", at) + 1
        self._line += data[at : end or len(data)]
        if len(self._line) > _LONGEST_LINE:
            raise Malformed("a line between the chunks of a body is too long")
        if not end:
            return len(data)
        line, self._line = bytes(self._line), bytearray()
        if self._left:
            if line != b"\r\n":
                raise Malformed("a chunk of a body is longer than its size")
            self._left = 0
        elif self._is_trailer:
            self._end_trailer(line)
        else:
            self._begin_chunk(line)
        return end

    def _begin_chunk(self, line: bytes) -> None:
        found = _SIZE.match(line)
        if found is None:
            raise Malformed("the size of a chunk of a body is malformed")
        size = int(found[1], 16)
        self._left = size + 2 if size else 0
        self._is_trailer = not size

    def _end_trailer(self, line: bytes) -> None:
        self.is_over = line == b"\r\n"
        self._trailers += not self.is_over
        if _TRAILER.match(line) is None or self._trailers > self.most_trailers:
            raise Malformed("the trailer of a body is malformed, or not taken here")
