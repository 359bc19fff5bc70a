"""The child of :mod:`svc.runtime.apart`: does one piece of work after another.

It ends when its parent is gone, and when a function raises: the parent begins another.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import BinaryIO

HEAD = 4
MEMORY = 1024 * 1024 * 1024
"""Of addresses, which is far more than is used."""

CPU_SECS = 1.0
"""What one piece may take of this process; then the kernel ends it."""

READY, DONE = b"r", b"d"


def framed(data: bytes) -> bytes:
    """With its length before it."""
    return len(data).to_bytes(HEAD, "big") + data


def main() -> None:
    """Serve until the input ends."""
    confine()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def confine() -> None:
    """Give up what this process does not need: memory, files, core dumps."""
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def serve(given: BinaryIO, answers: BinaryIO) -> None:
    """One piece of work after another."""
    _tell(answers, READY)
    while (work := _read(given)) is not None and (data := _read(given)) is not None:
        function = _function(work.decode("ascii"))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECS)
        answer = function(data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _tell(answers, DONE + answer)


@cache
def _function(work: str) -> Callable[[bytes], bytes]:
    module, _, name = work.partition(":")
    found: Callable[[bytes], bytes] = getattr(import_module(module), name)
    return found


def _read(given: BinaryIO) -> bytes | None:
    head = given.read(HEAD)
    size = int.from_bytes(head, "big")
    data = given.read(size) if len(head) == HEAD else b""
    return data if len(head) == HEAD and len(data) == size else None


def _tell(answers: BinaryIO, answer: bytes) -> None:
    answers.write(framed(answer))
    answers.flush()
