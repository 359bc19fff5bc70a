"""A caller that asks too much is read slowly, and loses nothing of what it said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.throttle import ReadThrottle


class Transport:
    """Notes whether it is read."""

    def __init__(self) -> None:
        self.is_paused = False

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False


class PaceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.transport = Clock(), Transport()
        self.fed: list[bytes] = []
        self.holds: list[float] = []
        self.slow = ReadThrottle(self.clock, self.transport, self.feed)

    def feed(self, data: bytes) -> None:
        self.fed.append(data)
        if self.holds:
            self.slow.hold(self.holds.pop(0))

    def test_nothing_is_read_meanwhile(self) -> None:
        """While a peer is held its transport is not read; then what had come is fed in pieces."""
        self.slow.hold(2)
        self.assertTrue(self.transport.is_paused)
        self.slow.received(b"x" * 600)
        self.clock.advance(1.9)
        self.assertEqual(self.fed, [])
        self.clock.advance(0.1)
        self.assertEqual([len(one) for one in self.fed], [256, 256, 88])
        self.assertFalse(self.transport.is_paused)

    def test_held_again_amid_its_bytes(self) -> None:
        """A piece that is too much again stops the rest."""
        self.slow.hold(1)
        self.slow.received(b"x" * 600)
        self.holds = [5]
        self.clock.advance(1)
        self.assertEqual((len(self.fed), self.transport.is_paused), (1, True))
        self.clock.advance(5)
        self.assertEqual((len(self.fed), self.transport.is_paused), (3, False))

    def test_longest_counts(self) -> None:
        """Of several holds the one that ends last counts."""
        self.slow.hold(1)
        self.slow.hold(3)
        self.slow.hold(2)
        self.clock.advance(2.9)
        self.assertTrue(self.transport.is_paused)
        self.clock.advance(0.2)
        self.assertFalse(self.transport.is_paused)

    def test_calm(self) -> None:
        """A peer that was quiet for a while is read as before."""
        self.slow.hold(1)
        self.clock.advance(1)
        self.slow.received(b"x" * 400)
        self.assertEqual(len(self.fed), 2)
        self.clock.advance(10)
        self.slow.received(b"x" * 400)
        self.assertEqual(len(self.fed), 3)

    def test_gone(self) -> None:
        """Nothing is left waiting for a connection that is gone."""
        self.slow.hold(1)
        self.slow.received(b"x")
        self.slow.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clock.advance(2)
        self.assertEqual(self.fed, [])

    @given(
        st.lists(st.binary(max_size=800), max_size=12),
        st.lists(st.sampled_from([0.0, 0.01, 1.0]), max_size=20),
    )
    def test_nothing_is_lost(self, chunks: list[bytes], holds: list[float]) -> None:
        """Whatever the holds, every byte is fed once and in order."""
        self.setUp()
        self.holds = holds
        self.slow.hold(0.5)
        for chunk in chunks:
            self.slow.received(chunk)
            self.clock.advance(0.3)
        self.clock.pump([0.5] * 60)
        self.assertEqual(b"".join(self.fed), b"".join(chunks))
        self.assertFalse(self.transport.is_paused)
