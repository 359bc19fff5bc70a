"""The services behind the gateway: one small process that serves all of them.

``echo`` returns what comes; ``sink`` reads to the end and answers with count
and SHA-256; ``source`` is told how many bytes to send; ``sent`` answers how
many bytes sources could hand to their kernel so far, ``seen`` how many
connections ``echo`` has had.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

BLOCK = 65_536
_PATTERN = bytes(range(256)) * (BLOCK // 256)


def blocks(size: int) -> Iterator[bytes]:
    """*size* bytes, no two blocks alike, the same each time."""
    for start in range(0, size, BLOCK):
        yield (start.to_bytes(8, "big") + _PATTERN[8:])[: size - start]


def digest_of(size: int) -> str:
    """SHA-256 of what :func:`blocks` gives."""
    digest = hashlib.sha256()
    for block in blocks(size):
        digest.update(block)
    return digest.hexdigest()


def answer_of(size: int) -> str:
    """What the sink answers after these blocks."""
    return f"{size} {digest_of(size)}\n"


class Services:
    """What is served; one thread a connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._seen = 0

    def echo(self, peer: socket.socket) -> None:
        """Return what comes, to its end."""
        with self._lock:
            self._seen += 1
        while piece := peer.recv(BLOCK):
            peer.sendall(piece)

    def sink(self, peer: socket.socket) -> None:
        """Read to the end of the other side's writing, then answer: half-close, both ways."""
        digest, count = hashlib.sha256(), 0
        while piece := peer.recv(4 * BLOCK):
            digest.update(piece)
            count += len(piece)
        peer.sendall(f"{count} {digest.hexdigest()}\n".encode())

    def source(self, peer: socket.socket) -> None:
        """Send as many bytes as the first line says."""
        for block in blocks(int(peer.makefile("rb").readline())):
            peer.sendall(block)
            with self._lock:
                self._sent += len(block)

    def sent(self, peer: socket.socket) -> None:
        """Say how much all sources together have sent."""
        with self._lock:
            peer.sendall(str(self._sent).encode())

    def seen(self, peer: socket.socket) -> None:
        """Say how many connections echo has had."""
        with self._lock:
            peer.sendall(str(self._seen).encode())


def serve(port: socket.socket, service: Callable[[socket.socket], None]) -> None:
    """Give each connection a thread."""
    while True:
        peer, _ = port.accept()
        threading.Thread(target=_one, args=(peer, service), daemon=True).start()


def _one(peer: socket.socket, service: Callable[[socket.socket], None]) -> None:
    with peer:
        try:
            service(peer)
        except OSError:
            pass  # the other side has gone: nothing to tell anyone


def main() -> None:
    """Serve all; the ports, by name, are one JSON line."""
    services = Services()
    bound = {}
    for name in ("echo", "sink", "source", "sent", "seen"):
        port = socket.create_server(("127.0.0.1", 0), backlog=256)
        bound[name] = port.getsockname()[1]
        threading.Thread(target=partial(serve, port, getattr(services, name)), daemon=True).start()
    sys.stdout.write(json.dumps(bound) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
