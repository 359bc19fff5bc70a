"""TCP connections with much data: they read larger pieces than Twisted's, and write at once.

Twisted reads 64 KiB a turn, and writes in the turn after the one in which it was
told to.  For a stream at full speed the turns cost as much as the bytes.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import ISSLTransport
from twisted.internet.tcp import Connection

from svc.runtime import outlet

READ_BYTES = 128 * 1024
"""The most that is read at once: a turn of the reactor is no longer than this takes to encrypt."""

_AT_ONCE_BYTES = 16 * 1024
"""Less is left to Twisted, which sends what is written in one turn together."""


def read_largely(transport: Any) -> None:
    """Read more of *transport* at once from now on, where it is a socket; never blocks."""
    if _is_plain(transport):
        transport.bufferSize = READ_BYTES


class BulkWriter(outlet.Outlet):
    """The writing half of a transport; all that is written to it must be written here.

    On a plain socket a large piece is sent at once, as far as the kernel takes it, and only the
    rest waits in Twisted's buffer.  Any other transport is written to as it is.
    """

    def __init__(self, transport: Any) -> None:
        super().__init__(transport, transport.writeSomeData if _is_plain(transport) else None)

    def write(self, data: bytes) -> None:
        """Send; pauses the producer where too much waits."""
        self._put(data, self.producer is not None and len(data) >= _AT_ONCE_BYTES)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Register the producer that writes here; it must be a push producer."""
        if self._send is None:
            self._transport.registerProducer(producer, streaming)
            return
        if not streaming:
            raise RuntimeError("an outlet takes push producers only")
        self.producer, self._is_full = producer, False
        waiting = self._waiting
        self._transport.registerProducer(self, False)
        # Twisted asks a new producer for more whatever is in its buffer.
        self._waiting = waiting

    def unregisterProducer(self) -> None:
        """The producer writes no more."""
        self.producer = None
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
        self._send = None
        self._transport.abortConnection()

    def close(self) -> None:
        """The connection is gone."""
        self._send = None
        super().close()

    def _write_no_more(self) -> None:
        if self._send is not None:
            # As long as Twisted may ask a producer for more, it ends nothing.
            self._send = None
            self.unregisterProducer()


def _is_plain(transport: Any) -> bool:
    """Whether its bytes are those on the wire: Twisted's socket, and no TLS begun on it."""
    return isinstance(transport, Connection) and not ISSLTransport.providedBy(transport)
