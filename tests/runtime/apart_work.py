"""Work for a process of its own: some is done, some hangs, some ends the process."""

from __future__ import annotations

import os
import signal


def upper(data: bytes) -> bytes:
    """Done."""
    return data.upper()


def pid(data: bytes) -> bytes:
    """Which process it is."""
    return str(os.getpid()).encode()


def crash(data: bytes) -> bytes:
    """End the process, as a parser that runs out of stack."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def hang(data: bytes) -> bytes:
    """Never done."""
    while True:
        pass


def fill(data: bytes) -> bytes:
    """More memory than there is."""
    return b"x" * (4 << 30)


def flood(data: bytes) -> bytes:
    """More than anybody reads."""
    return b"x" * (8 << 20)
