"""Reads files that a person names on the command line, up to a limit and a deadline.

A regular file is read as it is.  A pipe is taken too, because ``<(command)`` in a shell and
``/dev/stdin`` are pipes; whoever writes to it has a limited time for each piece.  Devices,
directories and sockets are refused.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

WAIT_SECS = 10.0
"""So long a pipe may stay silent."""

_PIECE = 1 << 16


def given_file(path: Path, most: int, *, private: bool = False) -> Callable[[], BinaryIO]:
    """Begins to read the file, each time it is called; a pipe is read once, here.  Blocks.

    Args:
        most: A pipe through which more bytes come is refused; a file may be longer.
        private: Refuse a file that others may read.

    Raises:
        OSError: it cannot be read; ``strerror`` says why.
    """
    begin, is_cut = _opened(path, most, private)
    if is_cut:
        raise _refused(path, f"longer than {most / (1 << 20):g} MiB; give a file, not a pipe")
    return begin


def _opened(path: Path, most: int, private: bool) -> tuple[Callable[[], BinaryIO], bool]:
    """What begins to read it, and whether it is a pipe whose end that does not reach."""
    # Without O_NONBLOCK the opening of a pipe waits for somebody to write to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISFIFO(found.st_mode):
            data = _piped(descriptor, path, most)
            return lambda: BytesIO(data), len(data) > most
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "is neither a file nor a pipe")
        if private and stat.S_IMODE(found.st_mode) & 0o077:
            raise _refused(path, f"other users may read it; run: chmod 600 {path}")
    finally:
        os.close(descriptor)
    return lambda: path.open("rb"), False


def read_given(path: Path, most: int, *, private: bool = False) -> bytes:
    """What the file holds, at most *most* bytes and one.  Blocks.  See :func:`given_file`."""
    begin, _ = _opened(path, most, private)
    with begin() as file:
        return file.read(most + 1)


def read_secret(path: Path, most: int, *, mounted: bool = False) -> bytes:
    """What a file with a secret holds, at most *most* bytes and one.  Waits for no writer.

    The file is regular, and it is ours or root's.

    Args:
        mounted: Others may read it, as those that an orchestrator mounts; it is root's then, and
            nobody else may write it.

    Raises:
        OSError: it cannot be read, or somebody else can; ``strerror`` says why.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check_secret(path, os.fstat(descriptor), mounted)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)


def _check_secret(path: Path, found: os.stat_result, mounted: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "is not a regular file")
    if found.st_uid != 0 and (mounted or found.st_uid != os.geteuid()):
        raise _refused(path, "belongs to another user")
    if stat.S_IMODE(found.st_mode) & (0o022 if mounted else 0o077):
        others = "write" if mounted else "read"
        raise _refused(
            path, f"other users may {others} it; run: chmod go-{'w' if mounted else 'rwx'} {path}"
        )


def _piped(descriptor: int, path: Path, most: int) -> bytes:
    """What comes through a pipe until everybody who wrote to it has closed it.

    No more than *most* bytes and one.
    """
    found = bytearray()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while len(found) <= most:
        if not poll.poll(WAIT_SECS * 1000):
            raise _refused(path, f"is a pipe, and nothing came through it for {WAIT_SECS:g} s")
        piece = os.read(descriptor, min(_PIECE, most + 1 - len(found)))
        if not piece:
            break
        found += piece
    return bytes(found)


def _refused(path: Path, why: str) -> OSError:
    return OSError(0, why, str(path))
