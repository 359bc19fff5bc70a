"""TLS inside a session: half-close, no truncation, nothing before the handshake."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import frozen
from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IProtocol,
    IProtocolFactory,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from svc.errors import SvcError
from svc.interfaces.rpc import IHalfCloseableTransport
from svc.model.principal import Role
from svc.pki.end_to_end import ConnectorEnd, PersonEnd
from svc.rpc.endpoint import AwaitedEndpoint
from svc.tunnel.tls import SessionTls
from svc.tunnel.tls_endpoint import SessionTlsEndpoint
from tests.pki.support import LegacyClient, World


@implementer(IHalfCloseableProtocol)
class Ear(Protocol):
    """Keeps what it hears, and when it was connected."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.heard_end = False
        self.lost: Failure | None = None

    def dataReceived(self, data: bytes) -> None:
        self.received.append(data)

    def readConnectionLost(self) -> None:
        self.heard_end = True

    def writeConnectionLost(self) -> None:
        pass

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason

    @property
    def heard(self) -> bytes:
        return b"".join(self.received)


class Pipe:
    """One direction's transport: writes wait until the test lets them through."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.state = "open"
        self.paused = False
        self.producer: Any = None

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def loseConnection(self) -> None:
        self.state = "closed"

    def abortConnection(self) -> None:
        self.state = "aborted"

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False


class TlsTests(SynchronousTestCase):
    def setUp(self) -> None:
        world = World()
        connector, person = world.identity(Role.CONNECTOR), world.identity(Role.USER)
        accepts = ConnectorEnd(connector).session(person.facts.sha256)
        expects = PersonEnd(person).session(connector.facts.principal.id)
        self.near, self.far = Ear(), Ear()
        self.accepts, self.expects = accepts.begin, expects.begin
        self.server = SessionTls(self.accepts, self.near)
        self.client = SessionTls(self.expects, self.far)
        self.pipes = (Pipe(), Pipe())
        self.server.makeConnection(self.pipes[0])
        self.client.makeConnection(self.pipes[1])

    def move(self) -> None:
        for _ in range(6):
            for pipe, to in zip(self.pipes, (self.client, self.server), strict=True):
                sent, pipe.sent = pipe.sent, []
                for data in sent:
                    to.dataReceived(data)

    def shake(self) -> None:
        self.move()
        self.successResultOf(self.server.secured)
        self.successResultOf(self.client.secured)

    def test_keeps_its_interface(self) -> None:
        """It says of itself that it can end one direction alone."""
        verifyObject(IHalfCloseableTransport, self.server)

    def test_nothing_before_the_handshake(self) -> None:
        """What it carries is connected only once the peer is proved."""
        self.assertIsNone(self.near.transport)
        self.shake()
        self.assertIs(self.near.transport, self.server)

    def test_begins_before_its_stream(self) -> None:
        """A client's first flight may go ahead of its stream, and is then not sent again."""
        client = SessionTls(self.expects, self.far)
        self.server.dataReceived(client.first_flight())
        self.pipes = (self.pipes[0], Pipe())
        self.client = client
        client.makeConnection(self.pipes[1])
        self.assertEqual(self.pipes[1].sent, [])
        self.shake()
        client.write(b"question")
        self.move()
        self.assertEqual(self.near.heard, b"question")

    def test_answered_before_the_stream(self) -> None:
        """A server answers a first flight that came ahead of the stream, also one in parts."""
        hello = SessionTls(self.expects, Ear()).first_flight()
        self.assertEqual(SessionTls(self.accepts, Ear()).first_flight(hello[:100]), b"")
        for heard in (hello, hello[:100]):
            client = self.client = SessionTls(self.expects, self.far)
            flight = client.first_flight()
            cut = min(len(heard), len(flight) if heard is hello else 100)
            server = self.server = SessionTls(self.accepts, self.near)
            answer = server.first_flight(flight[:cut])
            self.assertEqual(bool(answer), heard is hello)
            self.pipes = (Pipe(), Pipe())
            client.makeConnection(self.pipes[1])
            server.makeConnection(self.pipes[0])
            self.assertEqual((self.pipes[0].sent, self.pipes[1].sent), ([], []))
            if answer:
                client.dataReceived(answer)
            else:
                server.dataReceived(flight[cut:])
            self.shake()
            client.write(b"question")
            self.move()
            self.assertTrue(self.near.heard.endswith(b"question"))

    def test_no_flight_at_all(self) -> None:
        """What is no handshake is refused once the stream stands, before anything is connected."""
        self.server = SessionTls(self.accepts, self.near)
        self.assertEqual(self.server.first_flight(b"GET / HTTP/1.1\r\n\r\n"), b"")
        pipe = Pipe()
        self.server.makeConnection(pipe)
        self.assertEqual(pipe.state, "aborted")
        self.assertIsNone(self.near.transport)
        self.server.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(self.server.secured)

    def test_last_flight_with_the_first_words(self) -> None:
        """A client's last flight waits for words that are there within a turn, and no longer."""
        for has_words in (True, False):
            clock, near, far = Clock(), Ear(), Ear()
            server = SessionTls(self.accepts, near)
            client = SessionTls(self.expects, far, soon=partial(clock.callLater, 0))
            pipes = (Pipe(), Pipe())
            server.makeConnection(pipes[0])
            client.makeConnection(pipes[1])
            server.dataReceived(b"".join(pipes[1].sent))
            pipes[1].sent.clear()
            client.dataReceived(b"".join(pipes[0].sent))
            self.successResultOf(client.secured)
            self.assertEqual(pipes[1].sent, [])
            if has_words:
                client.write(b"question")
                self.assertEqual(len(pipes[1].sent), 1)
            clock.advance(0)
            self.assertEqual(len(pipes[1].sent), 1)
            server.dataReceived(pipes[1].sent[0])
            self.successResultOf(server.secured)
            self.assertEqual(near.heard, b"question" if has_words else b"")

    def test_last_flight_of_one_that_leaves(self) -> None:
        """A client that closes at once says all that it had to say, in order."""
        clock, near = Clock(), Ear()
        server = SessionTls(self.accepts, near)
        client = SessionTls(self.expects, Ear(), soon=partial(clock.callLater, 0))
        self.pipes, self.server, self.client = (Pipe(), Pipe()), server, client
        server.makeConnection(self.pipes[0])
        client.makeConnection(self.pipes[1])
        server.dataReceived(b"".join(self.pipes[1].sent))
        self.pipes[1].sent.clear()
        client.dataReceived(b"".join(self.pipes[0].sent))
        self.pipes[0].sent.clear()
        client.loseConnection()
        clock.advance(0)
        self.move()
        self.assertTrue(near.heard_end)

    def test_tickets_wait(self) -> None:
        """What nobody waits for after the handshake goes with the first word, or with the end."""
        for end, heard in ((False, b"answer"), (True, b"")):
            pipes, ear = (Pipe(), Pipe()), Ear()
            server = SessionTls(self.accepts, Ear(), holds_last=True)
            client = SessionTls(self.expects, ear)
            self.pipes, self.server, self.client = pipes, server, client
            server.makeConnection(pipes[0])
            client.makeConnection(pipes[1])
            self.shake()
            client.write(b"question")
            server.dataReceived(b"".join(pipes[1].sent))
            self.assertEqual(pipes[0].sent, [])
            pipes[1].sent.clear()
            if end:
                server.loseWriteConnection()
            else:
                server.write(b"answer")
            self.assertEqual(len(pipes[0].sent), 1)
            self.move()
            self.assertEqual((ear.heard, ear.heard_end), (heard, end))

    def test_second_look(self) -> None:
        """Whoever shows the right certificate and speaks of no protocol is refused too."""
        world = World()
        connector, person = world.identity(Role.CONNECTOR), world.identity(Role.USER)
        context = SSL.Context(SSL.TLS_METHOD)
        leaf, *above = person.material.certificates
        context.use_certificate(leaf)
        context.use_privatekey(person.material.key)
        for each in above:
            context.add_extra_chain_cert(each)
        refused: list[SvcError] = []
        accepts = ConnectorEnd(connector).session(person.facts.sha256, refused.append)
        self.server = SessionTls(accepts.begin, self.near)
        self.client = SessionTls(LegacyClient(context).begin, self.far)
        self.pipes = (Pipe(), Pipe())
        self.server.makeConnection(self.pipes[0])
        self.client.makeConnection(self.pipes[1])
        self.move()
        self.assertEqual([each.reason for each in refused], ["certificate_chain"])
        self.assertEqual(self.pipes[0].state, "aborted")
        self.assertIsNone(self.near.transport)
        self.server.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(self.server.secured)

    def test_large_writes_and_reads(self) -> None:
        """A megabyte written at once arrives whole."""
        self.shake()
        self.client.writeSequence([bytes(1 << 20), b"end"])
        self.move()
        self.assertEqual(self.near.heard, bytes(1 << 20) + b"end")

    def test_half_close_each_way(self) -> None:
        """Each side ends its own direction; the other goes on until it ends as well."""
        self.shake()
        self.client.write(b"question")
        self.client.loseWriteConnection()
        self.client.write(b"never sent")
        self.move()
        self.assertEqual((self.near.heard, self.near.heard_end), (b"question", True))
        self.server.write(b"answer")
        self.server.loseConnection()
        self.move()
        self.assertEqual((self.far.heard, self.far.heard_end), (b"answer", True))
        self.assertEqual([pipe.state for pipe in self.pipes], ["closed", "open"])

    def test_truncation(self) -> None:
        """A stream that ends without the peer's word is a break, however politely it ends."""
        self.shake()
        self.client.write(b"half of it")
        self.move()
        self.server.readConnectionLost()
        self.assertEqual(self.pipes[0].state, "aborted")
        self.assertFalse(self.near.heard_end)
        self.client.connectionLost(Failure(ConnectionDone()))
        self.assertTrue(self.far.lost and self.far.lost.check(ConnectionLost))

    def test_truncation_after_half_close(self) -> None:
        """Our own end of writing does not make the peer's missing word an orderly end."""
        self.shake()
        self.client.loseWriteConnection()
        self.move()
        self.client.connectionLost(Failure(ConnectionDone()))
        self.assertTrue(self.far.lost and self.far.lost.check(ConnectionLost))

    def test_orderly_end(self) -> None:
        """An end after the peer's word is an orderly one."""
        self.shake()
        self.client.loseConnection()
        self.move()
        self.server.readConnectionLost()
        self.server.connectionLost(Failure(ConnectionDone()))
        self.assertTrue(self.near.heard_end)
        self.assertTrue(self.near.lost and self.near.lost.check(ConnectionDone))

    def test_altered_bytes(self) -> None:
        """A byte altered on the way breaks the session and is never delivered."""
        self.shake()
        self.client.write(b"one")
        data = b"".join(self.pipes[1].sent)
        self.pipes[1].sent = []
        self.server.dataReceived(data[:-1] + bytes([data[-1] ^ 1]))
        self.assertEqual((self.near.received, self.pipes[0].state), ([], "aborted"))
        self.server.connectionLost(Failure(ConnectionDone()))
        self.assertFalse(self.near.lost and self.near.lost.check(ConnectionDone))

    def test_paused_reader(self) -> None:
        """A paused reader hears nothing until it resumes, then everything, its end last."""
        self.shake()
        self.server.pauseProducing()
        self.client.write(b"x" * 100_000)
        self.client.loseWriteConnection()
        self.move()
        self.assertEqual((self.near.received, self.near.heard_end), ([], False))
        self.server.resumeProducing()
        self.assertEqual((len(self.near.heard), self.near.heard_end), (100_000, True))
        self.assertFalse(self.pipes[0].paused)

    def test_paced_writer(self) -> None:
        """Whoever writes is paced by the stream below."""
        self.shake()
        producer = object()
        self.server.registerProducer(producer, True)
        self.assertIs(self.pipes[0].producer, producer)
        self.server.unregisterProducer()
        self.assertIsNone(self.pipes[0].producer)

    def test_stream_ends_in_the_handshake(self) -> None:
        """A stream that ends before the handshake is a failure, told once."""
        self.server.connectionLost(Failure(ConnectionDone()))
        self.failureResultOf(self.server.secured)
        self.assertIsNone(self.near.lost)

    def test_given_up(self) -> None:
        """Giving the handshake up aborts the stream."""
        waiting: Deferred[Any] = self.server.secured
        waiting.cancel()
        self.failureResultOf(waiting)
        self.assertEqual(self.pipes[0].state, "aborted")

    def test_stopped(self) -> None:
        """Whoever stops an endpoint amid the handshake is not told that the peer refused it."""
        world = World()
        expects = PersonEnd(world.identity(Role.USER)).session("a" * 26)
        below = _Below(Pipe())
        endpoint = SessionTlsEndpoint(below=below, begin=expects.begin, clock=Clock(), seconds=5.0)
        connecting = endpoint.connect(Factory.forProtocol(Ear))
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.assertEqual(below.pipe.state, "aborted")


@frozen
class _Below(AwaitedEndpoint):
    """An endpoint whose one connection is a pipe of the test's."""

    pipe: Pipe

    async def connected(self, factory: IProtocolFactory) -> IProtocol:
        """At once."""
        protocol = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        assert protocol is not None
        protocol.makeConnection(self.pipe)  # type: ignore[arg-type]
        return protocol
