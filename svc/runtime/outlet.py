"""Output to a transport: sends at once as much as it accepts, and the rest in its turn.

A reactor's transport puts what it is given aside and asks the kernel twice about it (watch for
room, watch no more), although there nearly always is room.  So as long as nothing waits, bytes go
out in the same turn; what the kernel does not take waits in the transport, and whoever produces
it is paused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IPullProducer, IPushProducer, ISSLTransport
from twisted.internet.tcp import Connection
from zope.interface import implementer

FULL_BYTES = 64 * 1024
"""Waiting bytes from which on the producer is paused, as a reactor's transport has it: so no more
waits than this and one piece."""

Send = Callable[[bytes], Any]
"""Gives the kernel what it takes now, and returns how many bytes; where it takes none,
raises OSError or returns no number."""


def is_socket(transport: Any) -> bool:
    """Whether its bytes are those on the wire: Twisted's socket, and no TLS begun on it."""
    return isinstance(transport, Connection) and not ISSLTransport.providedBy(transport)


def sending(transport: Any) -> Send | None:
    """What sends on its socket at once; None where it has no such thing.

    The socket itself is asked: Twisted's own way there costs more than the kernel's.  One that was
    closed refuses, whoever has its number now.
    """
    if is_socket(transport):
        return transport.socket.send  # type: ignore[no-any-return]
    return getattr(transport, "writeSomeData", None)


def end_writing(transport: Any) -> None:
    """End the writing half of a socket in which nothing waits, as Twisted does a turn later.

    Twisted would watch the socket until it has room, send nothing, and watch it no more.
    """
    if transport.connected:
        transport._writeDisconnecting = transport._writeDisconnected = True
        transport._closeWriteConnection()


@implementer(IPushProducer, IPullProducer)
class Outlet:
    """The only writer of *transport*: what an outlet of any kind is built on.

    Registered there as a producer that is asked for more whenever nothing waits: that is how it
    knows.

    Attributes:
        producer: Whoever writes here, if he is to be paused.
    """

    def __init__(self, transport: Any, send: Send | None) -> None:
        self.producer: Any = None
        self._transport = transport
        self._send = send
        # What may still wait: the transport says when all has gone, and nothing before.
        self._waiting = 0
        self._is_full = False

    # -- told by the transport

    def pauseProducing(self) -> None:
        """It is full."""
        if not self._is_full:
            self._is_full = True
            if self.producer is not None:
                self.producer.pauseProducing()

    def resumeProducing(self) -> None:
        """Nothing waits any more."""
        self._waiting = 0
        if self._is_full:
            self._is_full = False
            if self.producer is not None:
                self.producer.resumeProducing()

    def stopProducing(self) -> None:
        """It is going."""
        producer = self.producer
        self.close()
        if producer is not None:
            producer.stopProducing()

    def close(self) -> None:
        """The transport is gone, or about to be.  Idempotent."""
        self.producer = None

    # -- for the kinds of outlet

    def _put(self, data: bytes) -> None:
        """Send or keep; pauses the producer where too much waits.  Never blocks."""
        send = self._send
        if send is None:
            self._transport.write(data)
            return
        if not self._waiting:
            try:
                sent = send(data)
            except OSError:
                # Full, or broken, which the transport finds out by itself.
                sent = 0
            if sent == len(data):
                return
            if isinstance(sent, int):
                data = data[sent:]
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        """Leave it to the transport, which sends it in its turn."""
        self._waiting += len(data)
        self._transport.write(data)
        if self._waiting > FULL_BYTES:
            self.pauseProducing()
