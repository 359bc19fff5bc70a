"""A machine whose network leads nowhere by itself: who is dialed is the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IResolutionReceiver,
)
from twisted.internet.testing import MemoryReactorClock, StringTransport
from zope.interface import implementer


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """It is over as soon as it began."""


@implementer(IHostnameResolver)
class _Literal:
    """Resolves an address to itself."""

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Iterable[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        resolutionReceiver.addressResolved(IPv4Address("TCP", hostName, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution


@implementer(IReactorPluggableNameResolver)
class Net(MemoryReactorClock):
    """Time and sockets in memory."""

    nameResolver: Any = _Literal()

    def installNameResolver(self, resolver: IHostnameResolver) -> IHostnameResolver:
        """Names stay what they are."""
        return self.nameResolver  # type: ignore[no-any-return]

    def __init__(self) -> None:
        super().__init__()
        self._from_threads: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def callFromThread(self, call: Any, *args: Any, **how: Any) -> None:
        """Call it as time passes; the thread itself touches no list of calls."""
        self._from_threads.put(partial(call, *args, **how))

    def advance(self, amount: float) -> None:
        """Let time pass."""
        while not self._from_threads.empty():
            self.callLater(0, self._from_threads.get())
        super().advance(amount)

    def answered(self, number: int = -1) -> StringTransport:
        """Let a dial connect, to somebody who then says nothing."""
        host, port, factory = self.tcpClients[number][:3]
        transport = StringTransport(peerAddress=IPv4Address("TCP", host, port))
        protocol = factory.buildProtocol(IPv4Address("TCP", host, port))
        assert protocol is not None
        protocol.makeConnection(transport)
        return transport
