"""Large pages under what a process has made by the time it serves.

A gateway's process that is woken for a message of 100 bytes runs some thousand functions once each,
all over a heap of 30 to 90 MiB.  In pages of 4 KiB, half of what it waits for is where they are.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from mmap import PAGESIZE
from pathlib import Path
from typing import BinaryIO

LARGE = 1 << 21
_SMALL = 1 << 12
_ENTRY = 8
_MOST = 64
"""Regions that are made large: 128 MiB."""

_FEWEST = LARGE // _SMALL * 3 // 4
"""Small pages that must be there of a large one: the others are added, and take memory."""

_OURS = 0x81
"""The highest byte of a page's entry in pagemap, as the kernel's guide has it: the page is present,
of no file, and nobody else's.  A forked process shares its pages, and is to go on sharing them."""

_COLLAPSE = 25
"""MADV_COLLAPSE, of Linux 6.1; an older kernel refuses it."""

_GET_THP_DISABLE = 42
"""PR_GET_THP_DISABLE."""

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def use_large_pages() -> int:
    """Have the kernel keep in large pages what is in small ones; blocks, without the interpreter.

    It takes 40 to 140 ms of CPU time.  Nothing depends on it: where the kernel cannot, or large
    pages are turned off, for all or for this process by prctl(2), memory stays as it is.

    Returns:
        How many large pages there are more than before, or were already.
    """
    if sys.platform != "linux" or PAGESIZE != _SMALL or not _is_allowed():
        return 0
    if ctypes.CDLL(None).prctl(_GET_THP_DISABLE, 0, 0, 0, 0):
        return 0
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            wanted = list(regions(maps))
        with open("/proc/self/pagemap", "rb", buffering=0) as entries:
            full = [begin for begin in wanted if is_full(_tops(entries, begin))]
    except (OSError, ValueError):
        return 0
    return sum(map(collapse, full[:_MOST]))


def collapse(begin: int) -> bool:
    """Have the kernel keep in one large page what begins there; False where it does not."""
    where = ctypes.c_void_p(begin), ctypes.c_size_t(LARGE)
    return bool(ctypes.CDLL(None).madvise(*where, _COLLAPSE) == 0)


def is_full(tops: bytes) -> bool:
    """Whether enough small pages are there and ours alone, by the highest byte of each entry."""
    return tops.count(_OURS) >= _FEWEST


def _is_allowed() -> bool:
    try:
        return "[never]" not in _SETTING.read_text("ascii")
    except (OSError, ValueError):
        return False


def regions(maps: Iterable[str]) -> Iterator[int]:
    """Where large pages would begin, in memory of no file that is written to."""
    for line in maps:
        where, access, _offset, _device, inode, *_name = line.split()
        begin, end = (int(address, 16) for address in where.split("-"))
        if access == "rw-p" and inode == "0":
            yield from range(-(-begin // LARGE) * LARGE, end // LARGE * LARGE, LARGE)


def _tops(entries: BinaryIO, begin: int) -> bytes:
    entries.seek(begin // _SMALL * _ENTRY)
    return entries.read(LARGE // _SMALL * _ENTRY)[_ENTRY - 1 :: _ENTRY]
