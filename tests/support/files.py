"""The files of a process that runs: it makes and removes some while we look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def files_below(directory: Path) -> Iterator[Path]:
    """Every regular file at any depth; a directory that goes meanwhile is passed over."""
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place, name)
            if path.is_file():
                yield path


def contents_below(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Every regular file with what it holds, but for those that go meanwhile."""
    for path in files_below(directory):
        with suppress(FileNotFoundError):
            yield path, path.read_bytes()
