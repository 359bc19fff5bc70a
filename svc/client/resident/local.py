"""Local endpoints that accept only the person's own processes (rule R7).

A connection is held unread from its first moment; only when the kernel has
said that the process at its other end is ours does anything else happen.
Everybody else's is reset.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import (
    IDelayedCall,
    IListeningPort,
    IReactorTime,
    IStreamServerEndpoint,
)
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.errors import SvcError
from svc.interfaces.kinds import ILocalDialogue
from svc.lanes.bulk import BulkWriter
from svc.lanes.relay import Relay, RelaySide
from svc.model.session.ending import SessionOver
from svc.rpc.peer import peer_of

_log = Logger(namespace="svc_client")

LIBPQ_NAME = ".s.PGSQL.5432"
"""What libpq (psql and nearly all drivers of PostgreSQL) looks for in the directory it is given."""

LAST_WORDS_SECS = 5.0
"""How long it may take to read why it has none."""

WhoseTcp = Callable[[tuple[str, int], tuple[str, int]], int | None]
"""``whose(here, peer)``: the uid at the far end of a loopback connection, or None."""

WhoseListener = Callable[[str, int], int | None]
"""``whose(address, port)``: the uid that listens there, or None."""

Begin = Callable[[Relay], object]
"""Takes a relay whose left side is a connection that was let in; must not raise."""


@frozen
class TcpGuard:
    """Lets in connections of one user.

    Attributes:
        whose: None where the platform cannot tell and the person allowed that.
    """

    uid: int
    whose: WhoseTcp | None

    def __call__(self, transport: Any) -> bool:
        """Whether this connection may come in."""
        if self.whose is None:
            return True
        here, peer = transport.getHost(), transport.getPeer()
        try:
            uid = self.whose((here.host, here.port), (peer.host, peer.port))
        except OSError as error:
            _log.error(
                "the kernel did not report which user owns the connection", error=error.strerror
            )
            return False
        if uid != self.uid:
            _log.warn("reset a connection from another user", address=here.host, uid=uid)
        return uid == self.uid


@frozen
class UnixGuard:
    """Likewise, for sockets in the file system."""

    uid: int

    def __call__(self, transport: Any) -> bool:
        """Whether this connection may come in."""
        return peer_of(transport).uid == self.uid


class LocalSide(RelaySide):
    """The side of a relay that a person's tool connected."""

    def __init__(self, relay: Relay, guard: Callable[[Any], bool], begin: Begin) -> None:
        super().__init__(relay, "left")
        self._guard = guard
        self._begin = begin

    def connectionMade(self) -> None:
        """Check the peer before anything is read."""
        super().connectionMade()
        if not self._guard(self.transport):
            self.transport.abortConnection()
            return
        self._let_in()

    def _let_in(self) -> None:
        self._begin(self.relay)


class HeardSide(LocalSide):
    """One whose tool is heard before its session opens, for so long and no longer."""

    FIRST_WORDS_SECS: float
    """How long the tool may take to say what session it wants."""

    def __init__(
        self, relay: Relay, *, guard: Callable[[Any], bool], begin: Begin, clock: IReactorTime
    ) -> None:
        super().__init__(relay, guard, begin)
        self._clock = clock
        self._deadline: IDelayedCall | None = None

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The tool is gone."""
        self.leave_after(None)
        super().connectionLost(reason)

    def leave_after(self, seconds: float | None) -> None:
        """Cut the tool off after a time; None: no longer."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None:
            self._deadline = self._clock.callLater(seconds, self.transport.abortConnection)

    def open(self) -> None:
        """It is known which session the tool wants."""
        self.leave_after(None)
        self.transport.pauseProducing()
        self._begin(self.relay)

    def _let_in(self) -> None:
        self.leave_after(self.FIRST_WORDS_SECS)
        self.transport.resumeProducing()


class SpokenSide(HeardSide):
    """One whose tool speaks of the session with us, before it speaks to the target.

    Attributes:
        dialogue: With this tool.
    """

    FIRST_WORDS_SECS = 15.0

    def __init__(
        self, relay: Relay, *, guard: Callable[[Any], bool], begin: Begin, speaking: Speaking
    ) -> None:
        super().__init__(relay, guard=guard, begin=begin, clock=speaking.clock)
        self.dialogue = speaking.dialogue()
        self._speaking = speaking
        self._is_secured = False
        self._has_said_all = False

    def tell_why(self, over: SessionOver) -> bool:
        """Say why the session was cut; False where no words fit.

        A tool that has closed its half has taken its leave: an error would reach it after that, and
        some (Node.js's ``pg``) take it for a fault of theirs.
        """
        words = b"" if self._has_said_all else self.dialogue.ended(over)
        if words:
            self.last_words(words)
        return bool(words)

    def last_words(self, words: bytes) -> None:
        """Say this and close; whoever does not take it is left after a while."""
        if not self.is_lost:
            self.out.write(words)
            self.close()
            self.leave_after(LAST_WORDS_SECS)

    def dataReceived(self, data: bytes) -> None:
        """Of the dialogue, until it has said what the session is to be."""
        if self._has_begun():
            super().dataReceived(data)
            return
        if self._cancels():
            return
        try:
            answer = self.dialogue.heard(data)
        except SvcError as refusal:
            self.last_words(self.dialogue.refused(refusal))
            return
        if answer:
            self.out.write(answer)
        if self.dialogue.tls and not self._is_secured:
            self._secure()
        if self._cancels():
            self._speaking.cancel(self._cancels())
            self.last_words(b"")
        elif self._has_begun():
            self.open()

    def readConnectionLost(self) -> None:
        """A tool that leaves before it has said anything wants no session."""
        if self._has_begun():
            self._has_said_all = True
            super().readConnectionLost()
        else:
            self.transport.abortConnection()

    def _secure(self) -> None:
        """Speak TLS from here on; what was written before goes out before it."""
        self._is_secured = True
        self.transport.startTLS(self._speaking.tls(self.dialogue.tls))
        self.out = BulkWriter(self.transport)

    def _has_begun(self) -> bool:
        return self.dialogue.parameters is not None

    def _cancels(self) -> bytes:
        return self.dialogue.cancels


