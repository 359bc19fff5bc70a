"""The ends of small round trips: echoes, and a client that has one message under way a session.

Processes of their own, which do as little as Python can::

    trip_ends echo|websocket|http LISTENER     serve on an inherited socket
    trip_ends client SPEECH HOST PORT COUNT    a line "SIZE SECONDS" in, a JSON line out
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import IO

from attrs import frozen

_MOVES_AFTER = 5 << 18
"""Bytes that each session echoes before it is measured: one that may move has moved by then."""

_PIECE = 1 << 15
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _PING, _PONG = 0x82, 0x89, 0x8A


@frozen
class Speech:
    """What a client says.

    Attributes:
        warm: Begins a session and lets it carry :data:`_MOVES_AFTER`.
        message: A message of a size to a host, and how many bytes come back for it; 0 where only
            the answer itself says so.
    """

    warm: Callable[[socket.socket], None]
    message: Callable[[int, str], tuple[bytes, int]]


def serve_echo(listener: socket.socket) -> None:
    """Say again what each connection says."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    held: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            peer = held.get(number)
            if peer is None:
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                held[peer.fileno()] = peer
                poll.register(peer, select.EPOLLIN)
                continue
            try:
                data = peer.recv(1 << 16)
                peer.sendall(data)
            except OSError:
                data = b""
            if not data:
                poll.unregister(number)
                held.pop(number).close()


