"""One session between two pipes: exact bytes, in order, at the reader's pace."""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from svc.client.stdio import LEAVE_SECS, PipedSession, StdioPipes
from tests.connector.ends import Talker
from tests.support.proof import proves


@implementer(IHalfCloseableProtocol)
class Echo(Protocol):
    """Gives everything back, and ends after its peer has."""

    transport: Any

    def connectionMade(self) -> None:
        self.transport.registerProducer(self.transport, True)

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(data)

    def readConnectionLost(self) -> None:
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def writeConnectionLost(self) -> None:
        pass


class TimedReactor:
    """The reactor, but that a test says when time passes."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.callLater = self.clock.callLater

    def __getattr__(self, name: str) -> Any:
        return getattr(reactor, name)


class PlainSession(TCP4ClientEndpoint):
    """A session whose bytes are all the tool's."""

    greeting = None


class StdioTests(TestCase):
    """Real pipes, because their blocking is what is tested."""

    timeout = 15

    def listen(self, protocol: Any) -> None:
        clock: Any = reactor
        self.port = clock.listenTCP(0, Factory.forProtocol(protocol), interface="127.0.0.1")
        self.number = self.port.getHost().port
        self.addCleanup(self.port.stopListening)

    def begin(self) -> Deferred[Any]:
        """The session, with a test at the far ends of both pipes."""
        taken_in, self.input = os.pipe()
        self.output, taken_out = os.pipe()
        self.addCleanup(self.end)
        endpoint: Any = PlainSession(reactor, "127.0.0.1", self.number)
        self.opened: list[Any] = []
        self.cut: list[Any] = []
        self.timed = TimedReactor()

        async def opened(session: Any) -> StdioPipes:
            self.opened.append(session)
            return StdioPipes(self.timed, taken_in, taken_out)

        self.piped = PipedSession(session=endpoint, begin=opened, cut=self.cut.append)
        return Deferred.fromCoroutine(self.piped.carry())

    def end(self) -> None:
        for descriptor in (self.input, self.output):
            try:
                os.close(descriptor)
            except OSError:
                pass  # The test closed it.

    def feed(self, data: bytes) -> threading.Thread:
        def write() -> None:
            with os.fdopen(self.input, "wb") as pipe:
                pipe.write(data)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        return thread

    def drain(self) -> bytes:
        with os.fdopen(self.output, "rb") as pipe:
            return pipe.read()

    @proves("X-37")
    async def test_exact(self) -> None:
        """Every byte value comes back as it went, nothing is added, and the end is an end."""
        self.listen(Echo)
        carrying = self.begin()
        data = bytes(range(256)) * 10_000
        self.feed(data)
        got = await deferToThread(self.drain)
        self.assertEqual(sha256(got).digest(), sha256(data).digest())
        ended = await carrying
        self.assertTrue(ended.is_clean)
        self.assertEqual((ended.from_left, ended.from_right), (len(data), len(data)))
        self.assertEqual(len(self.opened), 1)

    async def test_far_end_first(self) -> None:
        """Where the far end closes first, the output ends and the session with it."""
        far = Talker()
        self.listen(lambda: far)
        carrying = self.begin()
        os.write(self.input, b"question")
        while not far.received:
            await deferToThread(os.sched_yield)
        far.transport.write(b"answer")
        far.transport.loseConnection()
        self.assertEqual(await deferToThread(self.drain), b"answer")
        os.close(self.input)
        self.assertTrue((await carrying).is_clean)

    async def test_nobody_reads(self) -> None:
        """Where nobody reads the output any more, the far end is told by a break after a while."""
        far = Talker()
        self.listen(lambda: far)
        carrying = self.begin()
        os.write(self.input, b"question")
        while not far.received:
            await deferToThread(os.sched_yield)
        os.close(self.output)
        far.transport.write(b"x" * 100_000)
        while not self.timed.clock.getDelayedCalls():
            await deferToThread(os.sched_yield)
        self.timed.clock.advance(LEAVE_SECS - 0.1)
        self.assertFalse(carrying.called)
        self.timed.clock.advance(0.2)
        self.assertFalse((await carrying).is_clean)
        while far.lost is None:
            await deferToThread(os.sched_yield)

    async def test_last_words(self) -> None:
        """What a tool said before it went reaches the far end, and so does its end, in order."""
        for much in (b"", b"y" * 1_000_000):
            far = Talker()
            self.listen(lambda far=far: far)
            carrying = self.begin()
            os.write(self.input, b"question")
            while not far.received:
                await deferToThread(os.sched_yield)
            far.transport.write(much)  # for which there is no room in a pipe that nobody reads
            os.close(self.output)
            while not self.timed.clock.getDelayedCalls():
                await deferToThread(os.sched_yield)
            os.write(self.input, b", and the last of it")
            os.close(self.input)
            while not far.heard_end:
                await deferToThread(os.sched_yield)
            self.assertEqual(far.received, b"question, and the last of it")
            far.transport.loseConnection()
            self.assertTrue((await carrying).is_clean)
            self.assertEqual((self.cut, self.timed.clock.getDelayedCalls()), ([], []))
            await self.port.stopListening()

    async def test_told_to_leave(self) -> None:
        """A session that is told to leave ends with its input, and is not waited for longer."""
        far = Talker()
        self.listen(lambda: far)
        carrying = self.begin()
        self.assertFalse(self.piped.leave())
        os.write(self.input, b"question")
        while not far.received:
            await deferToThread(os.sched_yield)
        self.assertTrue(self.piped.leave())
        self.timed.clock.advance(LEAVE_SECS)
        self.assertFalse((await carrying).is_clean)
        self.assertTrue(self.piped.leave())
        self.assertEqual(self.timed.clock.getDelayedCalls(), [])

    async def test_broken(self) -> None:
        """A session that breaks is not taken for one that ended."""
        far = Talker()
        self.listen(lambda: far)
        carrying = self.begin()
        os.write(self.input, b"question")
        while not far.received:
            await deferToThread(os.sched_yield)
        far.transport.abortConnection()
        self.assertFalse((await carrying).is_clean)

    async def test_not_opened(self) -> None:
        """A session that does not open reads nothing from the input."""
        self.listen(Talker)
        await self.port.stopListening()
        carrying = self.begin()
        os.write(self.input, b"question")
        await self.assertFailure(carrying, ConnectionRefusedError)
        self.assertEqual(self.opened, [])
