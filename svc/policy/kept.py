"""Answers that are kept, up to a number of them."""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(dict[_K, _V]):
    """A dict that forgets an eighth of what it holds, the longest kept, when it is full.

    It can be copied in one step, which a cache of :mod:`functools` cannot; and looking something
    up changes no order, so any thread may.

    Args:
        most: How many it holds.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: _K, value: _V) -> None:
        """Hold one more."""
        if len(self) >= self._most:
            for one in list(islice(self, self._most // 8 + 1)):
                self.pop(one, None)
        self[key] = value
