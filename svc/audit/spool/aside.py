"""Files of which something cannot be read, kept for whoever wants to look at them.

Only the newest few stay.  All of this blocks on the disk.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from svc.runtime import durable

DAMAGED = "damaged"
"""The folder of such files, beside the spools."""

KEPT_ASIDE = 16


def move_aside(path: Path, root: Path, name: str) -> Path:
    """Move a file, of which nothing need be readable, and return where it is.

    Args:
        root: Holds the folder; made if it is not there.

    Raises:
        OSError: the file stays where it was.
    """
    aside = _folder(root) / name
    durable.move(path, aside)
    with suppress(OSError):
        os.utime(aside)  # the newest are those that were found last
    _keep_newest(aside.parent)
    return aside


def copy_aside(data: bytes, root: Path, name: str) -> Path:
    """Write what a file holds, and return where.  Raises OSError."""
    aside = _folder(root) / name
    durable.replace(aside, data)
    _keep_newest(aside.parent)
    return aside


def _folder(root: Path) -> Path:
    folder = root / DAMAGED
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _keep_newest(folder: Path) -> None:
    kept = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
    for old in kept[:-KEPT_ASIDE]:
        with suppress(OSError):
            os.unlink(old)
