"""Closes a caller's connection properly, so that no call that was started is lost.

A server that drains says so twice (RFC 9113 6.8): first that it will take no further call, then,
once what the caller had begun before it heard that has come, which call was its last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from svc.wire.connection import Connection

AWAY_SECONDS = 1.0
"""How long a caller is given to answer the ping behind the first notice."""


class ShutdownOwner(Protocol):
    """The connection that is to end."""

    @property
    def wire(self) -> Connection:
        """Its HTTP/2."""

    def schedule(self) -> None:
        """Write what is queued."""

    def close(self, reason: str) -> None:
        """End it in order."""

    def end_lasting(self) -> None:
        """End the calls that have no end of their own, if no others are left."""


class GracefulShutdown:
    """Which end leaves, and whether it may be over; made when either begins to.

    Args:
        owner: The connection.
        after: ``after(name, seconds, call)`` starts a timer that ends with the connection.
    """

    def __init__(
        self, owner: ShutdownOwner, after: Callable[[str, float, Callable[[], object]], None]
    ) -> None:
        self._owner = owner
        self._after = after
        self.is_draining = False
        self._is_left = False

    def drain(self, *, is_ready: bool) -> None:
        """Serve what the caller has begun, take no further call; close once those are over.

        Args:
            is_ready: The caller speaks HTTP/2: otherwise it has begun nothing.
        """
        self.is_draining = True
        if is_ready:
            self._owner.wire.go_away()
            self._after("away", AWAY_SECONDS, self._refuse_further)
            self._owner.schedule()
        else:
            self._refuse_further()

    def client_goes_away(self) -> None:
        """The caller has announced that it leaves: close the connection after its last call."""
        self._is_left = True
        self.look()

    def look(self) -> None:
        """Close the connection if nothing is to come on it; asked whenever it was written to.

        Nothing to look at before one of both has begun.
        """
        wire = self._owner.wire
        if self.is_draining and wire.is_going_away:
            # Only now: what the caller had begun may need what lasts, or end with it.
            self._owner.end_lasting()
        if wire.streams or wire.has_work:
            return
        if self.is_draining and wire.is_going_away:
            self._owner.close("drained")
        elif self._is_left:
            self._owner.close("going_away")

    def _refuse_further(self) -> None:
        self._owner.wire.refuse_further()
        self._owner.schedule()
        self.look()
