"""TCP connections of sessions: they write at once, and read larger pieces than Twisted's.

Twisted reads 64 KiB a turn, and writes in the turn after the one in which it was
told to.  For a stream at full speed the turns cost as much as the bytes; for a small
message, arming the poll and disarming it costs more than sending.
"""

from __future__ import annotations

from typing import Any

from svc.runtime import outlet

READ_BYTES = 128 * 1024
"""The most that is read at once: a turn of the reactor is no longer than this takes to encrypt."""


def read_largely(transport: Any) -> None:
    """Read more of *transport* at once from now on, where it is a socket; never blocks."""
    if outlet.is_socket(transport):
        transport.bufferSize = READ_BYTES


class BulkWriter(outlet.Outlet):
    """The writing half of a transport; all that is written to it must be written here.

    On a plain socket each piece is sent at once, as far as the kernel takes it, and only the rest
    waits in Twisted's buffer.  Any other transport is written to as it is.
    """

    def __init__(self, transport: Any) -> None:
        can_send = outlet.is_socket(transport)
        super().__init__(transport, outlet.sending(transport) if can_send else None)

    def write(self, data: bytes) -> None:
        """Send; pauses the producer where too much waits."""
        if self.producer is None and self._send is not None:
            # Twisted tells only a producer when all has gone.
            self._keep(data)
        else:
            self._put(data)

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
        has_gone = self._send is not None and not self._waiting
        self._write_no_more()
        if has_gone:
            outlet.end_writing(self._transport)
        else:
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
