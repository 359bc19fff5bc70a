"""Two memory transports joined."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet import reactor
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import directlyProvides

from svc.lanes.relay import Relay, RelayEnded
from tests.lanes.sockets import Plain


class Wire(StringTransport):
    """A transport that remembers how it was ended, and says so only when told."""

    wrote_end = False
    aborted = False
    no_delay = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.no_delay = enabled

    def loseWriteConnection(self) -> None:
        self.wrote_end = True

    def abortConnection(self) -> None:
        self.aborted = True


class WholeWire(StringTransport):
    """A transport without half-close."""


class RelayTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.relay = Relay()
        self.left: Any = Wire()
        self.right: Any = Wire()

    def connect(self) -> None:
        self.relay.left.makeConnection(self.left)
        self.relay.right.makeConnection(self.right)

    def lose(self, side: Any, reason: Any = None) -> None:
        side.connectionLost(Failure(reason or ConnectionDone()))

    def test_waits_for_both(self) -> None:
        """Nothing is read before both sides are there, and nothing that came early is lost."""
        self.relay.left.makeConnection(self.left)
        self.assertEqual(self.left.producerState, "paused")
        self.relay.left.dataReceived(b"early")
        self.relay.right.makeConnection(self.right)
        self.assertEqual(self.right.value(), b"early")
        self.assertEqual(self.left.producerState, "producing")

    def test_no_delay(self) -> None:
        """Neither side waits for an acknowledgment before it sends something small."""
        for wire in (self.left, self.right):
            directlyProvides(wire, ITCPTransport)
        self.connect()
        self.assertTrue(self.left.no_delay)
        self.assertTrue(self.right.no_delay)

    def test_bytes_both_ways(self) -> None:
        """What one side reads the other writes, and it is counted."""
        self.connect()
        self.relay.left.dataReceived(b"to the right")
        self.relay.right.dataReceived(b"back")
        self.assertEqual((self.right.value(), self.left.value()), (b"to the right", b"back"))
        self.lose(self.relay.left)
        self.assertTrue(self.right.disconnecting)
        self.lose(self.relay.right)
        self.assertEqual(
            self.successResultOf(self.relay.done), RelayEnded(12, 4, is_clean=True, first="left")
        )

    def test_slow_writer_holds_reader(self) -> None:
        """A side that cannot write stops the other side's reading."""
        self.connect()
        self.right.producer.pauseProducing()
        self.assertEqual(self.left.producerState, "paused")
        self.assertEqual(self.right.producerState, "producing")
        self.right.producer.resumeProducing()
        self.assertEqual(self.left.producerState, "producing")

    def test_half_close(self) -> None:
        """The end of one side's writing passes; the other way goes on until it ends too."""
        self.connect()
        self.relay.left.readConnectionLost()
        self.assertTrue(self.right.wrote_end)
        self.assertFalse(self.left.disconnecting)
        self.relay.right.dataReceived(b"answer")
        self.assertEqual(self.left.value(), b"answer")
        self.relay.right.readConnectionLost()
        self.assertTrue(self.left.disconnecting)
        self.assertTrue(self.right.disconnecting)

    def test_half_close_before_the_join(self) -> None:
        """An end that came before the other side was there passes when it is."""
        self.relay.left.makeConnection(self.left)
        self.relay.left.dataReceived(b"all")
        self.relay.left.readConnectionLost()
        self.relay.right.makeConnection(self.right)
        self.assertEqual(self.right.value(), b"all")
        self.assertTrue(self.right.wrote_end)

    def test_both_half_closed_before_the_join(self) -> None:
        """Two ends that came before the join close both sides, behind what each had sent."""
        self.relay.left.makeConnection(self.left)
        self.relay.left.dataReceived(b"request")
        self.relay.left.readConnectionLost()
        self.relay.right.dataReceived(b"answer")
        self.relay.right.readConnectionLost()
        self.relay.right.makeConnection(self.right)
        self.assertEqual((self.right.value(), self.left.value()), (b"request", b"answer"))
        self.assertTrue(self.left.disconnecting)
        self.assertTrue(self.right.disconnecting)
        for side in (self.relay.left, self.relay.right):
            self.lose(side)
        self.assertEqual(
            self.successResultOf(self.relay.done), RelayEnded(7, 6, is_clean=True, first="left")
        )

    def test_half_close_where_there_is_none(self) -> None:
        """A side that cannot say "no more" is closed instead."""
        self.right = WholeWire()
        self.connect()
        self.relay.left.readConnectionLost()
        self.assertTrue(self.right.disconnecting)
        self.assertTrue(self.left.disconnecting)

    def test_abort_passes(self) -> None:
        """A reset on one side is a reset on the other."""
        self.connect()
        self.lose(self.relay.right, ConnectionLost())
        self.assertTrue(self.left.aborted)
        self.lose(self.relay.left, ConnectionAborted())
        ended = self.successResultOf(self.relay.done)
        self.assertEqual((ended.is_clean, ended.first), (False, "right"))

    def test_owner_aborts(self) -> None:
        """An owner may cut both sides."""
        self.connect()
        self.relay.abort()
        self.assertTrue(self.left.aborted)
        self.assertTrue(self.right.aborted)
        self.lose(self.relay.left, ConnectionAborted())
        self.lose(self.relay.right, ConnectionAborted())
        self.assertFalse(self.successResultOf(self.relay.done).is_clean)

    def test_one_side_only(self) -> None:
        """A side that goes before the other came ends the relay."""
        self.relay.left.makeConnection(self.left)
        self.lose(self.relay.left)
        self.assertEqual(self.successResultOf(self.relay.done).first, "left")
        self.relay.right.makeConnection(self.right)
        self.assertTrue(self.right.disconnecting)


class SocketTests(TestCase):
    async def test_both_half_closed_before_the_join(self) -> None:
        """Two peers that had said all before they were joined hear each other out, and the end."""
        relay = Relay()
        lines = [Plain(reactor, side) for side in (relay.left, relay.right)]
        for line, word in zip(lines, (b"request", b"answer"), strict=True):
            self.addCleanup(line.far.close)
            line.far.send(word)
            line.far.shutdown(socket.SHUT_WR)
        relay.left.makeConnection(lines[0])
        relay.right.makeConnection(lines[1])
        ended = await relay.done
        self.assertEqual((ended.from_left, ended.from_right, ended.is_clean), (7, 6, True))
        # To the end: a socket that was not closed would have nothing to read yet.
        self.assertEqual([line.heard() for line in lines], [b"answer", b"request"])
        self.assertEqual([line.far.recv(1) for line in lines], [b"", b""])
