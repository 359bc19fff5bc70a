"""One session between two file descriptors, for ``svc proxy-ssh``.

The bytes are the tool's own; nothing else is ever written to the output.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.internet.stdio import StandardIO
from twisted.python.failure import Failure

from svc.client.ended import SessionSide
from svc.client.sessions import ClientSession
from svc.lanes.relay import Relay, RelayEnded, RelaySide, only_side

LEAVE_SECS = 5.0
"""How long the session of a tool that leaves may take to end in order.

What the tool said last may still be in the pipe, and only the far end knows whether it was a
leave-taking.
"""


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
    """The tool's side of the relay.

    Attributes:
        has_left: Nobody is there to be told anything.
    """

    def __init__(self, relay: Relay, clock: IReactorTime) -> None:
        super().__init__(relay, "left")
        self.has_left = False
        self._clock = clock
        self._deadline: IDelayedCall | None = None

    def writeConnectionLost(self) -> None:
        """The output is closed: by us at the session's end, or because its reader has gone."""
        if not self.relay.right.read_ended:
            self.leave()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Both pipes are closed."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None
        super().connectionLost(reason)

    def leave(self) -> None:
        """The tool is gone, or about to be: end with its input, or else after a while."""
        if self.has_left or self.is_lost:
            return
        self.has_left = True
        self._deadline = self._clock.callLater(LEAVE_SECS, self.relay.abort)
        session = self.relay.right
        if not session.is_lost:
            # Paused for a reader that was slow, it would never be heard to end.
            session.transport.resumeProducing()


@define(eq=False)
class PipedSession:
    """One session between two pipes; carry it once.

    Attributes:
        begin: Told once it stands, before the first byte passes; returns the pipes.
        cut: Told when it ends otherwise than in order, and its tool is still there; before the
            pipes are closed.
    """

    session: ClientSession
    begin: Callable[[ClientSession], Awaitable[StdioPipes]]
    cut: Callable[[ClientSession], object]
    _tool: StdioSide | None = field(default=None, init=False)

    async def carry(self) -> RelayEnded:
        """Open the session and carry it until both ways are over.

        Nothing is read from the input before the session stands.

        Raises:
            SvcError: it did not open.
        """
        relay = Relay()
        relay.right = SessionSide(relay, self._cut, self.session.greeting)
        await self.session.connect(only_side(relay.right))
        try:
            pipes = await self.begin(self.session)
            self._tool = relay.left = StdioSide(relay, pipes.reactor)
            StdioTransport(self._tool, pipes)
            return await relay.done
        finally:
            relay.abort()

    def leave(self) -> bool:
        """End with what the tool said last, within :data:`LEAVE_SECS`.

        Returns:
            Whether there is a tool that could have said anything.
        """
        if self._tool is None:
            return False
        self._tool.leave()
        return True

    def _cut(self) -> object:
        is_gone = self._tool is not None and self._tool.has_left
        return False if is_gone else self.cut(self.session)
