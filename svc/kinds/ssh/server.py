"""The client's SSH ends here: the person is known already, and is asked for no password or key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from twisted.conch.ssh.transport import (
    DISCONNECT_BY_APPLICATION,
    DISCONNECT_NO_MORE_AUTH_METHODS_AVAILABLE,
)
from twisted.conch.ssh.userauth import (
    MSG_USERAUTH_BANNER,
    MSG_USERAUTH_FAILURE,
    MSG_USERAUTH_SUCCESS,
)
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svc.interfaces.kinds import Use
from svc.kinds.ssh.channels import JoinedChannel
from svc.kinds.ssh.conch import (
    NS,
    QUIET,
    USERAUTH_MESSAGES,
    Key,
    SSHServerTransport,
    SSHService,
    getNS,
)
from svc.kinds.ssh.connection import FlowConnection, no, prohibited, yes
from svc.kinds.ssh.host_key import greeting
from svc.kinds.ssh.link import LEAVE_SECS
from svc.kinds.ssh.recorded.session import RecordedSession
from svc.kinds.ssh.rights import FORWARD_LOCAL, FORWARD_REMOTE, STREAM_LOCAL, SessionRights
from svc.kinds.ssh.session_channel import SessionChannel, target_session
from svc.kinds.ssh.transport import StrictTransport

LOGIN_SECS = 60.0

_MOST_TRIES = 6
_MOST_UNTOLD = 8
_CONNECTION = b"ssh-connection"

_FORWARDS = {b"direct-tcpip": FORWARD_LOCAL, b"direct-streamlocal@openssh.com": STREAM_LOCAL}
_LISTENS = {
    b"tcpip-forward": FORWARD_REMOTE,
    b"cancel-tcpip-forward": FORWARD_REMOTE,
    b"streamlocal-forward@openssh.com": STREAM_LOCAL,
    b"cancel-streamlocal-forward@openssh.com": STREAM_LOCAL,
}


@frozen(kw_only=True)
class ServedSession:
    """What the client's side of one session goes by.

    Attributes:
        rights: Of the session.
        host_key: That the client is shown.
        target: The connection to the target, logged in.
        target_port: Of the target's own sshd, to which nothing is forwarded.
        use: Told what was used, or denied.
        recorded: Records it.
        clock: For the deadline of the login.
    """

    rights: SessionRights
    host_key: Key = field(repr=False)
    target: FlowConnection
    target_port: int
    use: Use
    recorded: RecordedSession
    clock: IReactorTime


class LoginUserAuth(SSHService):  # type: ignore[misc]
    """Lets in the one account of the grant, without any proof: TLS has brought that."""

    name = b"ssh-userauth"
    _log = QUIET
    protocolMessages = USERAUTH_MESSAGES

    def __init__(self, session: ServedSession) -> None:
        self._session = session
        self._tries = 0

    def ssh_USERAUTH_REQUEST(self, packet: bytes) -> None:
        """Called by Conch by its name."""
        user, service, _, _ = getNS(packet, 3)
        transport: Any = self.transport
        allowed = self._session.rights.login_user
        if service == _CONNECTION and user == allowed.encode("ascii"):
            transport.sendPacket(MSG_USERAUTH_SUCCESS, b"")
            transport.setService(PersonConnection(self._session))
            return
        self._tries += 1
        if self._tries == 1:
            text = f"svc: this session is for the account {allowed} and no other\r\n"
            transport.sendPacket(MSG_USERAUTH_BANNER, NS(text.encode("ascii")) + NS(b""))
        if self._tries >= _MOST_TRIES:
            transport.sendDisconnect(
                DISCONNECT_NO_MORE_AUTH_METHODS_AVAILABLE, b"this session is for another account"
            )
            return
        transport.sendPacket(MSG_USERAUTH_FAILURE, NS(b"none") + b"\0")


class PersonConnection(FlowConnection):
    """What the client asks for."""

    def __init__(self, session: ServedSession) -> None:
        super().__init__()
        self._session = session
        self.across = session.target
        self._begins_sessions = True
        self._untold: list[str] = []

    def serviceStarted(self) -> None:
        """Be found by the target's side."""
        transport: Any = self.transport
        self.outflow = transport.outflow
        transport.logged_in()
        target: Any = self._session.target
        target.client = target.across = self

    def opened(self, kind: bytes, data: bytes) -> JoinedChannel:
        """See FlowConnection."""
        session = self._session
        if kind == b"session":
            if not self._begins_sessions:
                raise prohibited("svc: the client has said that it opens no more sessions")
            near = SessionChannel(session.rights, session.use, session.recorded)
            near.notices, self._untold = self._untold, []
            return near.joined_with(target_session(), session.target, b"")
        right = _FORWARDS.get(kind)
        if right is None:
            raise prohibited("svc: there are no channels of this type here")
        if not session.rights.has(right):
            session.use(right, False)
            raise prohibited(session.rights.refusal(right))
        if kind == b"direct-tcpip" and _port(data) == session.target_port:
            # By any name: what a name leads to is known at the target alone.  And by any number of
            # which a target takes the lower half: there are such.
            session.use(right, False)
            raise prohibited("svc: nothing is forwarded to the port of the host's own SSH server")
        session.use(right, True)
        return JoinedChannel(kind).joined_with(JoinedChannel(kind), session.target, data)

    def asked_globally(self, kind: bytes, data: bytes, wants_answer: bool) -> Deferred[bytes]:
        """See FlowConnection."""
        session, right = self._session, _LISTENS.get(kind)
        if kind == b"no-more-sessions@openssh.com":
            self._begins_sessions = False
            return yes()
        if right is None or session.target.transport is None:
            return no()
        if not session.rights.has(right):
            session.use(right, False)
            if len(self._untold) < _MOST_UNTOLD:  # SSH has no words with this answer
                self._untold.append(session.rights.refusal(right))
            return no()
        session.use(right, True)
        session.target.awaited.add(right)
        return session.target.sendGlobalRequest(kind, data, wantReply=True)  # type: ignore[no-any-return]


