"""Outside copies of signed heads: every head gets there, and the log waits for nobody."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from attrs import define, field
from OpenSSL.SSL import Error as TlsError
from service_identity import VerificationError
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import HostnameEndpoint, TCP4ServerEndpoint
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.client import Agent, ResponseNeverReceived
from twisted.web.iweb import IAgent, IAgentEndpointFactory
from twisted.web.resource import Resource
from twisted.web.server import Site
from zope.interface import implementer

from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.witness import (
    ANSWER_SECS,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    STOP_SECS,
    WAITING,
    FileSink,
    Witness,
)
from svc.audit.checkpoint.witness_http import MAX_ANSWER, HttpSink
from svc.errors import AuditBroken, Unavailable
from svc.interfaces.audit import IHeadSink
from svc.runtime.threads import SerialThread, inline
from svc.testing.contracts.head_sink import HeadSinkContract
from tests.audit.logs import MemoryLog, heads_over, short_record
from tests.support.nothing import nothing_later

reactor: Any = installed


class FileTests(HeadSinkContract, TestCase):
    """A file."""

    def make(self) -> FileSink:
        return FileSink(Path(self.mktemp()), inline, nothing_later)

    async def held(self, sink: FileSink) -> list[bytes]:
        return sink.path.read_bytes().splitlines()

    async def test_newest(self) -> None:
        """The last whole line is the newest head; one that a crash cut short is written over."""
        log, sink = MemoryLog(), self.make()
        log.fill(5, short_record)
        first, second = heads_over(log.log, 3, 5)
        await sink.put(to_line(first))
        with sink.path.open("ab") as file:
            file.write(to_line(second)[:99])
        newest = await sink.newest()
        assert newest is not None
        self.assertEqual(newest.hash, first.hash)
        await sink.put(to_line(second))
        self.assertEqual(await self.held(sink), [to_line(first), to_line(second)])
        self.assertEqual(sink.path.stat().st_mode & 0o777, 0o600)

    async def test_late(self) -> None:
        """A head behind a greater one is left out, unless it goes on from an older store."""
        log, sink = MemoryLog(), self.make()
        log.fill(5, short_record)
        first, second, third = heads_over(log.log, 2, 3, 5)
        restored = log.go_on(2, third, hours=1)
        for head in (second, first, second, third, first):
            await sink.put(to_line(head))
        self.assertEqual(await self.held(sink), [to_line(second), to_line(third)])
        await sink.put(to_line(restored))
        self.assertEqual((await self.held(sink))[2:], [to_line(restored)])

    async def test_of_another_log(self) -> None:
        """What the file held of another cluster, or is no head at all, keeps no head away."""
        log, sink = MemoryLog(), self.make()
        log.fill(5, short_record)
        (other,) = heads_over(log.log, 5)
        (head,) = heads_over(log.log, 3, log_id="another")
        for line in (to_line(other), to_line(head), b"rubbish", to_line(head)):
            await sink.put(line)
        self.assertEqual(len(await self.held(sink)), 4)

    async def test_rotated(self) -> None:
        """A file that was moved away is begun again."""
        sink = self.make()
        await sink.put(b"1")
        sink.path.rename(self.mktemp())
        await sink.put(b"2")
        self.assertEqual(await self.held(sink), [b"2"])

    async def test_not_a_file(self) -> None:
        """A link, a directory that is missing and rubbish are refused."""
        sink = self.make()
        os.symlink(__file__, sink.path)
        with self.assertRaises(OSError):
            await sink.put(b"1")
        with self.assertRaises(OSError):
            await FileSink(Path(self.mktemp()) / "heads", inline, nothing_later).put(b"1")
        sink.path.unlink()
        sink.path.write_bytes(b"rubbish\n")
        with self.assertRaises(AuditBroken):
            await sink.newest()


class SilentTests(TestCase):
    """A file on another host that has fallen silent: a call into it hangs."""

    timeout = 20

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.gate, self.hung = threading.Event(), Deferred[None]()
        self.addCleanup(self.gate.set)
        log = MemoryLog()
        log.fill(9, short_record)
        self.heads = heads_over(log.log, *range(1, 10))

    def sink(self, path: Path) -> FileSink:
        own = SerialThread("witness of a test", reactor.callFromThread)

        def in_thread(call: Any) -> Any:
            def held() -> Any:
                if not self.gate.is_set():
                    reactor.callFromThread(self.hung.callback, None)
                    self.gate.wait()
                return call()

            return own(held)

        return FileSink(path, in_thread, own.end)

    async def test_put(self) -> None:
        """Heads wait in one thread and no other; once the file is back it gets each of them."""
        path = Path(self.mktemp())
        witness = Witness(self.sink(path), self.clock)
        await witness.startService()
        threads = threading.active_count()
        witness.signed(self.heads[0])
        await self.hung
        with capturedLogs() as said:
            for head in self.heads[1:]:
                witness.signed(head)
                self.clock.advance(ANSWER_SECS)
                self.clock.advance(LONGEST_PAUSE)
        self.assertEqual([one["log_level"].name for one in said], ["error"])
        self.assertIn(str(path), said[0]["text"])
        self.assertEqual(threading.active_count(), threads + 1)
        self.gate.set()
        await witness.stopService()
        lines = list(dict.fromkeys(path.read_bytes().splitlines()))
        self.assertEqual(lines, [to_line(head) for head in self.heads])

    async def test_stop(self) -> None:
        """A stop waits a few seconds for a call that hangs, and says what the file lacks."""
        witness = Witness(self.sink(Path(self.mktemp())), self.clock)
        await witness.startService()
        witness.signed(self.heads[0])
        await self.hung
        stopped = witness.stopService()
        with capturedLogs() as said:
            self.clock.advance(STOP_SECS)
            await stopped
        self.assertEqual([one["heads"] for one in said], [1])
        self.assertEqual(self.clock.getDelayedCalls(), [])


class Kept(Resource):
    """A server that keeps what it is sent."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []
        self.code, self.answer = 204, b""

    def render_POST(self, request: Any) -> bytes:
        request.setResponseCode(self.code)
        if self.code == 204:
            self.lines.append(request.content.read().removesuffix(b"\n"))
        if self.code == 302:
            request.setHeader(b"location", b"/elsewhere")
        return self.answer


