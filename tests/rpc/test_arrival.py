"""A connection's deadline counts from when the kernel had it, not from when it was taken."""

from __future__ import annotations

import socket
import sys
from typing import Any
from unittest import skipUnless

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.arrival import waited_secs
from svc.rpc.connection import WireProtocol
from svc.testing.gateway.processes import until
from svc.wire.limits import WireLimits


class Over(StringTransport):
    """A transport of an accepted socket."""

    def __init__(self, handle: Any) -> None:
        super().__init__()
        self._handle = handle

    def getHandle(self) -> Any:
        return self._handle


class Told:
    """Hears what became of a connection."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, what: str, _detail: str) -> None:
        self.words.append(what)


class Layer:
    """As TLS is: its own handle is no socket, its transport's is."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport

    def getHandle(self) -> object:
        return object()


@skipUnless(sys.platform == "linux", "only Linux tells")
class ArrivalTests(SynchronousTestCase):
    def taken(self, least: float) -> socket.socket:
        """A connection that has been there for so long, and has said something just now."""
        taken_late, taken_at_once = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        late = socket.create_connection(taken_late.getsockname())
        # The younger of the two tells how old the other is at least.
        younger = socket.create_connection(taken_at_once.getsockname())
        measured, _ = taken_at_once.accept()
        for each in (taken_late, taken_at_once, late, younger, measured):
            self.addCleanup(each.close)
        until("time has passed", lambda: waited_secs(Over(measured)) >= least)
        late.sendall(b"a first word")
        taken, _ = taken_late.accept()
        self.addCleanup(taken.close)
        return taken

    def test_what_the_peer_sends_changes_nothing(self) -> None:
        """A connection that lay in the queue is as old as that, whatever it sent meanwhile."""
        handle = self.taken(0.05)
        self.assertGreaterEqual(waited_secs(Layer(Over(handle))), 0.05)
        self.assertLess(waited_secs(Over(handle)), 60)

    def test_nobody_tells(self) -> None:
        """What is no TCP socket has waited for nothing."""
        here, there = socket.socketpair()
        self.addCleanup(here.close)
        self.addCleanup(there.close)
        gone = socket.socket()
        gone.close()
        for transport in (StringTransport(), Over(here), Over(gone), Layer(None), object()):
            self.assertEqual(waited_secs(transport), 0.0)

    def test_deadline(self) -> None:
        """The handshake ends with what is left, and at least half is left to whoever waited."""
        for least, secs, latest in ((0.05, 10.0, 9.95), (0.2, 0.2, 0.1)):
            clock, told = Clock(), Told()
            protocol = WireProtocol(
                clock,
                WireLimits(),
                is_client=False,
                plaintext=True,
                on_problem=told,
                handshake_secs=secs,
            )
            protocol.makeConnection(Over(self.taken(least)))
            clock.advance(latest / 2)
            self.assertEqual(told.words, [])
            clock.advance(latest / 2 + 1e-6)
            self.assertEqual(told.words, ["handshake_timeout"])
