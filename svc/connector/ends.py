"""Turns the end of a session at the Connector into a word for the Proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twisted.internet.interfaces import IProtocol, IProtocolFactory
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.lanes.relay import RelaySide
from svc.model.session.ending import TARGET_CLOSED
from svc.rpc.call import MessageEnd
from svc.rpc.stream import StreamTransport


class Carrying(Protocol):
    """Opens a session's own stream, on the connection that its notice arrived through."""

    make: Callable[[MessageEnd], StreamTransport]
    """The transport of the stream, of a call that is open."""

    @property
    def fault(self) -> str:
        """Why the stream was ended here, where what came of the Proxy was at fault."""

    async def connected(self, factory: IProtocolFactory) -> IProtocol:
        """See :class:`svc.rpc.endpoint.AwaitedEndpoint`."""

    def begin_with(self, flight: bytes) -> None:
        """Send this with what opens the stream."""

    def end_with(self, word: str) -> None:
        """Say this to the Proxy as the stream ends; the first word stays."""

    async def left(self) -> None:
        """Wait until the Proxy has ended the stream, or was given up."""


def _nobody(word: str) -> None:
    """For a session that does not pass bytes yet."""


class TargetSide(RelaySide):
    """The target's side of a relay: the first side that learns of the end reports it.

    Attributes:
        ends: Told the word of the end, before the other side hears of it.
    """

    ends: Callable[[str], object] = staticmethod(_nobody)

    def readConnectionLost(self) -> None:
        """The target writes no more, before the person did."""
        self._report_end()
        super().readConnectionLost()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The target is gone; or what dialed it ended the session, with a word of its own."""
        if isinstance(reason.value, SvcError):
            self.ends(reason.value.reason)
        else:
            self._report_end()
        super().connectionLost(reason)

    def _report_end(self) -> None:
        person = self.relay.left
        if not (person.read_ended or person.is_lost):
            self.ends(TARGET_CLOSED)
