"""Pipes for splicing, lent while bytes flow and taken back when they stop.

A pipe keeps its default size: the kernel grants one user only so many pages of
pipes (``pipe-user-pages-soft`` of pipe(7)), and larger ones would use them up
sixteen times sooner.  Where there is none to be had, whoever asked copies.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from attrs import define, field, frozen

PIPE_BYTES = 64 * 1024
"""The most a pipe is filled with: its size on Linux, unless the user has too many."""

MAX_PIPES = 256
"""So many directions may be full at a time before the next ones copy: two descriptors each."""

_SPARE = 32


@frozen
class Pipe:
    """Its two descriptors; never blocking, never inherited."""

    read: int
    write: int

    def close(self) -> None:
        """Give both descriptors up, with what the pipe still holds."""
        os.close(self.read)
        os.close(self.write)


def make_pipe() -> Pipe:
    """A new pipe.

    Raises:
        OSError: no descriptor is left, or no memory for it.
    """
    return Pipe(*os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))


@define
class Pipes:
    """Those of one process.

    Attributes:
        make: Makes one; raises OSError where it cannot.
        most: How many may be lent.
        lent: How many are lent now.
    """

    make: Callable[[], Pipe] = make_pipe
    most: int = MAX_PIPES
    lent: int = field(default=0, init=False)
    _spare: list[Pipe] = field(factory=list, init=False)

    def borrow(self) -> Pipe | None:
        """An empty pipe; None if none is available now."""
        if self.lent >= self.most:
            return None
        if self._spare:
            pipe = self._spare.pop()
        else:
            try:
                pipe = self.make()
            except OSError:
                return None
        self.lent += 1
        return pipe

    def give_back(self, pipe: Pipe, *, is_empty: bool) -> None:
        """Take a lent pipe back; one that still holds bytes is never lent again."""
        self.lent -= 1
        if is_empty and len(self._spare) < _SPARE:
            self._spare.append(pipe)
        else:
            pipe.close()

    def close(self) -> None:
        """Close the spare ones; called when the role has stopped."""
        spare, self._spare = self._spare, []
        for pipe in spare:
            pipe.close()
