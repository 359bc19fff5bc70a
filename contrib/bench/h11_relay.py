"""A relay that parses every request and answer, and does nothing else: the peer of web gates.

h11 on the same reactor as ours, one process a hop::

    h11_relay PORT NEXT_PORT first|middle|last PEM      TLS between hops, none at the ends
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import h11
from OpenSSL import SSL
from twisted.internet import reactor, ssl
from twisted.internet.endpoints import (
    SSL4ClientEndpoint,
    SSL4ServerEndpoint,
    TCP4ClientEndpoint,
    TCP4ServerEndpoint,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

TLS_ENDS = {"first": (False, True), "middle": (True, True), "last": (True, False)}
"""Whether a hop speaks TLS towards its client and towards the next, by where it stands."""


class Side(Protocol):
    """One side of a connection: what it says is parsed, and said anew at the other."""

    transport: Any

    def __init__(self, role: type[h11.CLIENT] | type[h11.SERVER], next_hop: Any = None) -> None:
        self.parsed = h11.Connection(role)
        self.next_hop = next_hop
        self.other: Side | None = None
        self.held: list[bytes] = []

    def connectionMade(self) -> None:
        """Have the other side connected, if there is none."""
        self.transport.setTcpNoDelay(True)
        if self.next_hop is not None:
            beyond = Side(h11.CLIENT)
            beyond.other = self
            self.next_hop.connect(Factory.forProtocol(lambda: beyond)).addCallbacks(
                self._joined, lambda _: self.transport.loseConnection()
            )

    def _joined(self, beyond: Side) -> None:
        self.other = beyond
        for data in self.held:
            self.dataReceived(data)

    def dataReceived(self, data: bytes) -> None:
        """Parse, and pass on."""
        if self.other is None:
            self.held.append(data)
            return
        self.parsed.receive_data(data)
        while True:
            event: Any = self.parsed.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                break
            said = self.other.parsed.send(event)
            if said:
                self.other.transport.write(said)
            if isinstance(event, h11.EndOfMessage) and self.parsed.our_role is h11.CLIENT:
                self.parsed.start_next_cycle()
                self.other.parsed.start_next_cycle()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End the other side."""
        if self.other is not None:
            self.other.transport.loseConnection()


def main(port: str, next_port: str, place: str, pem: str) -> None:
    """Relay until killed."""
    towards_client, towards_next = TLS_ENDS[place]
    next_hop: Any = TCP4ClientEndpoint(reactor, "127.0.0.1", int(next_port))
    if towards_next:
        # It encrypts as ours does; whom it speaks to is not what is measured.
        anybody = ssl.CertificateOptions(verify=False)
        next_hop = SSL4ClientEndpoint(reactor, "127.0.0.1", int(next_port), anybody)
    here: Any = TCP4ServerEndpoint(reactor, int(port), interface="127.0.0.1")
    if towards_client:
        own = ssl.DefaultOpenSSLContextFactory(pem, pem, sslmethod=SSL.TLS_METHOD)
        here = SSL4ServerEndpoint(reactor, int(port), own, interface="127.0.0.1")
    listening = here.listen(Factory.forProtocol(lambda: Side(h11.SERVER, next_hop)))
    listening.addErrback(lambda failure: failure.raiseException())
    run: Callable[[], None] = reactor.run
    run()


if __name__ == "__main__":
    main(*sys.argv[1:])
