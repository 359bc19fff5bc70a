"""For parts whose callbacks a test does not look at."""

from __future__ import annotations


def nothing(*_told: object) -> None:
    """Nobody is told."""


async def nothing_later(*_told: object) -> None:
    """Nobody is told, and somebody waits for it."""


async def none_later() -> tuple[()]:
    """There is none."""
    return ()
