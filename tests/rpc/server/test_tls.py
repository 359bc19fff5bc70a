"""TLS on a listener: judged before anything is heard, whole in both directions, ended in order."""

from __future__ import annotations

from typing import Any, cast

from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IConsumer,
    INegotiated,
    IPushProducer,
    ISSLTransport,
    ISystemHandle,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from svc.errors import SvcError
from svc.model.certificate import CertificateRefused
from svc.model.principal import Role
from svc.pki.tls import ClientCertificates, client_context, server_context
from svc.rpc.server.tls import TlsServer, TlsServerFactory
from svc.rpc.tls import Begin
from tests.pki.support import ALL, LegacyClient, World
from tests.rpc.test_tls_output import Socket, Writer
from tests.support.examples import examples


class Ear(Protocol):
    """What is served: keeps what it hears; says a word when it may."""

    greeting = b"from server"

    def __init__(self) -> None:
        self.heard = b""
        self.pieces = 0
        self.is_met = False
        self.lost: Failure | None = None
        self.ends_at_once = False
        self.failed = ""

    @property
    def tls(self) -> TlsServer:
        return cast(TlsServer, self.transport)

    def handshakeCompleted(self) -> None:
        self.is_met = True
        self.tls.write(self.greeting)

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        self.pieces += 1
        if self.ends_at_once:
            self.tls.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason

    def fail(self, reason: str) -> None:
        self.failed = reason
        self.tls.abortConnection()


class Line(Socket):
    """The socket below, with its ends."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "open"
        self.is_paused = False
        self.no_delay = False

    def loseConnection(self) -> None:
        # A transport with a producer would wait for it.
        assert self.producer is None
        self.state = "closed"

    def abortConnection(self) -> None:
        self.state = "aborted"

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.no_delay = enabled

    def taken(self) -> bytes:
        """What has been sent since asked last."""
        sent, self.sent = self.sent, b""
        return sent


class Caller:
    """An OpenSSL client without a socket."""

    def __init__(self, context: Any) -> None:
        self.heard = b""
        self.error: SSL.Error | None = None
        self.heard_end = False
        self.tls: SSL.Connection = context.clientConnectionForTLS(self)

    def failVerification(self, reason: Failure) -> None:
        raise AssertionError(reason)

    def take(self, data: bytes) -> None:
        """Bytes of the server's."""
        if data:
            self.tls.bio_write(data)
        try:
            self.tls.do_handshake()
            while True:
                self.heard += self.tls.recv(1 << 16)
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self.heard_end = True
        except SSL.Error as error:
            self.error = error

    def said(self) -> bytes:
        """Bytes for the server."""
        pieces = []
        try:
            while True:
                pieces.append(self.tls.bio_read(1 << 16))
        except SSL.WantReadError:
            return b"".join(pieces)


@frozen
class Doubtful:
    """A handshake whose peer is refused at the second look."""

    connection: SSL.Connection

    def confirm(self) -> None:
        raise SvcError("not you", reason="not_you")


class TlsCase(SynchronousTestCase):
    world = World()
    identity = world.identity(Role.PROXY)

    def setUp(self) -> None:
        self.refused: list[SvcError] = []
        self.server = server_context(self.identity, refused=self.refused.append)
        self.client = client_context(
            self.world.verifier, self.world.identity(Role.USER), roles=ALL, refused=lambda _: None
        )
        self.meet()

    def meet(self, begin: Begin | None = None, client: Any = None) -> None:
        """A new connection."""
        self.ear, self.line = Ear(), Line()
        factory = TlsServerFactory(
            begin or self.server.begin, Factory.forProtocol(lambda: self.ear), Clock().seconds
        )
        tls = factory.buildProtocol(cast(Any, None))
        assert tls is not None
        self.tls = tls
        self.tls.makeConnection(cast(Any, self.line))
        self.caller = Caller(client or self.client)

    def move(self) -> None:
        """Carry bytes both ways until none moves."""
        for _ in range(6):
            self.caller.take(self.line.taken())
            said = self.caller.said()
            if said:
                self.tls.dataReceived(said)

    def speak_at_once(self) -> None:
        """Carry the handshake, with words behind the caller's last part of it."""
        self.caller.take(b"")
        self.tls.dataReceived(self.caller.said())
        self.caller.take(self.line.taken())
        self.caller.tls.send(b"let me in")
        self.tls.dataReceived(self.caller.said())
        self.caller.take(self.line.taken())

    def lose(self, why: type[Exception]) -> Failure:
        """The socket ends; what the served protocol heard of it."""
        self.tls.connectionLost(Failure(why()))
        assert self.ear.lost is not None
        return self.ear.lost