@frozen
class Speaking:
    """How connections of a kind that talks first begin.

    Attributes:
        cancel: Cancels in the session of this key, if there is one.
        tls: What a connection's TLS begins with, by what is spoken inside.
    """

    dialogue: Callable[[], ILocalDialogue]
    clock: IReactorTime
    cancel: Callable[[bytes], object]
    tls: Callable[[bytes], object]


class LocalConnections(Factory):
    """Makes the protocol of each local connection."""

    noisy = False

    def __init__(
        self, guard: Callable[[Any], bool], begin: Begin, speaking: Speaking | None = None
    ) -> None:
        self._guard = guard
        self._begin = begin
        self._speaking = speaking

    def buildProtocol(self, addr: object) -> RelaySide:
        """One relay a connection."""
        relay = Relay()
        if self._speaking is None:
            relay.left = LocalSide(relay, self._guard, self._begin)
        else:
            relay.left = SpokenSide(
                relay, guard=self._guard, begin=self._begin, speaking=self._speaking
            )
        return relay.left


@define
class OpenedPort:
    """The result of opening one port: the port, or the reason why it could not be opened."""

    port: IListeningPort | None = None
    number: int = 0
    problem: str = ""


@define
class TcpPorts:
    """Opens loopback ports.

    Attributes:
        endpoint: Makes the endpoint of an address and a port.
    """

    endpoint: Callable[[str, int], IStreamServerEndpoint]
    whose: WhoseListener
    uid: int

    async def open(self, address: str, tries: Iterator[int], factory: Factory) -> OpenedPort:
        """Listen on the first of *tries* that is free.

        A port that another user holds ends the search: nothing is moved to
        where the person does not look for it, beside somebody else's server.
        """
        for number in tries:
            try:
                port = await self.endpoint(address, number).listen(factory)
            except CannotListenError as error:
                problem = self._problem(address, number, error)
                if problem:
                    return OpenedPort(problem=problem)
            else:
                return OpenedPort(port, number)
        return OpenedPort(problem=f"no free port on {address}")

    def _problem(self, address: str, number: int, error: CannotListenError) -> str:
        """Why not to look further; empty to try the next port."""
        why = error.socketError
        code = getattr(why, "errno", None)
        if code == errno.EACCES:
            return (
                f"port {number} requires the privilege to bind low ports; raise "
                "client.native_port_offset (10000 is the default)"
            )
        if code != errno.EADDRINUSE:
            return f"cannot listen on {address}:{number}: {why}"
        holder = self.whose(address, number)
        if holder is None or holder == self.uid:
            return ""
        return f"port {number} of {address} is held by another user (uid {holder})"


@define
class SocketDirectory:
    """The private directory of our unix sockets; paths in it may be of any length.

    Call :meth:`claim` before the first use, by the one process that may.
    """

    path: Path
    uid: int
    _descriptor: int | None = field(default=None, init=False)

    def claim(self) -> None:
        """Make it private and empty.  Blocks for the disk.

        Raises:
            OSError: it is not ours to make so.
        """
        self.path.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags)
        if os.fstat(self._descriptor).st_uid != self.uid:
            raise PermissionError(errno.EPERM, "belongs to another user", str(self.path))
        os.fchmod(self._descriptor, 0o700)
        for name in os.listdir(self._descriptor):
            if name.endswith(".sock"):
                os.unlink(name, dir_fd=self._descriptor)
            else:
                self.hide_from_libpq(name)

    def address(self, name: str) -> str:
        """Where to bind a socket of this name: short, whatever the directory's path."""
        assert self._descriptor is not None
        return f"/proc/self/fd/{self._descriptor}/{name}"

    def show_to_libpq(self, name: str) -> Path:
        """A directory in which libpq, which asks for one, finds the socket of this name.

        Raises:
            OSError: it cannot be made.
        """
        assert self._descriptor is not None
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self._descriptor)
        with suppress(FileExistsError):
            os.symlink(f"../{name}.sock", f"{name}/{LIBPQ_NAME}", dir_fd=self._descriptor)
        return self.path / name

    def hide_from_libpq(self, name: str) -> None:
        """Take that directory away; anything else of this name stays as it is."""
        assert self._descriptor is not None
        with suppress(OSError):
            if os.readlink(f"{name}/{LIBPQ_NAME}", dir_fd=self._descriptor) == f"../{name}.sock":
                os.unlink(f"{name}/{LIBPQ_NAME}", dir_fd=self._descriptor)
                os.rmdir(name, dir_fd=self._descriptor)

    def release(self) -> None:
        """Forget the directory, after every port in it was closed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


async def close_port(port: IListeningPort | None) -> None:
    """Accept no more there."""
    if port is not None:
        closing: Awaitable[object] = maybeDeferred(port.stopListening)
        await closing
