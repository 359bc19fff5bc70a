"""Plain TCP connections that carry much: read in larger pieces than Twisted's, and written at once.

Twisted reads 64 KiB a turn, and writes in the turn after the one in which it was
told to.  For a stream at full speed the turns cost as much as the bytes.
"""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.interfaces import IPullProducer, ISSLTransport
from twisted.internet.tcp import Connection
from zope.interface import implementer

READ_BYTES = 128 * 1024
"""The most that is read at once: a turn of the reactor is no longer than this takes to encrypt."""

FULL_BYTES = 64 * 1024
"""With more than this waiting to be written, whoever writes is paused: so no more waits than this
and one piece that was read."""

_AT_ONCE_BYTES = 16 * 1024
"""Less is left to Twisted, which sends what is written in one turn together."""


def read_largely(transport: Any) -> None:
    """Read more of *transport* at once from now on, where it is a socket; never blocks."""
    if _is_plain(transport):
        transport.bufferSize = READ_BYTES


class Outlet:
    """The writing half of a transport; all that is written to it must be written here.

    On a plain socket a large piece is sent at once, as far as the kernel takes it, and only the
    rest waits in Twisted's buffer.  Any other transport is written to as it is.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._socket: socket.socket | None = transport.getHandle() if _is_plain(transport) else None
        self._producer: Any = None
        # What may still wait in Twisted's buffer: it says when all has gone, and nothing before.
        self._waiting = 0
        self._is_paused = False

    def write(self, data: bytes) -> None:
        """Send; pauses the producer where too much waits."""
        if self._socket is None:
            self._transport.write(data)
            return
        if not self._waiting and self._producer is not None and len(data) >= _AT_ONCE_BYTES:
            data = self._send(self._socket, data)
        if data:
            self._waiting += len(data)
            self._transport.write(data)
            self._pause_if_full()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Whoever writes here; it must push."""
        if self._socket is None:
            self._transport.registerProducer(producer, streaming)
            return
        if not streaming:
            raise RuntimeError("an outlet takes push producers only")
        self._producer, self._is_paused = producer, False
        waiting = self._waiting
        self._transport.registerProducer(_Drained(self), False)
        # Twisted asks a new producer for more whatever is in its buffer.
        self._waiting = waiting

    def unregisterProducer(self) -> None:
        """The producer writes no more."""
        self._producer = None
        self._transport.unregisterProducer()

    def loseWriteConnection(self) -> None:
        """End this direction once all has gone."""
        self._write_no_more()
        self._transport.loseWriteConnection()

    def loseConnection(self) -> None:
        """End both directions once all has gone."""
        self._write_no_more()
        self._transport.loseConnection()

    def abortConnection(self) -> None:
        """End both directions at once; nothing is sent from now on."""
        self._socket = None
        self._transport.abortConnection()

    def drained(self) -> None:
        """All that waited has gone.  Called by what Twisted knows as the producer."""
        self._waiting = 0
        if self._is_paused:
            self._is_paused = False
            self._producer.resumeProducing()

    def stopped(self) -> None:
        """The connection is gone."""
        self._socket = None
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()

    def _write_no_more(self) -> None:
        if self._socket is not None:
            # As long as Twisted may ask a producer for more, it ends nothing.
            self._socket = None
            self.unregisterProducer()

    def _send(self, to: socket.socket, data: bytes) -> bytes:
        """Send what the kernel takes now; the rest."""
        try:
            sent = to.send(data)
        except OSError:
            # Full, or broken: Twisted meets the same in its turn, and knows what to do.
            return data
        return b"" if sent == len(data) else data[sent:]

    def _pause_if_full(self) -> None:
        if self._waiting > FULL_BYTES and self._producer is not None and not self._is_paused:
            self._is_paused = True
            self._producer.pauseProducing()


@implementer(IPullProducer)
class _Drained:
    """What Twisted knows as a producer that it asks for more whenever its buffer is empty."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def resumeProducing(self) -> None:
        self._outlet.drained()

    def stopProducing(self) -> None:
        self._outlet.stopped()


def _is_plain(transport: Any) -> bool:
    """Whether its bytes are those on the wire: Twisted's socket, and no TLS begun on it."""
    return isinstance(transport, Connection) and not ISSLTransport.providedBy(transport)