def serve_http(listener: socket.socket) -> None:
    """Answer ``GET /SIZE`` with so many bytes, over connections that are kept."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    held: dict[int, socket.socket] = {}
    heard: dict[int, bytes] = {}
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                held[peer.fileno()], heard[peer.fileno()] = peer, b""
                poll.register(peer, select.EPOLLIN)
                continue
            peer = held[number]
            try:
                data = peer.recv(1 << 16)
                *whole, heard[number] = (heard[number] + data).split(b"\r\n\r\n")
                for head in whole:
                    size = int(head.split(b" ", 2)[1].rpartition(b"/")[2])
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                    peer.sendall(bytes(size))
            except OSError:
                data = b""
            if not data:
                poll.unregister(number)
                held.pop(number).close()


def serve_websocket(listener: socket.socket) -> None:
    """Answer pings (RFC 6455, 5.5.2), and say binary messages again."""
    while True:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Thread(target=_answer, args=(peer,), daemon=True).start()


def _answer(peer: socket.socket) -> None:
    with peer, peer.makefile("rb") as read:
        key = ""
        while (line := read.readline().strip()) != b"":
            name, _, value = line.decode("ascii").partition(":")
            if name.lower() == "sec-websocket-key":
                key = value.strip()
        peer.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + _accepted(key) + b"\r\n\r\n"
        )
        while head := read.read(2):
            size = head[1] & 0x7F
            if size == 126:
                [size] = struct.unpack("!H", read.read(2))
            data = _masked(read.read(4), read.read(size))
            peer.sendall(_frame(_PONG if head[0] == _PING else _BINARY, data))


def _accepted(key: str) -> bytes:
    return base64.b64encode(hashlib.sha1((key + _GUID).encode("ascii")).digest())


def _masked(mask: bytes, data: bytes) -> bytes:
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(whole, "big") ^ int.from_bytes(data, "big")).to_bytes(len(data), "big")


def _frame(first: int, data: bytes, mask: bytes = b"") -> bytes:
    size, flag = len(data), 0x80 if mask else 0
    head = (
        bytes((first, flag | size)) if size < 126 else struct.pack("!BBH", first, flag | 126, size)
    )
    return head + (mask + _masked(mask, data) if mask else data)


def _warm_bytes(peer: socket.socket) -> None:
    for _ in range(_MOVES_AFTER // _PIECE):
        peer.sendall(bytes(_PIECE))
        _receive(peer, _PIECE)


def _warm_websocket(peer: socket.socket) -> None:
    key = base64.b64encode(os.urandom(16))
    peer.sendall(
        b"GET / HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _receive(peer, 1)
    if not head.startswith(b"HTTP/1.1 101 ") or _accepted(key.decode("ascii")) not in head:
        raise AssertionError(f"no WebSocket: {head!r}")
    frame = _frame(_BINARY, bytes(_PIECE), os.urandom(4))
    for _ in range(_MOVES_AFTER // _PIECE):
        peer.sendall(frame)
        _receive(peer, len(_frame(_BINARY, bytes(_PIECE))))


def _warm_http(peer: socket.socket) -> None:
    """Nothing: what is decided request by request stays in the tunnel."""


def _get(size: int, host: str) -> tuple[bytes, int]:
    return f"GET /{size} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("ascii"), 0


def _answered(peer: socket.socket, request: bytes) -> int:
    """How long the whole answer to a request is."""
    peer.sendall(request)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _receive(peer, 1)
    size = re.search(rb"content-length: *(\d+)\r\n", head, re.IGNORECASE)
    if size is None or not head.startswith(b"HTTP/1.1 200 "):
        raise AssertionError(f"no whole answer: {head!r}")
    return len(head) + len(_receive(peer, int(size[1])))


def _ping(size: int, host: str) -> tuple[bytes, int]:
    return _frame(_PING, bytes(size), os.urandom(4)), len(_frame(_PONG, bytes(size)))


SPEECHES = {
    "echo": Speech(warm=_warm_bytes, message=lambda size, host: (bytes(size), size)),
    "websocket": Speech(warm=_warm_websocket, message=_ping),
    "http": Speech(warm=_warm_http, message=_get),
}
SERVERS = {"echo": serve_echo, "websocket": serve_websocket, "http": serve_http}


def _client(speech: Speech, address: tuple[str, int], count: int, orders: IO[str]) -> None:
    """Open the sessions, then measure as often as is asked."""
    held: dict[int, socket.socket] = {}
    poll = select.epoll()
    host, port = address
    # A name of RFC 6761, 6.3, which not every resolver knows.
    where = "127.0.0.1" if host.endswith(".localhost") else host
    for _ in range(count):
        peer = socket.create_connection((where, port), timeout=30)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        speech.warm(peer)
        held[peer.fileno()] = peer
        poll.register(peer, select.EPOLLIN)
    print("warm", flush=True)
    for order in orders:
        size, seconds = order.split()
        message, answer = speech.message(int(size), f"{host}:{port}")
        answer = answer or _answered(next(iter(held.values())), message)
        print(json.dumps(_measured(poll, held, message, answer, float(seconds))), flush=True)


def _measured(
    poll: select.epoll,
    held: dict[int, socket.socket],
    message: bytes,
    answer: int,
    seconds: float,
) -> dict[str, float]:
    """One message under way in each session until the time is over; the last ones are awaited."""
    missing, took = dict.fromkeys(held, answer), []
    began = time.perf_counter()
    sent = dict.fromkeys(held, began)
    ends, under_way = began + seconds, len(held)
    for peer in held.values():
        peer.send(message)
    while under_way:
        for number, _ in poll.poll(30):
            got = len(held[number].recv(1 << 16))
            if not got:
                raise AssertionError("a session ended while it was measured")
            missing[number] -= got
            if missing[number]:
                continue
            now = time.perf_counter()
            took.append(now - sent[number])
            if now >= ends:
                under_way -= 1
                continue
            missing[number], sent[number] = answer, now
            held[number].send(message)
    whole = time.perf_counter() - began
    took.sort()
    p50, p99 = (took[int(share * len(took))] * 1000 for share in (0.5, 0.99))
    return {"trips": len(took), "seconds": whole, "p50": p50, "p99": p99}


def _receive(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = peer.recv(size - len(found))
        if not piece:
            raise AssertionError("the session ended while it was warmed")
        found += piece
    return found


if __name__ == "__main__":
    if sys.argv[1] == "client":
        _, _, _speech, _host, _port, _count = sys.argv
        _client(SPEECHES[_speech], (_host, int(_port)), int(_count), sys.stdin)
    else:
        SERVERS[sys.argv[1]](socket.socket(fileno=int(sys.argv[2])))
