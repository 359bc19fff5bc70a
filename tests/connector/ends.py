"""Both ends of a carried connection in memory: a protocol that listens, a transport to hang up."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer


@implementer(IHalfCloseableProtocol)
class Talker(Protocol):
    """Keeps what it hears; a test speaks for it."""

    transport: Any

    def __init__(self) -> None:
        self.received = b""
        self.heard_end = False
        self.lost: Failure | None = None

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def readConnectionLost(self) -> None:
        self.heard_end = True

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason


class EndTransport(StringTransport):
    """Keeps what *protocol* writes, and tells it once that the connection is lost."""

    def __init__(self, protocol: Any) -> None:
        StringTransport.__init__(self)
        self.protocol = protocol
        self.aborted = self.gone = self.write_ended = False

    def unregisterProducer(self) -> None:
        self.producer = self.streaming = None

    def loseWriteConnection(self) -> None:
        self.write_ended = True

    def loseConnection(self) -> None:
        self.hang_up(Failure(ConnectionDone()))

    def abortConnection(self) -> None:
        self.aborted = True
        self.hang_up(Failure(ConnectionAborted()))

    def hang_up(self, reason: Failure) -> None:
        if not self.gone:
            self.gone = True
            self.protocol.connectionLost(reason)
