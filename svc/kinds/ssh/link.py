"""Two protocols in one process, joined as by a connection: a session's bytes and the SSH server."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IReactorTime, ITransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svc.errors import Fault, SvcError
from svc.model.session.ending import CANCELLED

_log = Logger(namespace="svc_connector")

LEAVE_SECS = 5.0
"""How long a client may take to close the connection once it has said that it leaves, or to read
what is left once it is told to."""

MUCH = 1 << 16
"""Once so much waits for the session, its producer is paused."""


@implementer(ITransport)
class LinkedSession:
    """The transport of the session's protocol; what it writes the server hears at once.

    The windows of SSH bound what channels bring this way; what else comes is held back by the
    link's :meth:`GateLink.pauseProducing`.
    """

    disconnecting = False

    def __init__(self, link: GateLink) -> None:
        self._link = link

    def write(self, data: bytes) -> None:
        """See ITransport."""
        self._link.heard(data)

    def writeSequence(self, data: Any) -> None:
        """See ITransport."""
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        """See ITransport: the client has closed the connection."""
        self._link.closed_by_client()

    def abortConnection(self) -> None:
        """See ITCPTransport."""
        self._link.end(ConnectionAborted())

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """See IConsumer."""
        self._link.comes_from = producer

    def unregisterProducer(self) -> None:
        """See IConsumer."""
        self._link.comes_from = None

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        self._link.pause()

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        self._link.resume()

    def stopProducing(self) -> None:
        """See IPushProducer."""
        self.loseConnection()

    def getPeer(self) -> Any:
        """See ITransport."""
        return self._link.address

    def getHost(self) -> Any:
        """See ITransport."""
        return self._link.address


@implementer(ITransport)
class LinkedServer:
    """The transport of the SSH server."""

    disconnecting = False

    def __init__(self, link: GateLink) -> None:
        self._link = link

    def write(self, data: bytes) -> None:
        """See ITransport."""
        self._link.say(data)

    def writeSequence(self, data: Any) -> None:
        """See ITransport."""
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        """See ITransport."""
        self.disconnecting = True
        self._link.end_once_said()

    def getPeer(self) -> Any:
        """See ITransport."""
        return self._link.address

    def getHost(self) -> Any:
        """See ITransport."""
        return self._link.address

    def logPrefix(self) -> str:
        """See ILoggingContext."""
        return "ssh"


class GateLink:
    """Joins them.

    Args:
        server: An SSH server's transport protocol; its ``is_leaving`` is whether a DISCONNECT of
            either side has passed.
        outflow: Paused while the session takes no more.
        address: Told as that of either end.
        clock: For the deadline of a client that is told to leave.
        over: Called once, when it has ended.

    Attributes:
        comes_from: The push producer of what the session hears, if there is one.
        fault: Why the server ends it.
    """

    comes_from: Any = None

    def __init__(
        self,
        *,
        server: Any,
        outflow: Any,
        address: Any,
        clock: IReactorTime,
        over: Callable[[], object],
    ) -> None:
        self.address = address
        self._clock = clock
        self._server = server
        self._outflow = outflow
        self._over = over
        self._session: Any = None
        self._waiting: deque[bytes] = deque()
        self._heard: deque[bytes] = deque()
        self._is_hearing = True
        self._size = 0
        self._is_paused = False
        self._is_ending = False
        self._is_over = False
        self._deadline: IDelayedCall | None = None
        self.fault: Exception = ConnectionDone()

    def join(self, session: Any) -> None:
        """Connect both."""
        self._session = session
        session.makeConnection(LinkedSession(self))
        self._server.makeConnection(LinkedServer(self))
        self._is_hearing = False
        self.heard(b"")

    def heard(self, data: bytes) -> None:
        """Of the session; what SSH cannot read ends it.

        What comes while the server is still at something, since the session answered at once, it
        hears next.  Once either side has said that it leaves, nothing more is kept.
        """
        if self._is_over or self._is_ending or self._server.is_leaving:
            return
        self._heard.append(data)
        if self._is_hearing:
            return
        self._is_hearing = True
        try:
            while self._heard and not self._is_over and not self._is_ending:
                self._server.dataReceived(self._heard.popleft())
        except Exception as error:
            _log.warn("a client's SSH cannot be read: {kind}", kind=type(error).__name__)
            _log.debug("it was read here: {trace}", trace=Failure().getTraceback())
            self.end(ConnectionAborted())
        finally:
            self._is_hearing = False

    def say(self, data: bytes) -> None:
        """Of the server; nothing, once it leaves: a slow reader would hear more and more."""
        if self._is_over or self._is_ending:
            return
        if not self._is_paused and not self._waiting:
            self._session.dataReceived(data)
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._size > MUCH:
            self._outflow.pauseProducing()

    def pause(self) -> None:
        """The session takes no more now."""
        self._is_paused = True

    def resume(self) -> None:
        """It takes more."""
        self._is_paused = False
        while self._waiting and not self._is_paused and not self._is_over:
            data = self._waiting.popleft()
            self._size -= len(data)
            self._session.dataReceived(data)
        if not self._waiting and not self._is_over:
            self._outflow.resumeProducing()
            if self._is_ending:
                self.end(self.fault)

    def pauseProducing(self) -> None:
        """Read no more of the client; see :data:`svc.kinds.ssh.connection.FAR`."""
        if self.comes_from is not None:
            self.comes_from.pauseProducing()

    def resumeProducing(self) -> None:
        """Go on."""
        if self.comes_from is not None:
            self.comes_from.resumeProducing()

    def closed_by_client(self) -> None:
        """End it: in order after a DISCONNECT, for a program that was killed says none."""
        if self._server.is_leaving:
            self.end(self.fault)
        else:
            text = "the client closed the connection without a DISCONNECT"
            self.end(SvcError(text, reason=CANCELLED, fault=Fault.CANCELLED))

    def end_once_said(self) -> None:
        """End it when all that was said has gone, or :data:`LEAVE_SECS` have."""
        self._is_ending = True
        if not self._waiting:
            self.end(self.fault)
        elif self._deadline is None:
            self._deadline = self._clock.callLater(LEAVE_SECS, lambda: self.end(self.fault))

    def end(self, reason: Exception) -> None:
        """End it for both."""
        if self._is_over:
            return
        self._is_over = True
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._waiting.clear()
        failure = Failure(reason)
        try:
            self._server.connectionLost(failure)
        finally:
            self._outflow.stopProducing()
            self._over()
            self._session.connectionLost(failure)
