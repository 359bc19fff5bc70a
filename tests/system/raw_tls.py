"""TLS and HTTP/2 spoken by hand: to stall, to speak slowly, and to ask more than clients do."""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hpack import Decoder, Encoder

SECONDS = 30.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = struct.Struct("!HBBBL")
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_EMPTY_MESSAGE = bytes(5)


def connected(address: str, source: str = "127.0.0.1") -> socket.socket:
    """TCP from one of this machine's addresses."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SECONDS, (source, 0))


def client_context(root: str) -> ssl.SSLContext:
    """What a stock TLS client takes that knows the cluster's root."""
    context = ssl.create_default_context(cafile=root)
    context.set_alpn_protocols(["h2"])
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first bytes of a handshake, as that client sends them."""
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def by_the_byte(door: socket.socket, context: ssl.SSLContext) -> ssl.SSLObject:
    """A handshake whose every byte travels alone."""
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(inward, outward, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            is_done = False
        for byte in outward.read():
            door.sendall(bytes((byte,)))
        if is_done:
            return tls
        inward.write(door.recv(65536))


def left_open(doors: Iterable[socket.socket], seconds: float) -> int:
    """How many of these connections the other end has not closed within this time."""
    poll = select.poll()
    waiting = {door.fileno(): door for door in doors}
    for handle in waiting:
        poll.register(handle, select.POLLIN | select.POLLHUP)
    for door in waiting.values():
        door.settimeout(seconds)
    while waiting:
        ready = poll.poll(seconds * 1000)
        if not ready:
            return len(waiting)
        for handle, _ in ready:
            if _is_over(waiting[handle]):
                poll.unregister(handle)
                del waiting[handle]
    return 0


def _is_over(door: socket.socket) -> bool:
    try:
        return not door.recv(65536)
    except OSError:
        return True


def unary_calls(
    door: ssl.SSLSocket, method: str, count: int, at_once: int, metadata: Sequence[Any] = ()
) -> Counter[str]:
    """Make many calls with an empty message over one connection; how each ended.

    Args:
        at_once: Calls open at a time.
    """
    encoder, decoder = Encoder(), Decoder()
    head = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", method),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *metadata,
    ]
    out = bytearray(PREFACE + _frame(_SETTINGS, 0, 0) + _frame(_WINDOW, 0, 0, b"\x3f\xff\x00\x00"))
    begun = open_now = 0
    ends: Counter[str] = Counter()
    held = b""
    while sum(ends.values()) < count:
        while begun < count and open_now < at_once:
            stream = 2 * begun + 1
            fields = encoder.encode(head)
            out += _frame(_HEADERS, _END_HEADERS, stream, fields)
            out += _frame(_DATA, _END_STREAM, stream, _EMPTY_MESSAGE)
            begun, open_now = begun + 1, open_now + 1
        door.sendall(out)
        out.clear()
        chunk = door.recv(262_144)
        if not chunk:
            ends["closed"] += count - sum(ends.values())
            return ends
        held += chunk
        while len(held) >= 9 and len(held) >= 9 + (size := int.from_bytes(held[:3], "big")):
            kind, flags, body = held[3], held[4], held[9 : 9 + size]
            held = held[9 + size :]
            if kind == _HEADERS:
                fields_of = dict(decoder.decode(body, raw=True))
                if flags & _END_STREAM:
                    ends[fields_of.get(b"grpc-status", b"none").decode()] += 1
                    open_now -= 1
            elif kind == _SETTINGS and not flags & _ACK:
                out += _frame(_SETTINGS, _ACK, 0)
            elif kind == _PING and not flags & _ACK:
                out += _frame(_PING, _ACK, 0, body)
            elif kind == _GOAWAY:
                ends["goaway"] += 1
    return ends


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    size = len(body)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + body
