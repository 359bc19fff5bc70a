"""Looks at the first bytes on the public listener: a lane's half, or an ordinary connection.

What is usually served is connected from the first moment, so that its limits and
deadlines hold for every connection; it is told to stand aside only for a half
that was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IDelayedCall, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Malformed
from svc.lanes.preface import FIRST, PREFACE_BYTES, parse_preface
from svc.lanes.rendezvous import RendezvousTable

PREFACE_SECS = 5.0

StandAside = Callable[[Any], object]
"""Tells the usual protocol that the connection is no concern of its own: it then hears
``connectionLost`` and must make nothing of it."""


class _DetachedTransport:
    """What is left to a protocol whose transport somebody else has now: it may end nothing."""

    def write(self, data: bytes) -> None:
        pass

    def loseConnection(self) -> None:
        pass

    def abortConnection(self) -> None:
        pass

    def unregisterProducer(self) -> None:
        pass


class Front(Protocol):
    """One connection until it is known what it is."""

    transport: Any

    def __init__(self, usual: Any, site: FrontFactory) -> None:
        self._usual = usual
        self._rendezvous_table = site.rendezvous_table
        self._site = site
        self._begun = b""
        self._too_late: IDelayedCall | None = None
        self._is_half = False
        self._is_refused = False

    def connectionMade(self) -> None:
        """Connect what is usually served."""
        self._usual.makeConnection(self.transport)

    def dataReceived(self, data: bytes) -> None:
        """Look at the first bytes."""
        if self._is_refused:
            return
        if not self._begun and data[:1] != FIRST:
            self.transport.protocol = self._usual
            self._usual.dataReceived(data)
            return
        self._begun += data[: PREFACE_BYTES + 1]
        if len(self._begun) < PREFACE_BYTES:
            if self._too_late is None:
                self._too_late = self._site.clock.callLater(PREFACE_SECS, self._late)
            return
        self._stop_timer()
        try:
            preface = parse_preface(self._begun)
        except Malformed:
            self._rendezvous_table.on_outcome("refused")
            self._refuse()
            return
        # Nothing of the usual one may be left on the transport: it is handed on bare.
        self.transport.unregisterProducer()
        if self._rendezvous_table.arrived(preface, self.transport):
            self._is_half = True
            self._leave_usual()
        else:
            self._refuse()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is over, before or after it was known what it is."""
        self._stop_timer()
        if not (self._is_half or self._is_refused):
            self._usual.connectionLost(reason)

    def _late(self) -> None:
        self._rendezvous_table.on_outcome("refused")
        self._refuse()

    def _refuse(self) -> None:
        """Close without a word."""
        self._is_refused = True
        self._stop_timer()
        self._leave_usual()
        self.transport.abortConnection()

    def _leave_usual(self) -> None:
        self._site.stand_aside(self._usual)
        # TLS that is told of a loss amid its handshake would close the connection itself.
        self._usual.transport = _DetachedTransport()
        self._usual.connectionLost(Failure(ConnectionDone()))

    def _stop_timer(self) -> None:
        if self._too_late is not None and self._too_late.active():
            self._too_late.cancel()
        self._too_late = None


@implementer(IProtocolFactory)
@define
class FrontFactory:
    """Makes fronts around what another factory makes.

    A half takes no place among the connections of what is usually served: its meeting
    has bounds of its own, so that lanes keep nobody out.
    """

    usual: IProtocolFactory
    rendezvous_table: RendezvousTable
    clock: IReactorTime
    stand_aside: StandAside

    def doStart(self) -> None:
        self.usual.doStart()

    def doStop(self) -> None:
        self.usual.doStop()

    def buildProtocol(self, addr: IAddress) -> Front | None:
        """A front; None where nothing would be served."""
        usual = self.usual.buildProtocol(addr)
        return None if usual is None else Front(usual, self)