@implementer(IAgentEndpointFactory)
@define
class Plain:
    """Leads every URL to one port of this machine: what TLS says is the agent's own matter."""

    port: int

    def endpointForURI(self, uri: Any) -> HostnameEndpoint:
        return HostnameEndpoint(reactor, b"127.0.0.1", self.port)


@implementer(IAgent)
@define
class Broken:
    """An agent whose exchange breaks before an answer, as Twisted's tells it."""

    failed: Exception

    def request(
        self, method: bytes, uri: bytes, headers: Any = None, bodyProducer: Any = None
    ) -> Deferred[Any]:
        return fail(ResponseNeverReceived([Failure(self.failed)]))


class HttpTests(HeadSinkContract, TestCase):
    """A server behind HTTP."""

    timeout = 20

    async def setUp(self) -> None:  # type: ignore[override]
        self.kept = Kept()
        port = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(Site(self.kept))
        self.addCleanup(port.stopListening)
        bound: Any = port.getHost()
        self.agent = Agent.usingEndpointFactory(reactor, Plain(bound.port))

    def make(self) -> HttpSink:
        return HttpSink("https://witness.example/heads", self.agent)

    async def held(self, sink: HttpSink) -> list[bytes]:
        return self.kept.lines

    async def test_not_taken(self) -> None:
        """Whatever is not 2xx is no acceptance; no redirect is followed."""
        for code in (302, 404, 500):
            self.kept.code = code
            with self.assertRaises(Unavailable) as caught:
                await self.make().put(b"1")
            self.assertIn(str(code), str(caught.exception))
        self.assertEqual(self.kept.lines, [])

    async def test_endless_answer(self) -> None:
        """Of a long answer no more is read than the limit."""
        self.kept.answer, self.kept.code = b"x" * (4 * MAX_ANSWER), 200
        await self.make().put(b"1")

    async def test_nobody_there(self) -> None:
        """A server that is away is a refusal like any other, told in words."""
        sink = HttpSink("https://witness.example/", Agent.usingEndpointFactory(reactor, Plain(1)))
        with self.assertRaises(Unavailable) as caught:
            await sink.put(b"1")
        self.assertEqual(str(caught.exception), "https://witness.example/: connection refused")

    async def test_failed_in_words(self) -> None:
        """What broke the exchange is named: how TLS failed, whose certificate it was, a close."""
        no_match = VerificationError(errors=[])
        for failed, words in (
            (ConnectionDone(), "connection closed"),
            (TlsError([("SSL routines", "", "certificate verify failed")]), "certificate verify"),
            (no_match, "the server's certificate is for another host"),
        ):
            sink = HttpSink("https://witness.example/", Broken(failed))
            with self.assertRaises(Unavailable) as caught:
                await sink.put(b"1")
            text = str(caught.exception)
            self.assertTrue(text.startswith(f"https://witness.example/: {words}"), text)


