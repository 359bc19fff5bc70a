"""SPDY/3.1 as Kubernetes speaks it: streams over one connection, seen from the server.

Framing and headers only: neither side of Kubernetes keeps to SPDY's windows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from threading import Lock

from attrs import define, field

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url "
    "public set-cookie keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
    "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service "
    "UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, "
    "Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/"
    "xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(
        struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split(" ")
    )
    + _REST.encode()
)
"""What both ends compress headers with."""


@define(eq=False)
class Streams:
    """The streams of one connection.

    Attributes:
        read: Reads exactly so many bytes; fewer at the end.
        write: Writes all of them.
    """

    read: Callable[[int], bytes]
    write: Callable[[bytes], object]
    _lock: Lock = field(factory=Lock, init=False)
    _packed: object = field(init=False)
    _unpacked: object = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._packed = zlib.compressobj(zdict=DICTIONARY)
        self._unpacked = zlib.decompressobj(zdict=DICTIONARY)

    def received(self) -> Iterator[tuple[int, dict[str, str] | bytes | None]]:
        """Stream and its headers once it is opened, then its data, then None at its end."""
        while len(head := self.read(8)) == 8:
            first, size = struct.unpack(">II", head)
            flags, body = size >> 24, self.read(size & 0xFFFFFF)
            if not first >> 31:
                if body:
                    yield first, body
                if flags & FIN:
                    yield first, None
                continue
            sort = first & 0xFFFF
            if sort == SYN_STREAM:
                stream = struct.unpack(">I", body[:4])[0]
                yield stream, self._headers(body[10:])
                if flags & FIN:
                    yield stream, None
            elif sort == PING:
                self._control(PING, body)
            elif sort == RST_STREAM:
                yield struct.unpack(">I", body[:4])[0], None
            elif sort == GOAWAY:
                return

    def accept(self, stream: int) -> None:
        """Answer the opening of a stream."""
        with self._lock:
            block = self._packed.compress(struct.pack(">I", 0))  # type: ignore[attr-defined]
            block += self._packed.flush(zlib.Z_SYNC_FLUSH)  # type: ignore[attr-defined]
            self._written(SYN_REPLY, struct.pack(">I", stream) + block)

    def send(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        """Write data of a stream."""
        with self._lock:
            self.write(struct.pack(">II", stream, (FIN if ends else 0) << 24 | len(data)) + data)

    def go_away(self) -> None:
        """Say that nothing more is served."""
        self._control(GOAWAY, struct.pack(">II", 0, 0))

    def _control(self, sort: int, body: bytes) -> None:
        with self._lock:
            self._written(sort, body)

    def _written(self, sort: int, body: bytes) -> None:
        self.write(struct.pack(">HHI", 0x8003, sort, len(body)) + body)

    def _headers(self, block: bytes) -> dict[str, str]:
        raw = self._unpacked.decompress(block)  # type: ignore[attr-defined]
        texts, at = [], 4
        while at < len(raw):
            (size,) = struct.unpack(">I", raw[at : at + 4])
            texts.append(raw[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}
