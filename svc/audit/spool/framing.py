"""The file format of rows: each has a mark, its length, its number and a checksum.

Pure.  The mark holds a byte that no UTF-8 text has, so that nothing a row
says can pass for a row where a damaged one is searched for the next.
The checksum finds what a disk did; what a person did is found by signatures.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

from attrs import frozen

MARK = b"\xf5Row"
_HEAD = struct.Struct(">4sIQI")
_SUMMED = struct.Struct(">IQ")
HEAD_BYTES = _HEAD.size


@frozen
class Framed:
    """One row as it was written; *end* is where the next begins."""

    n: int
    payload: bytes
    end: int


@frozen
class Damaged:
    """Bytes that hold no row: damaged, or the end of what was never written whole."""

    begin: int
    end: int


def framed(n: int, payload: bytes) -> bytes:
    """*payload* in its frame in a file, with the number *n*."""
    return _HEAD.pack(MARK, len(payload), n, _checksum(n, payload)) + payload


def framed_run(first: int, payloads: Sequence[bytes]) -> bytes:
    """Each of *payloads* in its frame, with numbers from *first* on."""
    parts: list[bytes] = []
    head, summed = _HEAD.pack, _SUMMED.pack
    for n, payload in enumerate(payloads, first):
        size = len(payload)
        parts.append(head(MARK, size, n, crc32(payload, crc32(summed(size, n)))))
        parts.append(payload)
    return b"".join(parts)


def frames(data: bytes) -> Iterator[Framed | Damaged]:
    """What a file holds, in order."""
    at = 0
    while at < len(data):
        found = _row(data, at)
        if found is None:
            begin, at = at, _next(data, at + 1)
            yield Damaged(begin, at)
        else:
            at = found.end
            yield found


def _row(data: bytes, at: int) -> Framed | None:
    if len(data) - at < HEAD_BYTES:
        return None
    mark, length, n, checksum = _HEAD.unpack_from(data, at)
    begin = at + HEAD_BYTES
    if mark != MARK or length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    if _checksum(n, payload) != checksum:
        return None
    return Framed(n, payload, begin + length)


def _next(data: bytes, at: int) -> int:
    """Where the next whole row begins, or the end."""
    while (at := data.find(MARK, at)) >= 0:
        if _row(data, at) is not None:
            return at
        at += 1
    return len(data)


def _checksum(n: int, payload: bytes) -> int:
    return crc32(payload, crc32(_SUMMED.pack(len(payload), n)))
