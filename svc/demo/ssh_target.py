"""An SSH server that lets everybody in and runs nothing: a line, and the end.

It proves that a stock ``ssh`` reaches a host through the gateway.  It asks for
no password because the gateway has decided already, and it has no shell, no
subsystem, no forwarding and no file behind it.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.conch.avatar import ConchUser
from twisted.conch.interfaces import IConchUser
from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.connection import SSHConnection
from twisted.conch.ssh.factory import SSHFactory
from twisted.conch.ssh.keys import Key
from twisted.conch.ssh.userauth import SSHUserAuthServer
from twisted.cred.checkers import AllowAnonymousAccess
from twisted.cred.credentials import Anonymous, IAnonymous
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

_LINE = b"svc demo: you came through the gateway; this server runs no command.\r\n"
_RUNS_NOTHING = 126


class OneLine(SSHChannel):
    """A session of one line."""

    name = b"session"

    def request_pty_req(self, data: bytes) -> int:
        """A terminal is fine; there is nothing to draw on it."""
        return 1

    def request_shell(self, data: bytes) -> int:
        """The line, and a good end."""
        return self._report(0)

    def request_exec(self, data: bytes) -> int:
        """The line, and the status of a command that could not be run."""
        return self._report(_RUNS_NOTHING)

    def _report(self, status: int) -> int:
        # After the answer to the request, which goes out when we return.
        visitor: Any = self.avatar
        visitor.clock.callLater(0, self._end, status)
        return 1

    def _end(self, status: int) -> None:
        if self.localClosed:
            return
        channel: Any = self
        channel.write(_LINE)
        channel.conn.sendRequest(channel, b"exit-status", status.to_bytes(4, "big"))
        channel.conn.sendEOF(channel)
        channel.loseConnection()


class Visitor(ConchUser):
    """Whoever connects."""

    def __init__(self, clock: IReactorTime) -> None:
        ConchUser.__init__(self)
        self.clock = clock
        self.channelLookup[b"session"] = OneLine


@implementer(IRealm)
class _Realm:
    """Everybody is a visitor."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock

    def requestAvatar(self, avatarId: Any, mind: Any, *interfaces: Any) -> Any:
        """Called by the portal."""
        return IConchUser, Visitor(self._clock), lambda: None


class _AnonymousAuth(SSHUserAuthServer):
    """Takes the method ``none``."""

    interfaceToMethod = {IAnonymous: b"none"}

    def auth_none(self, packet: bytes) -> Deferred[Any]:
        """Called by Conch by its name."""
        entered: Deferred[Any] = self.portal.login(Anonymous(), None, IConchUser)
        return entered


def ssh_factory(clock: IReactorTime) -> Any:
    """A server with a host key of its own, made now and kept nowhere."""
    key = Key(Ed25519PrivateKey.generate())
    factory: Any = SSHFactory()
    factory.noisy = False
    factory.services = {b"ssh-userauth": _AnonymousAuth, b"ssh-connection": SSHConnection}
    factory.publicKeys = {b"ssh-ed25519": key.public()}
    factory.privateKeys = {b"ssh-ed25519": key}
    factory.portal = Portal(_Realm(clock), [AllowAnonymousAccess()])
    return factory
