"""Decides whether a connection is read: not while anybody holds it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen


@define
class ReadHold:
    """The reading of one connection, which several reasons may hold at a time.

    Args:
        transport: Gives what is paused and resumed.
    """

    _transport: Callable[[], Any]
    _held_by: set[str] = field(factory=set, init=False)

    def holder(self, why: str) -> Holder:
        """One reason's way to hold it, as often as it likes."""
        return Holder(self, why)

    def hold(self, why: str) -> None:
        """Read nothing more until this reason, and every other, is gone."""
        if not self._held_by:
            self._transport().pauseProducing()
        self._held_by.add(why)

    def let_go(self, why: str) -> None:
        """This reason is gone.  Idempotent."""
        if why in self._held_by:
            self._held_by.discard(why)
            if not self._held_by:
                self._transport().resumeProducing()


@frozen
class Holder:
    """Acts as a transport for callers that only pause and resume it."""

    reading: ReadHold
    why: str

    def pauseProducing(self) -> None:
        """Hold."""
        self.reading.hold(self.why)

    def resumeProducing(self) -> None:
        """Let go."""
        self.reading.let_go(self.why)