@implementer(IHeadSink)
@define
class Sink:
    """A sink that a test makes fail or fall silent."""

    name: str = "memory"
    lines: list[bytes] = field(factory=list)
    mood: str = "well"
    is_closed: bool = False

    async def put(self, line: bytes) -> None:
        if self.mood == "away":
            raise Unavailable("away for a test")
        if self.mood == "full":
            raise OSError(28, "No space left on device")
        if self.mood == "silent":
            await Deferred()
        self.lines.append(line)

    def close(self) -> None:
        self.is_closed = True


class MemoryTests(HeadSinkContract, TestCase):
    """The sink of these tests."""

    def make(self) -> Sink:
        return Sink()

    async def held(self, sink: Sink) -> list[bytes]:
        return sink.lines


class WitnessTests(SynchronousTestCase):
    """One sink of a running Authority."""

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.sink = Sink()
        self.witness = Witness(self.sink, self.clock)
        self.successResultOf(self.witness.startService())
        log = MemoryLog()
        log.fill(WAITING + 9, short_record)
        self.heads = heads_over(log.log, *range(1, WAITING + 10))

    def signed(self, count: int) -> None:
        for head in self.heads[:count]:
            self.witness.signed(head)

    def stopped(self) -> None:
        stopping = self.witness.stopService()
        self.clock.advance(STOP_SECS)
        self.successResultOf(stopping)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertTrue(self.sink.is_closed)

    def test_each(self) -> None:
        """Every head gets there, in order, with the certificate of its key."""
        self.signed(5)
        self.assertEqual(self.sink.lines, [to_line(head) for head in self.heads[:5]])
        self.stopped()

    def test_away(self) -> None:
        """Who was away gets the newest heads once it is back, and no more than are kept waiting."""
        for mood in ("away", "full"):
            self.sink.mood = mood
            self.sink.lines.clear()
            self.signed(WAITING + 9)
            for _ in range(9):
                self.clock.advance(LONGEST_PAUSE)
            self.assertEqual(len(self.clock.getDelayedCalls()), 1)
            self.sink.mood = "well"
            self.clock.advance(LONGEST_PAUSE)
            newest = [to_line(head) for head in self.heads[-WAITING:]]
            self.assertEqual(self.sink.lines, newest)
        self.stopped()

    def test_silent(self) -> None:
        """A sink that does not answer is given up after a while, and asked again later."""
        self.sink.mood = "silent"
        self.signed(2)
        self.clock.advance(ANSWER_SECS)
        self.sink.mood = "well"
        self.clock.advance(FIRST_PAUSE)
        self.assertEqual(len(self.sink.lines), 2)
        self.stopped()

    def test_back(self) -> None:
        """Once it took a head, the next failure is waited for no longer than the first was."""
        self.sink.mood = "away"
        self.signed(1)
        for _ in range(9):
            self.clock.advance(LONGEST_PAUSE)
        self.sink.mood = "well"
        self.clock.advance(LONGEST_PAUSE)
        self.sink.mood = "away"
        self.signed(1)
        self.sink.mood = "well"
        self.clock.advance(FIRST_PAUSE)
        self.assertEqual(len(self.sink.lines), 2)
        self.stopped()

    def test_stop(self) -> None:
        """A stop brings what waits, once, and waits no longer than a few seconds."""
        self.sink.mood = "away"
        self.signed(2)
        self.sink.mood = "well"
        self.stopped()
        self.assertEqual(len(self.sink.lines), 2)
        for mood in ("away", "silent"):
            self.setUp()
            self.sink.mood = mood
            self.signed(2)
            self.stopped()
            self.assertEqual(self.sink.lines, [])
