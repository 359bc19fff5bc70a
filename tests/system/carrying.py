"""Sessions that carry bytes."""

from __future__ import annotations

import socket


def carrying(where: tuple[str, int], seconds: float) -> socket.socket | None:
    """A connection to an echo that answers; None if it is ended first."""
    peer = socket.socket()
    peer.settimeout(seconds)
    try:
        peer.connect(where)
        peer.sendall(b"hello")
        if peer.recv(5) == b"hello":
            return peer
    except (ConnectionResetError, BrokenPipeError):
        pass
    peer.close()
    return None
