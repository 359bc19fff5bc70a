"""The login at a server: SCRAM both ways, and what a server cannot make the Connector do."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IProtocol, IProtocolFactory
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.kinds.postgres.login import LoginEndpoint, LoginPlan, hand_over
from svc.kinds.postgres.messages import message
from svc.kinds.postgres.scram import SCRAM, ScramClient, prepared, salted_password
from tests.kinds.postgres.talk import READY, error

NONCE = "rOprNGfwEbeRWgbNEkqO"
KEY = message(b"K", b"secretky")
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PASSWORD = b"pencil"
OFFER = (10).to_bytes(4, "big") + SCRAM.encode() + b"\0\0"


class ScramTests(SynchronousTestCase):
    """The exchange by itself."""

    def test_of_the_rfc(self) -> None:
        """Keys and proof as RFC 7677 shows them, but for the name that PostgreSQL leaves out."""
        salted = salted_password(PASSWORD, SALT, 4096)
        self.assertEqual(salted, pbkdf2_hmac("sha256", PASSWORD, SALT, 4096))
        client = ScramClient(nonce=NONCE, binding=None, could_bind=False)
        self.assertEqual(client.first(), f"n,,n=,r={NONCE}".encode())
        server = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s={b64encode(SALT).decode()},i=4096"
        client.challenged(server.encode())
        said = client.proved(salted).decode()
        self.assertTrue(said.startswith(f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p="))
        exchange = f"n=,r={NONCE},{server},{said.rpartition(',p=')[0]}".encode()
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(sha256(client_key).digest(), exchange, "sha256")
        proof = b64decode(said.rpartition(",p=")[2])
        self.assertEqual(bytes(a ^ b for a, b in zip(proof, signature, strict=True)), client_key)
        good = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), exchange, "sha256")
        client.verify(b"v=" + b64encode(good))
        for bad in (b"v=" + b64encode(bytes(32)), b"v=", b"e=other-error", b"", b"\xff"):
            self.assertRaises(SvcError, client.verify, bad)

    def test_headers(self) -> None:
        """What stands for the channel: bound, could be bound, cannot be."""
        for binding, could, header in (
            (b"x", True, b"p=tls-server-end-point,,"),
            (None, True, b"y,,"),
            (None, False, b"n,,"),
        ):
            client = ScramClient(nonce="n", binding=binding, could_bind=could)
            self.assertTrue(client.first().startswith(header))

    def test_challenges_refused(self) -> None:
        """Another nonce, none of the server's own, too few iterations or too many."""
        salt = b64encode(SALT).decode()
        for said in (
            f"r=other,s={salt},i=4096",
            f"r={NONCE},s={salt},i=4096",
            f"r={NONCE}x,s={salt},i=1",
            f"r={NONCE}x,s={salt},i=4095",
            f"r={NONCE}x,s={salt},i=1000001",
            f"r={NONCE}x,s={salt},i=99999999999",
            f"r={NONCE}x,s=!,i=4096",
            f"r={NONCE}x,s={salt},i=4096,m=ext",
            "",
        ):
            client = ScramClient(nonce=NONCE, binding=None, could_bind=False)
            refusal = self.assertRaises(SvcError, client.challenged, said.encode())
            self.assertEqual(refusal.reason, "target_untrusted", said)

    def test_prepared(self) -> None:
        """Passwords of other letters are prepared as PostgreSQL prepares them."""
        for given, wanted in (
            ("pencil", "pencil"),
            ("I\u00adX", "IX"),
            ("\u00aa", "a"),
            ("\u2168", "IX"),
            ("a\u00a0b", "a b"),
        ):
            self.assertEqual(prepared(given.encode()), wanted.encode())
        for kept in ("\u0007\u00e9".encode(), "\u0627\u0031".encode(), b"\xff"):
            self.assertEqual(prepared(kept), kept)


class Heard(Protocol):
    """What the session is given."""

    def __init__(self) -> None:
        self.data = b""

    def dataReceived(self, data: bytes) -> None:
        self.data += data


class Below:
    """A connection that the test speaks over."""

    def __init__(self) -> None:
        transport: Any = StringTransport()
        transport.abortConnection = self.abort
        self.transport = transport
        self.is_aborted = False
        self.protocol: Any = None

    def abort(self) -> None:
        self.is_aborted = True

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        self.protocol = factory.buildProtocol(None)  # type: ignore[arg-type]
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)
        return succeed(self.protocol)

    def heard(self) -> bytes:
        """What was sent since the last look."""
        value: bytes = self.transport.value()
        self.transport.clear()
        return value

    def says(self, data: bytes) -> None:
        """From the server."""
        self.transport.protocol.dataReceived(data)


def salted_now(password: bytes, salt: bytes, iterations: int) -> Deferred[bytes]:
    """On this thread."""
    return succeed(salted_password(password, salt, iterations))


PLAN = LoginPlan(
    settings={"user": "app", "database": "shop"},
    auth="scram-sha-256",
    password=lambda: PASSWORD,
    salted=salted_now,
    nonce=lambda: NONCE,
)


