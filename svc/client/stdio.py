"""One session between two file descriptors, for ``svc proxy-ssh``.

The bytes are the tool's own; nothing else is ever written to the output.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.stdio import StandardIO
from twisted.python.failure import Failure

from svc.client.ended import SessionSide
from svc.client.sessions import ClientSession
from svc.lanes.relay import Relay, RelayEnded, RelaySide, only_side


def _no_matter() -> None:
    """Nobody else has the output open."""


@frozen
class StdioPipes:
    """Where a tool's bytes come from and go to; the descriptors become ours to close.

    Attributes:
        output_closed: Called once we have closed the output.
    """

    reactor: Any
    input: int = 0
    output: int = 1
    output_closed: Callable[[], object] = _no_matter


class StdioTransport(StandardIO):
    """Twisted's, with ends that always come.

    Its own closes no descriptor, so that a reader of our output would hear of
    the far end's half-close at the end of the process only; and it never
    reports the end where one half was closed before the other.
    """

    def __init__(self, protocol: RelaySide, pipes: StdioPipes) -> None:
        self._numbers = {"read": pipes.input, "write": pipes.output}
        self._output_closed = pipes.output_closed
        made: Any = StandardIO.__init__
        made(self, protocol, pipes.input, pipes.output, reactor=pipes.reactor)

    def childConnectionLost(self, fd: str, reason: Failure) -> None:
        """One half is over: its descriptor goes with it."""
        number = self._numbers.pop(fd, None)
        if number is not None:
            os.close(number)
            if fd == "write":
                self._output_closed()
        this: Any = StandardIO
        this.childConnectionLost(self, fd, reason)

    def loseConnection(self) -> None:
        """Close once what was written has gone."""
        this: Any = self
        StandardIO.loseConnection(this)
        if this._writer is None and not this.disconnected:
            this.connectionLost(Failure(ConnectionDone()))

    def abortConnection(self) -> None:
        """Close now; what was not written is lost."""
        this: Any = self
        if not this.disconnected:
            this.disconnecting = True
            this.connectionLost(Failure(ConnectionAborted()))


class StdioSide(RelaySide):
    """The tool's side of the relay."""

    def writeConnectionLost(self) -> None:
        """The output is closed: by us at the session's end, or because its reader has gone."""
        if not self.relay.right.read_ended:
            self.relay.abort()


async def carry(
    session: ClientSession,
    begin: Callable[[ClientSession], Awaitable[StdioPipes]],
    cut: Callable[[ClientSession], object],
) -> RelayEnded:
    """Open the session and carry it until both ways are over.

    Nothing is read from the input before the session stands.

    Args:
        begin: Told once it does, before the first byte passes; returns the pipes.
        cut: Told when it ends otherwise than in order, before the pipes are closed.

    Raises:
        SvcError: it did not open.
    """
    relay = Relay()
    relay.left = StdioSide(relay, "left")
    relay.right = SessionSide(relay, lambda: cut(session), session.greeting)
    await session.connect(only_side(relay.right))
    try:
        StdioTransport(relay.left, await begin(session))
        return await relay.done
    finally:
        relay.abort()
