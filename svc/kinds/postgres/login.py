"""The Connector logs in at a PostgreSQL server, then hands the connection to the session.

The role, the database and the settings are the Connector's own words; the credential is its own.
What the server says to the session begins after its proof: AuthenticationOk, its settings and
ReadyForQuery.  Its cancel key stays here, and is told to nobody but the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import md5
from typing import Any

from attrs import define, field, frozen
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.policies import ProtocolWrapper
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.kinds import ICancellingEndpoint
from svc.kinds.postgres.messages import HEAD, fields_of, message, size_of, startup_message
from svc.kinds.postgres.scram import SCRAM, SCRAM_PLUS, ScramClient
from svc.runtime.dial_failure import dial_failure

LONGEST = 64 * 1024
"""Of a message before the login is over."""

MOST_HELD = 256 * 1024
"""Of all that the server says before the session takes over."""

_SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
_CANCEL_REQUEST = (16).to_bytes(4, "big") + (80877102).to_bytes(4, "big")
_KEY_BYTES = 8

AUTH_METHODS = ("scram-sha-256", "md5", "password", "trust")
"""The names are those of ``pg_hba.conf``."""

Salted = Callable[[bytes, bytes, int], Awaitable[bytes]]
"""``salted(password, salt, iterations)``: computed away from the reactor."""


@frozen(kw_only=True)
class LoginPlan:
    """How to log in.

    Attributes:
        settings: Of the StartupMessage, the role and the database among them.
        auth: The one method that is taken.
        password: Reads it; raises SvcError.
        tls: Secures a transport; a server that does not prove itself loses the connection.
            None: it is not encrypted.
        nonce: For one exchange.
    """

    settings: Mapping[str, str]
    auth: str
    password: Callable[[], bytes]
    salted: Salted
    nonce: Callable[[], str]
    tls: Callable[[Any], None] | None = None


@implementer(ICancellingEndpoint)
@define(kw_only=True, eq=False)
class LoginEndpoint:
    """Connects once the server has let us in."""

    below: IStreamClientEndpoint
    plan: LoginPlan
    _key: bytes = field(default=b"", init=False, repr=False)

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def cancel(self) -> None:
        """See ICancellingEndpoint.  The key is sent as secured as the login was."""
        if not self._key:
            raise SvcError("the target gave no key to cancel with", reason="target_refused")
        talk = ServerTalk()
        await self.below.connect(Factory.forProtocol(lambda: talk))
        try:
            await talk.secured(self.plan.tls)
            talk.transport.write(_CANCEL_REQUEST + self._key)
            await talk.closed()
        finally:
            talk.transport.abortConnection()

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        talk = ServerTalk()
        await self.below.connect(Factory.forProtocol(lambda: talk))
        transport, login = talk.transport, Login(talk, self.plan)
        try:
            first = await login.run()
            self._key = login.key
            protocol: Any = factory.buildProtocol(transport.getPeer())
            hand_over(transport, protocol)
        except BaseException:
            transport.abortConnection()
            raise
        protocol.dataReceived(first + talk.rest)
        return protocol  # type: ignore[no-any-return]


def hand_over(transport: Any, protocol: Any) -> None:
    """Give a connection another protocol, over whatever stands between (the dial's wrapper, TLS).

    Nothing of that reads the bytes once it has connected.
    """
    tls = getattr(transport, "protocol", None)
    if isinstance(transport, ProtocolWrapper):
        transport.wrappedProtocol = protocol
    elif isinstance(tls, ProtocolWrapper):  # begun on the transport itself
        tls.wrappedProtocol = protocol
    else:
        transport.protocol = protocol
    protocol.makeConnection(transport)


class ServerTalk(Protocol):
    """Messages of a server, one by one."""

    transport: Any

    def __init__(self) -> None:
        self.rest = b""
        self._waiting: Deferred[None] | None = None
        self._lost: Failure | None = None
        self._is_secured = False

    async def byte(self) -> bytes:
        """The answer to a request for TLS: one byte, and nothing behind it."""
        while not self.rest:
            await self._more()
        if len(self.rest) > 1:
            # It came before there was TLS, and would be taken for what TLS protects.
            raise SvcError("the target says more than it was asked", reason="target_untrusted")
        said, self.rest = self.rest, b""
        return said

    async def message(self) -> tuple[bytes, bytes]:
        """Kind and body of the next message."""
        while len(self.rest) < HEAD or len(self.rest) < self._size():
            await self._more()
        size = self._size()
        whole, self.rest = self.rest[:size], self.rest[size:]
        return whole[:1], whole[HEAD:]

    def _size(self) -> int:
        size = size_of(self.rest)
        if size > LONGEST:
            raise Malformed("the target's message before the session is too long")
        return size

    async def _more(self) -> None:
        if self._lost is not None and self._lost.value is not None:
            why = self._lost.value
            if self._is_secured and not isinstance(why, ConnectionDone | ConnectionLost):
                said = f"the target's certificate: {dial_failure(why)}"
                raise SvcError(said, reason="target_untrusted") from why
            raise why
        self._waiting = Deferred()
        try:
            await self._waiting
        finally:
            self._waiting = None

    async def secured(self, secure: Callable[[Any], None] | None) -> None:
        """Speak TLS from here on, unless there is none to be.

        Raises:
            SvcError: the server does not.
        """
        if secure is None:
            return
        self.transport.write(_SSL_REQUEST)
        if await self.byte() != b"S":
            raise SvcError("the target does not speak TLS", reason="target_untrusted")
        self._is_secured = True
        secure(self.transport)

    async def closed(self) -> None:
        """Wait until the server has closed the connection."""
        try:
            while True:
                await self._more()
        except (ConnectionDone, ConnectionLost):
            return

    def dataReceived(self, data: bytes) -> None:
        self.rest += data
        if len(self.rest) > MOST_HELD:
            self.transport.abortConnection()
        self._wake()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._lost = reason
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.called:
            self._waiting.callback(None)


@define
class Login:
    """One login.

    Attributes:
        key: What the server takes a request to cancel with; empty: none.
    """

    _talk: ServerTalk
    _plan: LoginPlan
    key: bytes = field(default=b"", init=False, repr=False)

    async def run(self) -> bytes:
        """Log in; what the server said to the session, up to its first ReadyForQuery."""
        await self._talk.secured(self._plan.tls)
        self._talk.transport.write(startup_message(self._plan.settings))
        await self._authenticate()
        said = [message(b"R", bytes(4))]
        while True:
            kind, body = await self._next()
            if kind in (b"S", b"N"):
                said.append(message(kind, body))
            elif kind == b"Z":
                return b"".join([*said, message(kind, body)])
            elif kind == b"K":
                self.key = body if len(body) == _KEY_BYTES else b""
            else:
                raise Malformed("the target begins the session with an unknown message")
            if sum(map(len, said)) > MOST_HELD:
                raise Malformed("the target says too much before the session")

    async def _next(self) -> tuple[bytes, bytes]:
        """The next message; an error is raised as what it means to a person."""
        kind, body = await self._talk.message()
        if kind == b"E":
            raise refusal(body)
        return kind, body

    async def _authenticate(self) -> None:
        """Prove who we are in the one way that is configured, and in no other."""
        asked, data = await self._asked()
        auth = self._plan.auth
        if asked == 10 and auth == "scram-sha-256":
            await self._scram(data)
        elif asked == 5 and auth == "md5" and len(data) == 4:
            self._answer(self._md5(data) + b"\0")
        elif asked == 3 and auth == "password":
            self._answer(self._plan.password() + b"\0")
        elif asked == 0 and auth == "trust":
            return
        else:
            raise SvcError(
                f"the target wants another proof than {auth}, which is configured",
                reason="target_untrusted",
            )
        if (await self._asked())[0] != 0:
            raise SvcError("the target asks for a second proof", reason="target_untrusted")

    async def _asked(self) -> tuple[int, bytes]:
        while True:
            kind, body = await self._next()
            if kind == b"R" and len(body) >= 4:
                return int.from_bytes(body[:4], "big"), body[4:]
            if kind not in (b"N", b"v"):
                raise Malformed("the target answers a StartupMessage with something else")

    def _answer(self, data: bytes) -> None:
        self._talk.transport.write(message(b"p", data))

    def _md5(self, salt: bytes) -> bytes:
        user = self._plan.settings["user"].encode()
        inner = md5(self._plan.password() + user, usedforsecurity=False).hexdigest()
        outer = md5(inner.encode() + salt, usedforsecurity=False).hexdigest()
        return b"md5" + outer.encode()

    async def _scram(self, data: bytes) -> None:
        offered = [one.decode("ascii", "replace") for one in data.split(b"\0") if one]
        end_point = end_point_of(self._talk.transport)
        is_plus = SCRAM_PLUS in offered and end_point is not None
        name = SCRAM_PLUS if is_plus else SCRAM
        if name not in offered:
            raise SvcError("the target offers no SCRAM-SHA-256", reason="target_untrusted")
        client = ScramClient(
            nonce=self._plan.nonce(),
            binding=end_point if is_plus else None,
            could_bind=end_point is not None,
        )
        first = client.first()
        self._answer(name.encode() + b"\0" + len(first).to_bytes(4, "big") + first)
        asked, challenge = await self._asked()
        if asked != 11:
            raise SvcError("the target breaks SCRAM off", reason="target_untrusted")
        client.challenged(challenge)
        salted = await self._plan.salted(self._plan.password(), client.salt, client.iterations)
        self._answer(client.proved(salted))
        asked, final = await self._asked()
        if asked != 12:
            raise SvcError("the target does not prove itself", reason="target_untrusted")
        client.verify(final)


def end_point_of(transport: Any) -> bytes | None:
    """The channel binding of TLS to this server; None without TLS, or for its certificate."""
    certificate = getattr(transport, "getPeerCertificate", lambda: None)()
    if certificate is None:
        return None
    return end_point(certificate.to_cryptography())


def end_point(certificate: Certificate) -> bytes | None:
    """``tls-server-end-point`` (RFC 5929); None where the signature names no hash."""
    found = certificate.signature_hash_algorithm
    if found is None:
        return None
    chosen = SHA256() if found.name in ("md5", "sha1") else found
    digest = Hash(chosen)
    digest.update(_der(certificate))
    return digest.finalize()


def _der(certificate: Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


_REASONS: Mapping[bytes, tuple[str, str]] = {
    b"28P01": ("target_login_refused", "the target did not accept the password of the role"),
    b"28000": ("target_login_refused", "the target did not accept the role"),
    b"3D000": ("target_no_database", "the target has no such database"),
    b"53300": ("target_busy", "the target takes no more connections"),
    b"57P03": ("target_busy", "the target is starting up or shutting down"),
}


def refusal(body: bytes) -> SvcError:
    """A server's ErrorResponse before the session, in our words: its own text stays here."""
    code = fields_of(body).get(b"C", b"")
    reason, text = _REASONS.get(code, ("target_refused", "the target refused the session"))
    shown = code.decode("ascii", "replace") if len(code) == 5 and code.isalnum() else "unknown"
    return SvcError(f"{text} (SQLSTATE {shown})", reason=reason)
