"""Listens at port 80 by the helper whose socket is its argument, and says where; run by tests."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater

from svc.client.low_ports.helped import LowPorts

reactor: Any = _reactor
PORT = 80
MOST_SECS = 100
"""It is of no use for longer."""


class Page(Protocol):
    """Answers one request."""

    def dataReceived(self, data: bytes) -> None:
        """The request."""
        assert self.transport is not None
        self.transport.write(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nhere")
        self.transport.loseConnection()


def alone(address: str) -> str:
    """What the kernel says to whoever binds the port without the helper."""
    with socket.socket() as tried:
        try:
            tried.bind((address, PORT))
        except OSError as error:
            return error.strerror or ""
    return "it was bound"


async def listen(path: str) -> None:
    """Listen as soon as there is a helper."""
    ports = LowPorts(reactor=reactor, path=path, direct=lambda address, port: None)  # type: ignore
    reactor.callLater(MOST_SECS, reactor.stop)
    while (network := await ports.network(PORT)) is None:
        await deferLater(reactor, 0.05)
    address = str(network[7])
    told = {"address": address, "alone": alone(address)}
    opened: Any = await ports.endpoint(address, PORT).listen(Factory.forProtocol(Page))
    sys.stdout.write(json.dumps({**told, "port": opened.getHost().port}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Deferred.fromCoroutine(listen(sys.argv[1])).addErrback(lambda failure: reactor.stop())
    reactor.run()