class LoginTests(SynchronousTestCase):
    """With a server that the test plays."""

    def begin(self, **changes: Any) -> None:
        """Connect; the StartupMessage is on its way."""
        below: Any = Below()
        self.below, self.inner = below, Heard()
        factory: Any = OneProtocol(self.inner)
        endpoint = LoginEndpoint(below=below, plan=evolve(PLAN, **changes))
        self.endpoint, self.connecting = endpoint, endpoint.connect(factory)

    def refused(self, reason: str) -> None:
        """The connecting failed so, and the connection is gone."""
        refusal = self.failureResultOf(self.connecting, SvcError).value
        self.assertEqual(refusal.reason, reason, refusal)
        self.assertTrue(self.below.is_aborted)
        self.assertNotIn("pencil", str(refusal))

    def challenge(self, iterations: int = 4096) -> str:
        """Offer SCRAM; the server's first message."""
        self.below.heard()
        self.below.says(message(b"R", OFFER))
        said = self.below.heard()
        self.assertIn(SCRAM.encode() + b"\0", said)
        first = f"r={NONCE}server,s={b64encode(SALT).decode()},i={iterations}"
        self.below.says(message(b"R", (11).to_bytes(4, "big") + first.encode()))
        return first

    def final(self, first: str, password: bytes = PASSWORD) -> bytes:
        """The server's proof that it knows the password."""
        proof = self.below.heard()[5:].decode()
        exchange = f"n=,r={NONCE},{first},{proof.rpartition(',p=')[0]}".encode()
        salted = salted_password(password, SALT, 4096)
        key = hmac.digest(salted, b"Server Key", "sha256")
        signature = b64encode(hmac.digest(key, exchange, "sha256"))
        return message(b"R", (12).to_bytes(4, "big") + b"v=" + signature)

    def test_scram(self) -> None:
        """The session begins after the proof with what the server says to it, but for its key."""
        self.begin()
        started = self.below.heard()
        self.assertEqual(started[4:8], (3 << 16).to_bytes(4, "big"))
        self.assertEqual(started[8:], b"user\0app\0database\0shop\0\0")
        self.below.heard()
        self.below.says(self.final(self.challenge()))
        setting, key = message(b"S", b"a\0b\0"), message(b"K", b"secretky")
        self.below.says(message(b"R", bytes(4)) + setting + key)
        self.assertNoResult(self.connecting)
        self.below.says(READY + message(b"N", b"later\0"))
        self.assertIs(self.successResultOf(self.connecting), self.inner)
        self.assertEqual(
            self.inner.data, message(b"R", bytes(4)) + setting + READY + message(b"N", b"later\0")
        )
        self.below.says(b"more")
        self.assertTrue(self.inner.data.endswith(b"more"))

    def logged_in(self, greeting: bytes = KEY + READY) -> None:
        """The session has begun, and the next connection is another one."""
        self.begin(auth="trust")
        self.below.says(message(b"R", bytes(4)) + greeting)
        self.successResultOf(self.connecting)
        self.assertNotIn(b"secretky", self.inner.data)
        self.below.transport = StringTransport()
        self.below.transport.abortConnection = self.below.abort

    def test_cancel(self) -> None:
        """The server's key goes to the server, over a connection of its own, until it closes."""
        self.logged_in()
        cancelling = Deferred.fromCoroutine(self.endpoint.cancel())
        self.assertEqual(self.below.heard(), bytes([0, 0, 0, 16, 4, 210, 22, 46]) + b"secretky")
        self.assertNoResult(cancelling)
        self.below.transport.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertIsNone(self.successResultOf(cancelling))
        self.assertNotIn("secretky", repr(self.endpoint))

    def test_cancel_in_the_clear(self) -> None:
        """Where the login is over TLS, a server without it does not get the key."""
        self.logged_in()
        self.endpoint.plan = evolve(PLAN, tls=lambda transport: None)
        cancelling = Deferred.fromCoroutine(self.endpoint.cancel())
        self.assertEqual(self.below.heard(), bytes([0, 0, 0, 8, 4, 210, 22, 47]))
        self.below.says(b"N")
        refusal = self.failureResultOf(cancelling, SvcError).value
        self.assertEqual(refusal.reason, "target_untrusted")
        self.assertEqual((self.below.heard(), self.below.is_aborted), (b"", True))

    def test_cancel_without_a_key(self) -> None:
        """A server that gave none, or none of protocol 3.0, is not connected to again."""
        for greeting in (READY, message(b"K", b"secretky-of-3.2") + READY):
            self.logged_in(greeting)
            self.failureResultOf(Deferred.fromCoroutine(self.endpoint.cancel()), SvcError)
            self.assertEqual(self.below.heard(), b"")

    def test_a_server_that_knows_no_password(self) -> None:
        """It is refused by its own proof, or the lack of one."""
        self.begin()
        self.below.says(self.final(self.challenge(), b"other"))
        self.refused("target_untrusted")
        self.begin()
        self.challenge()
        self.below.says(message(b"R", bytes(4)))
        self.refused("target_untrusted")

    def test_no_downgrade(self) -> None:
        """Another method than the configured one is never answered."""
        for asked in (
            bytes(4),
            (3).to_bytes(4, "big"),
            (5).to_bytes(4, "big") + b"salt",
            (7).to_bytes(4, "big"),
            (10).to_bytes(4, "big") + b"SCRAM-SHA-1\0\0",
            (10).to_bytes(4, "big") + b"SCRAM-SHA-256-PLUS\0\0",
        ):
            self.begin()
            self.below.heard()
            self.below.says(message(b"R", asked))
            self.refused("target_untrusted")
            self.assertEqual(self.below.heard(), b"")

    def test_configured_methods(self) -> None:
        """md5, password and trust, where the operator chose them."""
        for auth, asked, answer in (
            ("md5", (5).to_bytes(4, "big") + b"salt", b"md55e7b0a9f"),
            ("password", (3).to_bytes(4, "big"), PASSWORD + b"\0"),
        ):
            self.begin(auth=auth)
            self.below.heard()
            self.below.says(message(b"R", asked))
            said = self.below.heard()
            self.assertEqual(said[:1], b"p")
            self.assertTrue(said[5:].startswith(answer[:3]), said)
            self.below.says(message(b"R", bytes(4)) + READY)
            self.successResultOf(self.connecting)
        self.begin(auth="trust")
        self.below.says(message(b"R", bytes(4)) + READY)
        self.successResultOf(self.connecting)

    def test_reasons(self) -> None:
        """What a server says before the session becomes a word; its own text stays here."""
        for code, reason in (
            ("28P01", "target_login_refused"),
            ("28000", "target_login_refused"),
            ("3D000", "target_no_database"),
            ("53300", "target_busy"),
            ("57P03", "target_busy"),
            ("XX000", "target_refused"),
        ):
            self.begin()
            self.below.says(error(code, "secret host name"))
            self.refused(reason)
        self.begin()
        self.below.says(message(b"E", b"\0"))  # without SQLSTATE (CVE-2026-6666)
        self.refused("target_refused")

    def test_hostile_server(self) -> None:
        """Impossible lengths, endless messages, anything out of order: no session, no memory."""
        for said in (
            b"R\0\0\0\x03",
            b"R\xff\xff\xff\xff",
            message(b"R", b"x" * 70_000),
            message(b"T", b""),
            b"N" + (1 << 20).to_bytes(4, "big"),
        ):
            self.begin()
            self.below.says(said)
            self.failureResultOf(self.connecting, SvcError)
            self.assertTrue(self.below.is_aborted)
        self.begin(auth="trust")
        for _ in range(100):
            if not self.below.is_aborted:
                self.below.says(message(b"N", b"x" * 60_000))
        self.below.says(message(b"R", bytes(4)))
        for _ in range(6):
            if not self.below.is_aborted:
                self.below.says(message(b"S", b"x" * 60_000))
        self.failureResultOf(self.connecting, SvcError)
        self.assertTrue(self.below.is_aborted)

    def test_hands_over_below_tls(self) -> None:
        """The session takes the place of the login, whatever answers for the transport between."""
        for begin in (self.plain, self.wrapped, self.secured):
            transport, inner = begin(), Heard()
            hand_over(transport, inner)
            self.assertIs(inner.transport, transport)
            taking = transport if isinstance(transport, ProtocolWrapper) else transport.protocol
            taking.dataReceived(b"rows")
            self.assertEqual(inner.data, b"rows")

    def plain(self) -> Any:
        """A socket, with the login on it."""
        transport: Any = StringTransport()
        transport.protocol = Protocol()
        return transport

    def wrapped(self) -> Any:
        """What a wrapping endpoint gives the login for a transport."""
        wrapper = ProtocolWrapper(WrappingFactory(Factory()), Protocol())
        wrapper.makeConnection(self.plain())
        return wrapper

    def secured(self) -> Any:
        """A socket on which TLS was begun: its wrapper has every attribute of the socket."""
        transport = self.plain()
        transport.protocol = ProtocolWrapper(WrappingFactory(Factory()), transport.protocol)
        transport.protocol.makeConnection(transport)
        return transport

    def test_lost(self) -> None:
        """A server that goes away is no refusal."""
        self.begin()
        self.below.protocol.connectionLost(Failure(ConnectionResetError()))
        self.failureResultOf(self.connecting, ConnectionResetError)

    def test_tls_first(self) -> None:
        """Where TLS is configured, a server without it hears nothing else from us."""
        self.begin(tls=lambda transport: None)
        self.assertEqual(self.below.heard(), bytes([0, 0, 0, 8, 4, 210, 22, 47]))
        self.below.says(b"N")
        self.refused("target_untrusted")
        self.assertEqual(self.below.heard(), b"")
        self.begin(tls=lambda transport: None)
        self.below.says(b"S" + message(b"R", bytes(4)))
        self.refused("target_untrusted")


class OneProtocol:
    """Builds one protocol."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    def buildProtocol(self, addr: object) -> Protocol:
        return self.protocol
