"""A client, the gate and a host in one process, with the gate's two connections in memory."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.conch.avatar import ConchUser
from twisted.conch.checkers import InMemorySSHKeyDB, SSHPublicKeyChecker
from twisted.conch.error import ConchError
from twisted.conch.interfaces import IConchUser
from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.common import NS, getNS
from twisted.conch.ssh.connection import OPEN_RESOURCE_SHORTAGE, SSHConnection
from twisted.conch.ssh.factory import SSHFactory
from twisted.conch.ssh.keys import Key
from twisted.conch.ssh.transport import SSHClientTransport, SSHServerTransport
from twisted.conch.ssh.userauth import SSHUserAuthClient, SSHUserAuthServer
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, IOPump, connect
from zope.interface import implementer

from svc.kinds.ssh.gate import GateEndpoint
from svc.kinds.ssh.login import TargetLogin
from svc.kinds.ssh.recorded.session import RecordedSession, RecordMode
from svc.kinds.ssh.rights import ACTIONS, SessionRights
from svc.kinds.ssh.transport import StrictTransport
from tests.support.recording import MemoryRecorder

USER, PORT = "ada", 2222
ALL = frozenset(ACTIONS)


def new_key() -> Any:
    """A key pair."""
    return Key(Ed25519PrivateKey.generate())


class HostSession(SSHChannel):
    """Says what it was asked, and goes as it is told to."""

    conn: Any

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.asked: list[tuple[bytes, bytes]] = []
        self.came = b""

    def requestReceived(self, requestType: bytes, data: bytes) -> bool:
        self.asked.append((requestType, data))
        return True

    def dataReceived(self, data: bytes) -> None:
        self.came += data

    def eofReceived(self) -> None:
        self.came += b"<end>"

    def closeReceived(self) -> None:
        self.came += b"<closed>"  # as sshd, which closes when the command has ended

    def leave(self, status: int) -> None:
        """As a command that ends."""
        self.conn.sendRequest(self, b"exit-status", status.to_bytes(4, "big"))
        self.conn.sendEOF(self)
        self.loseConnection()


class HostUser(ConchUser):
    """Whoever was let in."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Any] = []
        self.is_full = False

    def lookupChannel(self, channelType: bytes, window: int, most: int, data: bytes) -> Any:
        if self.is_full:
            raise ConchError("no more sessions", OPEN_RESOURCE_SHORTAGE)
        made = HostSession(remoteWindow=window, remoteMaxPacket=most, data=data, avatar=self)
        made.name = channelType
        self.opened.append(made)
        return made


@implementer(IRealm)
class _Realm:
    def __init__(self) -> None:
        self.users: list[HostUser] = []

    def requestAvatar(self, avatarId: Any, mind: Any, *interfaces: Any) -> Any:
        self.users.append(HostUser())
        return IConchUser, self.users[-1], lambda: None


class ClientChannel(SSHChannel):
    """What a client sees of a channel."""

    conn: Any

    def __init__(self, name: bytes = b"session", **fields: Any) -> None:
        super().__init__(**fields)
        self.name = name
        self.said, self.errors, self.status = b"", b"", -1
        self.failure: tuple[Any, ...] = ()
        self.is_open = self.is_closed = False

    def channelOpen(self, specificData: bytes) -> None:
        self.is_open = True

    def openFailed(self, reason: Any) -> None:
        self.failure = reason.args if isinstance(reason, ConchError) else (reason,)

    def dataReceived(self, data: bytes) -> None:
        self.said += data

    def extReceived(self, dataType: int, data: bytes) -> None:
        self.errors += data

    def request_exit_status(self, data: bytes) -> int:
        self.status = int.from_bytes(data, "big")
        return 1

    def closed(self) -> None:
        self.is_closed = True


class Client(SSHClientTransport):
    """A person's ssh; it takes any host key, and keeps it."""

    def __init__(self, user: bytes) -> None:
        self.user = user
        self.shown = b""
        self.connection = SSHConnection()
        self.errors: list[tuple[int, bytes]] = []
        self.banner = b""

    def verifyHostKey(self, hostKey: bytes, fingerprint: bytes) -> Deferred[bool]:
        self.shown = hostKey
        return succeed(True)

    def connectionSecure(self) -> None:
        self.requestService(_ClientAuth(self.user, self.connection))

    def receiveError(self, reasonCode: int, description: bytes) -> None:
        self.errors.append((reasonCode, description))


class StrictClient(StrictTransport, Client):  # type: ignore[misc]
    """One with strict key exchange."""


class _ClientAuth(SSHUserAuthClient):
    transport: Any

    def ssh_USERAUTH_BANNER(self, packet: bytes) -> None:
        self.transport.banner = getNS(packet)[0]

    def getPublicKey(self) -> None:
        return None

    def getPassword(self, prompt: Any = None) -> None:
        return None


