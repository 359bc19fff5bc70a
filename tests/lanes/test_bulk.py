"""Sockets that carry much: what goes at once, what waits, and in which order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.interfaces import ISSLTransport
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import directlyProvides

from svc.lanes.bulk import READ_BYTES, BulkWriter
from svc.lanes.relay import Relay
from svc.runtime.outlet import FULL_BYTES
from tests.lanes.sockets import HandDriven, Plain

LARGE = bytes(range(256)) * 128
SMALL = b"small"


class Source:
    """A producer that remembers what it was told."""

    is_paused = False
    is_stopped = False

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def stopProducing(self) -> None:
        self.is_stopped = True


class World:
    """An outlet on a socket, with a source."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.reactor = HandDriven(self.clock)
        self.line: Any = Plain(self.reactor, Protocol())
        self.out = BulkWriter(self.line)
        self.source = Source()
        self.out.registerProducer(self.source, True)

    def fill(self) -> bytes:
        """Write until the source is told to stop; what was written."""
        written = b""
        while not self.source.is_paused:
            self.out.write(LARGE)
            written += LARGE
        return written

    def drain(self) -> bytes:
        """Everything the far end gets until nothing comes any more."""
        got = b""
        while piece := self._turn():
            got += piece
        return got

    def _turn(self) -> bytes:
        self.reactor.spin()
        piece: bytes = self.line.heard()
        return piece


class OutletTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.addCleanup(self.world.line.end)
        self.out, self.line, self.source = self.world.out, self.world.line, self.world.source

    def test_a_large_piece_goes_at_once(self) -> None:
        """It needs no turn of the reactor, and asks for none."""
        self.out.write(LARGE)
        self.assertEqual(self.line.heard(), LARGE)
        self.assertTrue(self.world.reactor.is_idle)

    def test_a_small_piece_goes_at_once(self) -> None:
        """Likewise; and what is written while something waits overtakes nothing."""
        self.out.write(SMALL)
        self.assertEqual(self.line.heard(), SMALL)
        self.assertTrue(self.world.reactor.is_idle)
        written = self.world.fill()
        self.out.write(SMALL)
        self.assertEqual(self.world.drain(), written + SMALL)

    def test_a_full_socket_holds_the_source(self) -> None:
        """The source is paused while more waits than may, and resumed when all has gone."""
        written = self.world.fill()
        self.assertLessEqual(len(written) - len(self.line.heard()), FULL_BYTES + len(LARGE))
        self.world.drain()
        self.assertFalse(self.source.is_paused)

    def test_an_end_comes_after_what_waits(self) -> None:
        """A half-close passes behind the last byte, though the source is still registered."""
        written = self.world.fill()
        self.out.loseWriteConnection()
        self.assertEqual(self.world.drain(), written)
        self.assertEqual(self.line.far.recv(1), b"")

    def test_an_end_with_nothing_before_it(self) -> None:
        """A half-close where nothing waits needs no turn of the reactor, and reading goes on."""
        self.out.loseWriteConnection()
        self.assertEqual(self.line.far.recv(1), b"")
        self.assertTrue(self.world.reactor.is_idle)
        self.out.write(SMALL)
        self.assertEqual(self.line.heard(), b"")
        self.assertTrue(self.line.connected)

    def test_closing_sends_what_waits(self) -> None:
        """A close in order loses nothing, though the source is still registered."""
        written = self.world.fill()
        self.out.loseConnection()
        self.assertEqual(self.world.drain(), written)
        self.assertTrue(self.line.disconnecting)
        self.assertIsNone(self.line.producer)

    def test_nothing_after_an_abort(self) -> None:
        """Whoever aborts has sent his last byte."""
        self.out.abortConnection()
        self.out.write(LARGE)
        self.assertEqual(self.world.drain(), b"")

    def test_a_broken_socket(self) -> None:
        """A piece that cannot be sent is left to Twisted, which says so in its turn."""
        self.line.far.close()
        self.out.write(LARGE)
        self.assertFalse(self.world.reactor.is_idle)
        self.assertIsInstance(self.line.doWrite(), Exception)

    def test_the_loss_reaches_the_source(self) -> None:
        """A source hears that there is nobody to write to."""
        self.line.producer.stopProducing()
        self.assertTrue(self.source.is_stopped)

    def test_written_before_a_source(self) -> None:
        """What came before the source was registered is not overtaken."""
        line: Any = Plain(self.world.reactor, Protocol())
        self.addCleanup(line.end)
        out = BulkWriter(line)
        out.write(SMALL)
        out.registerProducer(self.source, True)
        out.write(LARGE)
        self.world.reactor.spin()
        self.assertEqual(line.heard(), SMALL + LARGE)

    def test_never_past_tls(self) -> None:
        """A socket on which TLS has begun is written to through it only."""
        line: Any = Plain(self.world.reactor, Protocol())
        self.addCleanup(line.end)
        directlyProvides(line, ISSLTransport)
        out = BulkWriter(line)
        out.registerProducer(self.source, True)
        self.assertIs(line.producer, self.source)
        out.write(LARGE)
        self.assertEqual(line.heard(), b"")

    @given(st.lists(st.one_of(st.integers(1, 200_000), st.sampled_from(("turn", "hear")))))
    def test_any_order(self, steps: list[Any]) -> None:
        """Whatever is written, read and paused in which order: each byte comes once, in order."""
        world = World()
        written, heard = [], []
        for number, step in enumerate(steps):
            if step == "turn":
                world.reactor.spin(1)
            elif step == "hear":
                heard.append(world.line.heard())
            elif not world.source.is_paused:
                written.append(number.to_bytes(2, "big") * step)
                world.out.write(written[-1])
        heard.append(world.line.heard())
        heard.append(world.drain())
        world.line.end()
        self.assertEqual(b"".join(heard), b"".join(written))
        self.assertFalse(world.source.is_paused)


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
