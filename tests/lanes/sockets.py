"""Connected sockets as transports, and what drives them by hand beside a Clock."""

from __future__ import annotations

import select
import socket
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection


class SocketTransport:
    """A TCP connection as a splice takes it over, and the peer's end of it."""

    def __init__(self) -> None:
        ours, self.far = socket.socketpair()
        ours.setblocking(False)
        self.far.setblocking(False)
        self._handle: socket.socket | None = ours
        self.is_aborted = False
        self.is_closed = False

    def getHandle(self) -> socket.socket:
        assert self._handle is not None
        return self._handle

    def stopReading(self) -> None:
        pass

    def stopWriting(self) -> None:
        pass

    def abortConnection(self) -> None:
        self.is_aborted = True
        self._close()

    def connectionLost(self, reason: Any) -> None:
        assert reason.check(ConnectionDone)
        self._close()

    def _close(self) -> None:
        self.is_closed = True
        if self._handle is not None:
            self._handle.close()
        self._handle = None

    def heard(self) -> bytes:
        """What has come at the far end; its end as b"" only."""
        try:
            return self.far.recv(1 << 20)
        except BlockingIOError:
            return b"(nothing)"

    def end(self) -> None:
        """Give up both ends."""
        self._close()
        self.far.close()


class Plain(Connection):
    """Twisted's connection over one end of a pair, and the other end."""

    connected = 1

    def __init__(self, reactor: Any, protocol: Protocol) -> None:
        ours, self.far = socket.socketpair()
        self.far.setblocking(False)
        super().__init__(ours, protocol, reactor)

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Nothing: a socket pair is no TCP."""

    def heard(self) -> bytes:
        """What has come at the far end so far."""
        pieces = []
        try:
            while piece := self.far.recv(1 << 20):
                pieces.append(piece)
        except BlockingIOError:
            pass
        return b"".join(pieces)

    def end(self) -> None:
        self.socket.close()
        self.far.close()


class HandDriven:
    """A reactor for descriptors that acts in :meth:`spin` only; time is the Clock's."""

    def __init__(self, clock: Clock) -> None:
        self.callLater = clock.callLater
        self._readers: set[Any] = set()
        self._writers: set[Any] = set()

    def addReader(self, one: Any) -> None:
        self._readers.add(one)

    def removeReader(self, one: Any) -> None:
        self._readers.discard(one)

    def addWriter(self, one: Any) -> None:
        self._writers.add(one)

    def removeWriter(self, one: Any) -> None:
        self._writers.discard(one)

    @property
    def is_idle(self) -> bool:
        return not (self._readers or self._writers)

    def spin(self, times: int = 8) -> None:
        for _ in range(times):
            readable, writable, _ = select.select(self._readers, self._writers, (), 0)
            for one in readable:
                if one in self._readers:
                    one.doRead()
            for one in writable:
                if one in self._writers:
                    one.doWrite()
