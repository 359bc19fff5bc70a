"""Bytes on their way to a socket: in order, at once where it takes them, never past its room."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.tls_output import CiphertextOutlet
from tests.support.examples import examples


class Socket:
    """A reactor's transport whose kernel takes only what the test lets it take."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.sent = b""
        self.waiting = b""
        self.breaks = False
        self.producer: Any = None
        self.calls = 0

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer, self.is_streaming = producer, streaming
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self.producer = None

    def writeSomeData(self, data: bytes | memoryview) -> int | Exception:
        self.calls += 1
        if self.breaks:
            return ConnectionLost()
        size = min(len(data), self.room)
        self.sent += bytes(data[:size])
        self.room -= size
        return size

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        self.waiting += data

    def drain(self, room: int) -> None:
        """The reactor finds the socket writable."""
        self.room += room
        if self.waiting:
            taken = self.writeSomeData(self.waiting)
            assert isinstance(taken, int)
            self.waiting = self.waiting[taken:]
            if not self.waiting and self.producer is not None:
                self.producer.resumeProducing()


class Writer:
    """Who is paused."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

    def stopProducing(self) -> None:
        self.told.append("stop")


class OutletTests(SynchronousTestCase):
    @settings(max_examples=examples(80), deadline=None)
    @given(st.lists(st.tuples(st.binary(max_size=60), st.integers(0, 80)), max_size=30))
    def test_order(self, steps: list[tuple[bytes, int]]) -> None:
        """Whatever the kernel takes and when, all bytes go out once and in order."""
        socket = Socket(0)
        outlet = CiphertextOutlet(socket)
        for data, room in steps:
            outlet.write(data)
            socket.drain(room)
        socket.drain(1 << 20)
        self.assertEqual(socket.sent + socket.waiting, b"".join(data for data, _ in steps))
        self.assertEqual(socket.waiting, b"")

    def test_at_once(self) -> None:
        """What the kernel takes is never put aside."""
        socket = Socket()
        CiphertextOutlet(socket).write(bytes(1000))
        self.assertEqual((len(socket.sent), socket.waiting, socket.calls), (1000, b"", 1))

    def test_pressure(self) -> None:
        """A writer is paused once more waits than a transport holds, and goes on when all went."""
        socket, writer = Socket(10), Writer()
        outlet = CiphertextOutlet(socket)
        outlet.producer = writer
        outlet.write(bytes(60_000))
        self.assertEqual(writer.told, [])
        outlet.write(bytes(60_000))
        self.assertEqual(writer.told, ["pause"])
        outlet.write(bytes(60_000))
        socket.drain(100_000)
        self.assertEqual(writer.told, ["pause"])
        socket.drain(1 << 20)
        self.assertEqual(writer.told, ["pause", "resume"])
        self.assertEqual(len(socket.sent), 180_000)

    def test_broken(self) -> None:
        """A socket that breaks is left to the reactor, which says so in its turn."""
        socket = Socket()
        socket.breaks = True
        CiphertextOutlet(socket).write(b"last words")
        self.assertEqual((socket.sent, socket.waiting), (b"", b"last words"))

    def test_over(self) -> None:
        """Nothing is written once it is finished or closed; the transport is let go to end."""
        for end in (
            CiphertextOutlet.finish,
            CiphertextOutlet.close,
            CiphertextOutlet.stopProducing,
        ):
            with self.subTest(end=end.__name__):
                socket = Socket()
                outlet = CiphertextOutlet(socket)
                end(outlet)
                outlet.write(b"late")
                self.assertEqual((socket.sent, socket.waiting), (b"", b""))
        socket = Socket()
        CiphertextOutlet(socket).finish()
        self.assertIsNone(socket.producer)

    def test_stopped(self) -> None:
        """The writer hears that the transport is going."""
        socket, writer = Socket(), Writer()
        CiphertextOutlet(socket).producer = writer
        socket.producer.stopProducing()
        self.assertEqual(writer.told, ["stop"])
