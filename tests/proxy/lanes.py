"""The far end of a lane: Authority's port, as a test has it answer."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionRefusedError
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure


class FarTransport(StringTransport):
    """Authority's end of a lane."""

    def __init__(self, protocol: Any) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", "192.0.2.1", 7001))
        self.far, self.gone, self.write_ended = protocol, "", False

    def loseWriteConnection(self) -> None:
        self.write_ended = True

    def loseConnection(self) -> None:
        self._go("closed", ConnectionDone())

    def abortConnection(self) -> None:
        self._go("aborted", ConnectionDone())

    def unregisterProducer(self) -> None:
        self.producer = None

    def _go(self, how: str, why: Exception) -> None:
        if not self.gone:
            self.gone = how
            self.far.connectionLost(Failure(why))


class LaneEndpoint:
    """Connects to :class:`FarTransport`, refuses, or never answers."""

    def __init__(self, answer: str = "yes") -> None:
        self.answer = answer
        self.far: list[FarTransport] = []
        self.dialing: list[Deferred[Any]] = []

    def connect(self, factory: Any) -> Deferred[Any]:
        if self.answer == "no":
            return fail(ConnectionRefusedError())
        if self.answer == "never":
            self.dialing.append(Deferred())
            return self.dialing[-1]
        protocol = factory.buildProtocol(None)
        self.far.append(FarTransport(protocol))
        protocol.makeConnection(self.far[-1])
        return succeed(protocol)