class ClientTransport(StrictTransport, SSHServerTransport):  # type: ignore[misc]
    """The transport that the client speaks to."""

    version = b"svc"
    comment = b""
    ourVersionString = b"SSH-2.0-svc"

    def __init__(self, session: ServedSession, outflow: Any) -> None:
        self.session = session
        self.outflow = outflow
        self.factory = _Services(session)
        self.supportedPublicKeys = list(session.host_key.supportedSignatureAlgorithms())

    def connectionMade(self) -> None:
        """Name our host key, in a line that comes before SSH's own."""
        transport: Any = self.transport
        self._deadline = self.session.clock.callLater(LOGIN_SECS, self._too_late)
        transport.write(greeting(self.session.host_key))
        super().connectionMade()

    def connectionLost(self, reason: Any = None) -> None:
        """It is over."""
        self.logged_in()
        super().connectionLost(reason)

    def logged_in(self) -> None:
        """It came in time."""
        if self._deadline.active():
            self._deadline.cancel()

    def ssh_DISCONNECT(self, packet: bytes) -> None:
        """Called by Conch by its name.  The client closes the connection, and is waited for.

        If we closed it first, the session would end as if the target had ended it.
        """
        self.logged_in()
        transport: Any = self.transport
        self._deadline = self.session.clock.callLater(LEAVE_SECS, transport.loseConnection)

    def _too_late(self) -> None:
        self.sendDisconnect(
            DISCONNECT_NO_MORE_AUTH_METHODS_AVAILABLE, b"svc: no login came in time"
        )

    def leave(self, text: bytes) -> None:
        """End it, and say why."""
        self.sendDisconnect(DISCONNECT_BY_APPLICATION, text)


class _Services:
    """What Conch asks a factory for."""

    def __init__(self, session: ServedSession) -> None:
        self._session = session
        key = session.host_key
        self.privateKeys = {key.sshType(): key}
        self.publicKeys = {key.sshType(): key.public()}

    def getService(self, transport: Any, name: bytes) -> Callable[[], SSHService] | None:
        """Called by Conch."""
        return (lambda: LoginUserAuth(self._session)) if name == LoginUserAuth.name else None


def _port(data: bytes) -> int:
    return int.from_bytes(getNS(data)[1][:4], "big") & 0xFFFF
