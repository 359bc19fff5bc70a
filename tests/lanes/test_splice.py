"""Two real sockets joined in the kernel, and by copying where the kernel cannot."""

from __future__ import annotations

import os
import resource
from errno import EINVAL, EMFILE
from hashlib import sha256
from pathlib import Path
from stat import S_ISFIFO, S_ISSOCK
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import ClientFactory, Factory, Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import SkipTest, TestCase
from zope.interface import implementer

import svc.lanes.splice
from svc.lanes.pipes import Pipe, Pipes, make_pipe
from svc.lanes.splice import Splice, SpliceEnded

reactor: Any = _reactor


@implementer(IHalfCloseableProtocol)
class End(Protocol):
    """One side of a connection: counts and hashes what it hears."""

    transport: Any

    def __init__(self) -> None:
        self.count = 0
        self.digest = sha256()
        self.made: Deferred[End] = Deferred()
        self.heard_end: Deferred[None] = Deferred()
        self.lost: Deferred[Any] = Deferred()
        self._until: list[tuple[int, Deferred[None]]] = []

    def connectionMade(self) -> None:
        self.made.callback(self)

    def dataReceived(self, data: bytes) -> None:
        self.count += len(data)
        self.digest.update(data)
        due = [one for one in self._until if one[0] <= self.count]
        self._until = [one for one in self._until if one[0] > self.count]
        for _, waiting in due:
            waiting.callback(None)

    def readConnectionLost(self) -> None:
        self.heard_end.callback(None)

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.callback(reason.value)

    def until(self, count: int) -> Deferred[None]:
        """Fires once so many bytes came."""
        waiting: Deferred[None] = Deferred()
        if self.count >= count:
            waiting.callback(None)
        else:
            self._until.append((count, waiting))
        return waiting


class Pulled:
    """Writes *size* bytes as the transport takes them, then ends the writing."""

    def __init__(self, end: End, size: int) -> None:
        self.end, self.left, self.digest = end, size, sha256()
        self.written: Deferred[None] = Deferred()
        end.transport.registerProducer(self, False)

    def resumeProducing(self) -> None:
        piece = os.urandom(min(self.left, 1 << 17))
        self.left -= len(piece)
        self.digest.update(piece)
        self.end.transport.write(piece)
        if not self.left:
            self.end.transport.unregisterProducer()
            self.end.transport.loseWriteConnection()
            self.written.callback(None)

    def stopProducing(self) -> None:
        self.left = 0


def none_left() -> Pipe:
    raise OSError(EMFILE, "no pipe")


class LaneTests(TestCase):
    """Makes lanes; what is asked of them is below."""

    timeout = 60
    make: Any = staticmethod(make_pipe)

    def setUp(self) -> None:
        self.pipes = Pipes(self.make)
        self.addCleanup(self.pipes.close)
        self.accepted: list[End] = []
        self.waiting: list[Deferred[End]] = []
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = self.accept  # type: ignore[method-assign, assignment]
        self.port: Any = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)

    def accept(self, _address: object) -> End:
        end = End()
        end.made.chainDeferred(self.waiting.pop(0))
        return end

    async def connection(self) -> tuple[End, End]:
        """The far end and ours, of one new connection."""
        ours: Deferred[End] = Deferred()
        self.waiting.append(ours)
        far = End()
        factory = ClientFactory()
        factory.noisy = False
        factory.buildProtocol = lambda _: far  # type: ignore[method-assign, assignment]
        reactor.connectTCP("127.0.0.1", self.port.getHost().port, factory)
        await gatherResults([far.made])
        return far, await ours

    async def lane(self) -> tuple[End, End, Splice]:
        far, near = await self.connection()
        other, beside = await self.connection()
        splice = Splice(
            reactor=reactor, first=near.transport, second=beside.transport, pipes=self.pipes
        )
        splice.start()
        return far, other, splice

    async def ended(self, splice: Splice, *ends: End) -> SpliceEnded:
        result = await splice.done
        for end in ends:
            end.transport.loseConnection()
        await gatherResults([end.lost for end in ends])
        self.assertEqual(self.pipes.lent, 0)
        return result

    async def idle(self, count: int) -> None:
        """So many lanes that have carried a byte, and what they hold then."""
        descriptors = Path("/proc/self/fd")
        lanes = [await self.lane()]
        before = len(list(descriptors.iterdir()))
        lanes += [await self.lane() for _ in range(count)]
        for one, two, _ in lanes:
            one.transport.write(b"x")
            await two.until(1)
        self.assertEqual(self.pipes.lent, 0)
        self.pipes.close()
        # Both far ends are in this process as well.
        self.assertEqual(len(list(descriptors.iterdir())) - before, count * 4)
        for one, two, splice in lanes:
            splice.abort()
            await gatherResults([one.lost, two.lost])


