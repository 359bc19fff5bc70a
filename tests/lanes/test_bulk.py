"""Sockets that carry much: how much is read of them at once."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.lanes.bulk import READ_BYTES
from svc.lanes.relay import Relay
from tests.lanes.sockets import HandDriven


class Plain(Connection):
    """Twisted's connection over one end of a pair, and the other end."""

    connected = 1

    def __init__(self, reactor: Any, protocol: Protocol) -> None:
        ours, self.far = socket.socketpair()
        self.far.setblocking(False)
        super().__init__(ours, protocol, reactor)

    def heard(self) -> bytes:
        """What has come at the far end so far."""
        pieces = []
        try:
            while piece := self.far.recv(1 << 20):
                pieces.append(piece)
        except BlockingIOError:
            pass
        return b"".join(pieces)

    def end(self) -> None:
        self.socket.close()
        self.far.close()


class ReadingTests(SynchronousTestCase):
    def test_much_is_read_in_larger_pieces(self) -> None:
        """A side that has sent a mebibyte is read more of at once, and only then."""
        reactor = HandDriven(Clock())
        relay = Relay()
        line: Any = Plain(reactor, relay.left)
        self.addCleanup(line.end)
        other: Any = StringTransport()
        relay.left.makeConnection(line)
        relay.right.makeConnection(other)
        pieces = []
        for _ in range(40):
            line.far.send(bytes(100_000))
            reactor.spin(1)
            pieces.append(len(other.value()))
            reactor.spin()
            other.clear()
        self.assertEqual(pieces[0], 65536)
        self.assertEqual(pieces[-1], 100_000)
        self.assertEqual(line.bufferSize, READ_BYTES)
