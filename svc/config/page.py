"""A page generated from what the program declares: written, or compared with the one there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path


def write_page(markdown: Callable[[], str], arguments: Sequence[str]) -> int:
    """Write the page, or with ``--check`` say by the status whether it is up to date."""
    path = Path(arguments[-1])
    if "--check" in arguments:
        return int(path.read_text(encoding="utf-8") != markdown())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(), encoding="utf-8")
    return 0
