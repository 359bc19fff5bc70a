"""Bytes on their way to a transport: sent at once as far as it takes them, the rest in its turn.

A reactor's transport puts what it is given aside and asks the kernel twice about it (watch for
room, watch no more), although there nearly always is room.  So as long as nothing waits, bytes go
out in the same turn; what the kernel does not take waits in the transport, and whoever produces
it is paused.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IPullProducer, IPushProducer
from zope.interface import implementer

_FULL = 1 << 16
"""Waiting bytes from which on the producer is paused: as a reactor's transport has it."""


@implementer(IPushProducer, IPullProducer)
class Outlet:
    """The only writer of *transport*.

    Registered there as a producer that is asked for more whenever nothing waits: that is how it
    knows.  A transport that cannot send at once (one in memory, one that is a stream itself) says
    by itself when it is full.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._send = getattr(transport, "writeSomeData", None)
        self._waiting = 0
        self._is_full = False
        self._is_closed = False
        self.producer: Any = None
        transport.registerProducer(self, self._send is None)

    def write(self, data: bytes) -> None:
        """Send or keep; nothing once closed.  Never blocks."""
        if self._is_closed or not data:
            return
        if self._send is None:
            self._transport.write(data)
            return
        if not self._waiting:
            data = self._sent_at_once(data)
        if data:
            self._waiting += len(data)
            self._transport.write(data)
            if self._waiting > _FULL:
                self.pauseProducing()

    def finish(self) -> None:
        """Nothing more is written; what waits still goes.  Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._transport.unregisterProducer()

    def close(self) -> None:
        """The transport is gone, or about to be.  Idempotent."""
        self._is_closed = True
        self.producer = None

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

    # -- inside

    def _sent_at_once(self, data: bytes) -> bytes:
        """Give the kernel what it takes; the rest."""
        left = memoryview(data)
        while left:
            sent = self._send(left)  # type: ignore[misc]
            if not isinstance(sent, int) or sent <= 0:
                # Full; or broken, which the transport finds out by itself.
                break
            left = left[sent:]
        return b"" if not left else bytes(left)