class TlsServerTests(TlsCase):
    def test_keeps_its_interfaces(self) -> None:
        """It is what it says."""
        for each in (ISSLTransport, IConsumer, IPushProducer, INegotiated, ISystemHandle):
            verifyObject(each, self.tls)

    def test_meets(self) -> None:
        """Both ends hear each other, and the protocol and the peer are known."""
        self.move()
        self.caller.tls.send(b"from client")
        self.move()
        self.assertEqual((self.ear.heard, self.caller.heard), (b"from client", b"from server"))
        self.assertEqual(self.tls.negotiatedProtocol, b"h2")
        self.assertIsNotNone(self.tls.getPeerCertificate())

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(0, 40_000))
    def test_any_split(self, sizes: list[int], size: int) -> None:
        """However the caller's bytes are split, it is met once and heard whole."""
        self.setUp()
        message, at = bytes(range(256)) * (size // 256 + 1), 0
        for _ in range(6):
            self.caller.take(self.line.taken())
            if self.ear.is_met and not at:
                self.caller.tls.send(message)
                at = 1
            said, turn = self.caller.said(), 0
            while said:
                step = sizes[turn % len(sizes)]
                self.tls.dataReceived(said[:step])
                said, turn = said[step:], turn + 1
        self.assertEqual(self.ear.heard, message)
        self.assertEqual(self.caller.heard, b"from server")

    def test_one_piece(self) -> None:
        """What one read of the socket brought is handed over at once, and a long write whole."""
        self.move()
        self.caller.tls.send(bytes(60_000))
        self.tls.dataReceived(self.caller.said())
        self.assertEqual((self.ear.pieces, len(self.ear.heard)), (1, 60_000))
        self.line.calls = 0
        self.tls.writeSequence([bytes(500_000), b"end"])
        self.assertEqual(self.line.calls, 1)
        self.move()
        self.assertEqual(len(self.caller.heard), len(b"from server") + 500_003)

    def test_silence_costs_nothing(self) -> None:
        """Until a byte has come OpenSSL is asked for nothing; who leaves so is lost, not done."""
        begun: list[int] = []

        def begin() -> Any:
            begun.append(1)
            return self.server.begin()

        self.meet(begin)
        self.assertEqual(begun, [])
        self.assertIsNone(self.tls.negotiatedProtocol)
        self.assertTrue(self.lose(ConnectionDone).check(ConnectionLost))
        self.assertEqual(begun, [])

    def test_stranger(self) -> None:
        """A certificate of another cluster gets an alert, and is heard by nobody."""
        shown = World("other.example.test").identity(Role.USER).material
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_alpn_protos([b"h2"])
        context.use_certificate(shown.certificates[0])
        context.use_privatekey(shown.key)
        context.add_extra_chain_cert(shown.certificates[1])
        self.meet(client=LegacyClient(context))
        self.speak_at_once()
        self.assertEqual((self.ear.is_met, self.ear.heard, self.line.state), (False, b"", "closed"))
        self.assertIsNotNone(self.caller.error)
        self.assertTrue(self.lose(ConnectionDone).check(SSL.Error))

    def test_without_certificate(self) -> None:
        """Where one is required its lack ends the handshake; where it is not, nobody is known."""
        bare = client_context(self.world.verifier, None, roles=ALL, refused=lambda _: None)
        self.meet(client=bare)
        self.move()
        self.assertTrue(self.ear.is_met)
        self.assertIsNone(self.tls.getPeerCertificate())
        required = server_context(self.identity, ClientCertificates.REQUIRED)
        self.meet(required.begin, bare)
        self.move()
        self.assertEqual((self.ear.is_met, self.line.state), (False, "closed"))

    def test_second_look(self) -> None:
        """Who is refused when the handshake is done is cut off with what it said unread."""
        self.meet(lambda: Doubtful(self.server.begin().connection))
        self.speak_at_once()
        self.assertEqual(
            (self.ear.is_met, self.ear.heard, self.line.state), (False, b"", "aborted")
        )
        lost = self.lose(ConnectionAborted)
        self.assertEqual(cast(SvcError, lost.value).reason, "not_you")

    def test_no_verifier(self) -> None:
        """A connection that no verifier took accepts no certificate."""
        self.meet(lambda: Doubtful(self.server.contexts.connection(None, watched=False)))
        self.move()
        self.assertEqual((self.ear.is_met, self.line.state), (False, "closed"))
        self.assertTrue(self.lose(ConnectionDone).check(SSL.Error))

    def test_expired(self) -> None:
        """With an identity that has expired no handshake begins, and it is told why."""
        world = World()
        server = server_context(
            world.identity(Role.PROXY, lifetime=60), refused=self.refused.append
        )
        world.clock.advance(3600)
        self.meet(server.begin)
        self.move()
        self.assertEqual((self.ear.is_met, self.line.state), (False, "closed"))
        self.assertEqual([each.reason for each in self.refused], ["certificate_expired"])
        self.assertIsInstance(self.refused[0], CertificateRefused)

    @settings(max_examples=examples(60), deadline=None)
    @given(st.binary(min_size=1, max_size=200))
    def test_babble(self, noise: bytes) -> None:
        """Whatever else is said is never heard above, and nothing breaks."""
        self.setUp()
        self.tls.dataReceived(noise)
        self.tls.dataReceived(noise)
        self.assertFalse(self.ear.is_met)
        self.assertIn(self.line.state, ("open", "closed"))
        self.lose(ConnectionDone)
        self.assertEqual(self.ear.heard, b"")

    def test_altered(self) -> None:
        """A record altered on its way ends the connection, and what follows is not read."""
        self.move()
        self.caller.tls.send(b"pay one")
        self.caller.tls.send(b"pay two")
        said = bytearray(self.caller.said())
        said[7] ^= 1
        self.tls.dataReceived(bytes(said))
        self.tls.dataReceived(bytes(said))
        self.assertEqual((self.ear.heard, self.line.state), (b"", "closed"))
        self.assertTrue(self.lose(ConnectionDone).check(SSL.Error))


class EndTests(TlsCase):
    def test_ours(self) -> None:
        """Our end waits for the peer's, so that what we said last is read."""
        self.move()
        self.tls.write(b", bye")
        self.tls.loseConnection()
        self.tls.write(b"too late")
        self.assertEqual(self.line.state, "open")
        self.caller.take(self.line.taken())
        self.assertEqual((self.caller.heard, self.caller.heard_end), (b"from server, bye", True))
        self.caller.tls.shutdown()
        self.tls.dataReceived(self.caller.said())
        self.assertEqual(self.line.state, "closed")
        self.assertTrue(self.lose(ConnectionDone).check(ConnectionDone))

    def test_theirs(self) -> None:
        """The peer's end is answered, after what it said before."""
        self.move()
        self.caller.tls.send(b"last")
        self.caller.tls.shutdown()
        self.move()
        self.assertEqual((self.ear.heard, self.line.state), (b"last", "closed"))
        self.assertTrue(self.caller.heard_end)
        self.assertTrue(self.lose(ConnectionDone).check(ConnectionDone))

    def test_cut(self) -> None:
        """An end of the stream without close_notify is a loss."""
        self.move()
        self.assertTrue(self.lose(ConnectionDone).check(ConnectionLost))
        self.tls.write(b"nobody is there")
        self.assertIsNone(self.tls.getHandle())

    def test_amid_the_handshake(self) -> None:
        """Nobody was met: there is nothing to end in order."""
        self.tls.loseConnection()
        self.assertEqual(self.line.state, "aborted")
        self.move()
        self.assertFalse(self.ear.is_met)

    def test_aborted_while_hearing(self) -> None:
        """Who aborts hears no more, and the socket is written to no more."""
        self.move()
        self.ear.ends_at_once = True
        self.caller.tls.send(b"one")
        self.tls.dataReceived(self.caller.said())
        self.caller.tls.send(b"two")
        self.tls.dataReceived(self.caller.said())
        self.tls.write(b"late")
        self.assertEqual((self.ear.heard, self.line.state), (b"one", "aborted"))
        self.assertEqual(self.line.taken(), b"")

    def test_early_words(self) -> None:
        """What is written before the handshake is done goes once it is."""
        self.tls.write(b"early, ")
        self.tls.write(b"too")
        self.assertEqual(self.line.sent, b"")
        self.move()
        self.assertEqual(self.caller.heard, b"from serverearly, too")


class PressureTests(TlsCase):
    def test_writer(self) -> None:
        """A writer is paused while the socket takes nothing; an end waits until it is done."""
        writer = Writer()
        self.move()
        self.tls.registerProducer(writer, True)
        self.assertRaises(RuntimeError, self.tls.registerProducer, writer, True)
        self.line.room = 0
        self.tls.write(bytes(100_000))
        self.assertEqual(writer.told, ["pause"])
        self.tls.loseConnection()
        self.tls.write(b"still")
        self.line.drain(1 << 20)
        self.assertEqual(writer.told, ["pause", "resume"])
        self.tls.unregisterProducer()
        self.move()
        self.assertEqual(len(self.caller.heard), len(b"from server") + 100_000 + len(b"still"))
        self.assertTrue(self.caller.heard_end)

    def test_reader(self) -> None:
        """Who wants to hear no more stops the socket's reading."""
        self.tls.pauseProducing()
        self.assertTrue(self.line.is_paused)
        self.tls.resumeProducing()
        self.assertFalse(self.line.is_paused)

    def test_too_late(self) -> None:
        """A producer that comes after the end is stopped; one that pulls is not taken."""
        writer = Writer()
        self.assertRaises(RuntimeError, self.tls.registerProducer, writer, False)
        self.lose(ConnectionDone)
        self.tls.registerProducer(writer, True)
        self.assertEqual(writer.told, ["stop"])


class BrokenOffTests(TlsCase):
    """Connections of one listener."""

    def test_half_a_handshake(self) -> None:
        """It is one until it is done or gone; past the limit the oldest is told why and ended."""
        factory = TlsServerFactory(
            begin=self.server.begin,
            inner=Factory.forProtocol(Ear),
            seconds=Clock().seconds,
            most_handshakes=2,
        )
        caller = Caller(self.client)
        caller.take(b"")
        hello = caller.said()
        made = []
        for _ in range(4):
            tls, line = factory.buildProtocol(IPv4Address("TCP", "192.0.2.1", 9)), Line()
            assert tls is not None
            tls.makeConnection(cast(Any, line))
            made.append((tls, line))
        self.assertEqual(factory.under_way.count, 0)
        for tls, _ in made:
            tls.dataReceived(hello)
        self.assertEqual(factory.under_way.count, 2)
        self.assertEqual(
            [tls.inner.failed for tls, _ in made], ["too_many_handshakes"] * 2 + [""] * 2
        )
        made[2][0].connectionLost(Failure(ConnectionDone()))
        self.assertEqual(factory.under_way.count, 1)

    def test_the_oldest_among_equals(self) -> None:
        """Of sources that have as many, the one that began first loses its handshake."""
        clock = Clock()
        factory = TlsServerFactory(
            begin=self.server.begin,
            inner=Factory.forProtocol(Ear),
            seconds=clock.seconds,
            most_handshakes=3,
        )
        caller = Caller(self.client)
        caller.take(b"")
        hello = caller.said()
        made = {}
        for host, number in ((1, 0), (2, 1), (1, 2), (3, 3)):
            clock.advance(1)
            tls = factory.buildProtocol(IPv4Address("TCP", f"192.0.2.{host}", 9))
            assert tls is not None
            tls.makeConnection(cast(Any, Line()))
            tls.dataReceived(hello)
            made[number] = tls
            if number == 2:
                made.pop(0).connectionLost(Failure(ConnectionDone()))
        clock.advance(1)
        last = factory.buildProtocol(IPv4Address("TCP", "192.0.2.4", 9))
        assert last is not None
        last.makeConnection(cast(Any, Line()))
        last.dataReceived(hello)
        failed = {number: tls.inner.failed for number, tls in made.items()}
        self.assertEqual(failed, {1: "too_many_handshakes", 2: "", 3: ""})
