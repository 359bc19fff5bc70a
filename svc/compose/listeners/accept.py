"""Accepts connections a few at a time.

Left to itself a port of Twisted takes all that wait, a hundred and more, before
anything else has its turn; each begins a TLS connection, and a thousand who
come at once hold up every session for a second.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IProtocol,
    IProtocolFactory,
    IStreamServerEndpoint,
)
from zope.interface import implementer

AT_ONCE = 8
"""A port that took as many as this goes on with twenty more the next time, and never with more."""


@implementer(IStreamServerEndpoint)
@define
class PacedListenEndpoint:
    """An endpoint whose port leaves the reactor to others while many wait for it."""

    endpoint: IStreamServerEndpoint

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen as the endpoint within does."""
        factory = _Counting(protocolFactory)
        listening: Deferred[IListeningPort] = self.endpoint.listen(factory)
        return listening.addCallback(factory.listens)


@implementer(IProtocolFactory)
@define(eq=False)
class _Counting:
    """Sets the port's own count back at each connection: it would grow as long as many wait."""

    _factory: IProtocolFactory
    _port: Any = field(default=None, init=False)

    def listens(self, port: IListeningPort) -> IListeningPort:
        """The port is there."""
        self._port = port
        self._port.numberAccepts = AT_ONCE
        return port

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        """See the factory."""
        self._port.numberAccepts = AT_ONCE
        return self._factory.buildProtocol(addr)

    def doStart(self) -> None:
        """See the factory."""
        self._factory.doStart()

    def doStop(self) -> None:
        """See the factory."""
        self._factory.doStop()