class SpliceTests(LaneTests):
    async def test_bytes_and_ends_both_ways(self) -> None:
        """Megabytes pass both ways at once unchanged, and each direction ends by itself."""
        one, two, splice = await self.lane()
        up, down = Pulled(one, 9_000_001), Pulled(two, 5_000_003)
        await gatherResults([one.heard_end, two.heard_end])
        self.assertEqual(two.digest.digest(), up.digest.digest())
        self.assertEqual(one.digest.digest(), down.digest.digest())
        ended = await self.ended(splice, one, two)
        self.assertEqual(ended, SpliceEnded(True, 9_000_001, 5_000_003))

    async def test_half_close(self) -> None:
        """After one side's end the other goes on as long as it likes."""
        one, two, splice = await self.lane()
        one.transport.write(b"question")
        one.transport.loseWriteConnection()
        await two.heard_end
        self.assertEqual(two.count, 8)
        two.transport.write(b"answer" * 1000)
        await one.until(6000)
        two.transport.loseWriteConnection()
        self.assertEqual(await self.ended(splice, one, two), SpliceEnded(True, 8, 6000))

    async def test_reset(self) -> None:
        """A connection that is reset resets the other."""
        one, two, splice = await self.lane()
        two.transport.write(b"some")
        await one.until(4)
        one.transport.abortConnection()
        ended = await splice.done
        self.assertFalse(ended.is_clean)
        reason = await two.lost
        self.assertNotIsInstance(reason, ConnectionDone)
        self.assertEqual(self.pipes.lent, 0)

    async def test_abort(self) -> None:
        """Breaking a lane breaks both connections at once, whatever is under way."""
        one, two, splice = await self.lane()
        two.transport.pauseProducing()
        sending = Pulled(one, 64 << 20)
        await deferLater(reactor, 0.05)
        splice.abort()
        splice.abort()
        two.transport.resumeProducing()
        await gatherResults([one.lost, two.lost])
        self.assertGreater(sending.digest.digest_size, 0)
        self.assertFalse((await splice.done).is_clean)
        self.assertEqual(self.pipes.lent, 0)

    async def test_reader_that_stops(self) -> None:
        """Who does not read stops the sender after a bounded amount, and loses nothing."""
        one, two, splice = await self.lane()
        two.transport.pauseProducing()
        size = 96 << 20
        sending = Pulled(one, size)
        before = -1
        while splice.passed[0] != before:
            before = splice.passed[0]
            await deferLater(reactor, 0.1)
        self.assertGreater(sending.left, 0)
        self.assertLessEqual(self.pipes.lent, 1)
        two.transport.resumeProducing()
        await two.heard_end
        self.assertEqual(two.digest.digest(), sending.digest.digest())
        two.transport.loseWriteConnection()
        self.assertTrue((await self.ended(splice, one, two)).is_clean)

    async def test_nothing_is_held_while_idle(self) -> None:
        """A lane that rests holds its two sockets and no pipe."""
        await self.idle(50)


class ManyTests(LaneTests):
    """Many lanes at once."""

    def setUp(self) -> None:
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 6000:
            raise SkipTest("needs 6,000 open files: raise the hard limit (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 6000), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    async def test_nothing_is_held_while_idle(self) -> None:
        """A thousand lanes that rest hold two descriptors each and no pipe."""
        await self.idle(1000)

    async def test_busy_without_pipes(self) -> None:
        """Two hundred busy lanes all go on though only eight pipes are to be had."""
        self.pipes.make = self.eight
        lanes = [await self.lane() for _ in range(200)]
        sending = [Pulled(one, 300_000) for one, _, _ in lanes]
        await gatherResults([two.heard_end for _, two, _ in lanes])
        for (one, two, splice), sent in zip(lanes, sending, strict=True):
            self.assertEqual(two.digest.digest(), sent.digest.digest())
            two.transport.loseWriteConnection()
            await splice.done
            for end in (one, two):
                end.transport.loseConnection()
            await gatherResults([one.lost, two.lost])
        self.assertEqual(self.pipes.lent, 0)

    def eight(self) -> Pipe:
        return none_left() if self.pipes.lent >= 8 else make_pipe()


class CopyTests(SpliceTests):
    """Everything above where no pipe is to be had."""

    make = staticmethod(none_left)


class RefusedInTests(SpliceTests):
    """Everything above where the kernel does not splice out of these sockets."""

    is_refused = staticmethod(S_ISFIFO)

    def setUp(self) -> None:
        super().setUp()
        self.patch(svc.lanes.splice, "_splice", self.splice)

    def splice(self, source: int, target: int, count: int, flags: int) -> int:
        if self.is_refused(os.fstat(target).st_mode):
            raise OSError(EINVAL, "not of this sort")
        return os.splice(source, target, count, flags=flags)


class RefusedOutTests(RefusedInTests):
    """Everything above where it takes bytes out of them and puts none in."""

    is_refused = staticmethod(S_ISSOCK)


class ShortOfPipesTests(SpliceTests):
    """Everything above where only one pipe is to be had at a time."""

    def setUp(self) -> None:
        super().setUp()
        self.pipes.make = self.one

    def one(self) -> Pipe:
        return none_left() if self.pipes.lent else make_pipe()