@implementer(IStreamClientEndpoint)
@define
class _Below:
    """Connects to the host, in memory."""

    host: Any
    pump: IOPump | None = None

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        protocol = protocolFactory.buildProtocol(None)
        server = self.host.buildProtocol(None)
        self.pump = connect(
            server, FakeTransport(server, True), protocol, FakeTransport(protocol, False)
        )
        return succeed(protocol)


class Session(Protocol):
    """A session's bytes, which reach the client when they are passed on and not before."""

    transport: Any

    def __init__(self, client: Any) -> None:
        self.client = client
        self.wire = StringTransport()
        self.came = b""
        self.is_over = False
        self.fault: BaseException | None = None

    def connectionMade(self) -> None:
        self.client.makeConnection(self.wire)

    def dataReceived(self, data: bytes) -> None:
        self.came += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.is_over, self.fault = True, reason.value

    def flush(self) -> bool:
        """Pass on what there is; whether there was anything."""
        came, self.came = self.came, b""
        said = self.wire.value()
        self.wire.clear()
        if came:
            self.client.dataReceived(came)
        if said and not self.is_over:
            self.transport.write(said)
        return bool(came or said)


@define(eq=False, slots=False)
class Scene:
    """All of it; call :meth:`begin` first."""

    rights: frozenset[str] = ALL
    user: str = USER
    client_type: Any = StrictClient
    key: Any = field(factory=new_key)
    known_key: Any = None
    host_key: Any = field(factory=new_key)
    shown_key: Any = None
    gate_key: Any = field(factory=new_key)
    used: list[str] = field(factory=list)
    clock: Clock = field(factory=Clock)
    endpoint: Any = None
    recorder: MemoryRecorder = field(factory=MemoryRecorder)
    mode: RecordMode = RecordMode.REQUIRED
    records_input: bool = False

    def begin(self) -> Any:
        """Connect; the client, or the failure."""
        realm = self.realm = _Realm()
        allowed = InMemorySSHKeyDB({USER.encode(): [(self.known_key or self.key).public()]})
        host: Any = SSHFactory()
        host.protocol = SSHServerTransport
        shown = self.shown_key or self.host_key
        host.publicKeys = {shown.sshType(): shown.public()}
        host.privateKeys = {shown.sshType(): shown}
        host.services = {b"ssh-userauth": SSHUserAuthServer, b"ssh-connection": SSHConnection}
        host.primes = None
        host.portal = Portal(realm, [SSHPublicKeyChecker(allowed)])
        self.below = _Below(host)
        client = self.client = self.client_type(self.user.encode())
        endpoint = self.endpoint = GateEndpoint(
            below=self.below,
            login=lambda: TargetLogin(user=USER, key=self.key, host_keys=(self.host_key.public(),)),
            rights=SessionRights(USER, self.rights, "d" * 32),
            host_key=self.gate_key,
            target_port=PORT,
            use=lambda right, is_allowed: self.used.append(
                right if is_allowed else f"denied {right}"
            ),
            recorded=RecordedSession(
                recorder=self.recorder,
                mode=self.mode,
                title="ssh",
                records_input=self.records_input,
                use=lambda right, is_allowed: self.used.append(right),
                clock=self.clock,
            ),
            clock=self.clock,
        )
        got: list[Any] = []
        self.session = Session(client)
        endpoint.connect(Factory.forProtocol(lambda: self.session)).addBoth(got.append)
        self.flush()
        return got[0] if got else None

    def flush(self) -> None:
        """Until nothing more passes."""
        while True:
            passed = False
            while self.below.pump is not None and self.below.pump.pump():
                passed = True
            if not self.session.flush() and not passed:
                return

    @property
    def gate(self) -> Any:
        """The server that the client speaks to."""
        return self.session.transport._link._server

    @property
    def host_channels(self) -> list[HostSession]:
        """What was opened at the host."""
        return [one for user in self.realm.users for one in user.opened]

    def open(self, channel: ClientChannel, data: bytes = b"") -> ClientChannel:
        """A channel of the client's."""
        self.client.connection.openChannel(channel, data)
        self.flush()
        return channel

    def ask(self, channel: ClientChannel, kind: bytes, data: bytes = b"") -> list[bool]:
        """A request in it, and the answer."""
        got: list[bool] = []
        asked = self.client.connection.sendRequest(channel, kind, data, wantReply=True)
        asked.addCallbacks(lambda _: got.append(True), lambda _: got.append(False))
        self.flush()
        return got

    def run(self, command: bytes) -> ClientChannel:
        """A channel with a command."""
        channel = self.open(ClientChannel())
        self.ask(channel, b"exec", NS(command))
        return channel
