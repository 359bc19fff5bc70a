"""The ends of a byte path: a sink that answers what it got, a source that fills a connection.

Both are processes of their own, so that no measured process pays for them
beyond its share of the machine.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from attrs import define

BLOCK = 1 << 18
MEGABYTE = 1_000_000
STILL_SECS = 0.5
"""A connection that takes nothing for so long is full."""


def serve_sink(listener: socket.socket) -> None:
    """Count what comes to its end, answer the count.

    The kernel drops what is counted (``MSG_TRUNC`` of tcp(7)): the ends are to cost little beside
    what is measured between them.  A caller that asks ``e`` gets that byte back, and one that asks
    ``h`` is kept besides.
    """
    room = bytearray(4 * BLOCK)
    held: list[socket.socket] = []
    while True:
        peer, _ = listener.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first = peer.recv(1)
            if first in (b"e", b"h"):
                peer.sendall(first)
                if first == b"h":
                    held.append(peer.dup())
                continue
            count = len(first)
            while got := peer.recv_into(room, 0, socket.MSG_TRUNC):
                count += got
            peer.sendall(str(count).encode())


@define
class Sink:
    """A sink in a process of its own."""

    port: int
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()


def start_sink() -> Sink:
    """A sink on a free loopback port."""
    listener = socket.create_server(("127.0.0.1", 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "contrib.bench.ends", str(listener.fileno())],
        pass_fds=(listener.fileno(),),
    )
    port: int = listener.getsockname()[1]
    listener.close()
    return Sink(port, process)


@contextmanager
def flood() -> Iterator[int]:
    """The port of a target that sends without end to whoever connects, and reads nothing."""
    held: list[socket.socket] = []

    def send(peer: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer.sendall(bytes(BLOCK))

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                held.append(peer)
                Thread(target=send, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            for peer in held:
                with suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
                peer.close()


def stalled(address: tuple[str, int]) -> socket.socket:
    """A connection full both ways: its client reads nothing, and writes until it may not."""
    peer = socket.create_connection(address, timeout=60)
    peer.settimeout(STILL_SECS)
    with suppress(TimeoutError):
        while True:
            peer.sendall(bytes(BLOCK))
    return peer


def throughput(address: tuple[str, int], megabytes: int) -> float:
    """Megabytes a second from here to the sink behind *address*, its answer included."""
    block = bytes(BLOCK)
    size = megabytes * MEGABYTE
    with socket.create_connection(address, timeout=60) as peer:
        began = time.perf_counter()
        left = size
        while left > 0:
            peer.sendall(block[: min(left, BLOCK)])
            left -= BLOCK
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := peer.recv(64):
            answer += piece
        took = time.perf_counter() - began
    if answer != str(size).encode():
        raise AssertionError(f"the sink got {answer!r}, not {size}")
    return size / MEGABYTE / took


def round_trip(address: tuple[str, int]) -> float:
    """Milliseconds from the connect to the first byte back: a session opened and used."""
    began = time.perf_counter()
    with socket.create_connection(address, timeout=60) as peer:
        peer.sendall(b"e")
        if peer.recv(1) != b"e":
            raise AssertionError("the session gave nothing back")
    return (time.perf_counter() - began) * 1000


def held(address: tuple[str, int]) -> socket.socket:
    """A session that was used once and is idle now; it lasts until it is closed."""
    peer = socket.create_connection(address, timeout=60)
    peer.sendall(b"h")
    if peer.recv(1) != b"h":
        raise AssertionError("the session gave nothing back")
    return peer


if __name__ == "__main__":
    serve_sink(socket.socket(fileno=int(sys.argv[1])))
