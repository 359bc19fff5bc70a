"""Output to a transport: sends at once as much as it accepts, and the rest in its turn.

A reactor's transport puts what it is given aside and asks the kernel twice about it (watch for
room, watch no more), although there nearly always is room.  So as long as nothing waits, bytes go
out in the same turn; what the kernel does not take waits in the transport, and whoever produces
it is paused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IPullProducer, IPushProducer
from zope.interface import implementer

FULL_BYTES = 64 * 1024
"""Waiting bytes from which on the producer is paused, as a reactor's transport has it: so no more
waits than this and one piece."""

_SEND_BYTES = 128 * 1024
"""Twisted gives the kernel no more at once: where less was taken, it is full."""


@implementer(IPushProducer, IPullProducer)
class Outlet:
    """The only writer of *transport*: what an outlet of any kind is built on.

    Registered there as a producer that is asked for more whenever nothing waits: that is how it
    knows.

    Attributes:
        producer: Whoever writes here, if he is to be paused.
    """

    def __init__(self, transport: Any, send: Callable[[memoryview], Any] | None) -> None:
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

    def _put(self, data: bytes, at_once: bool = True) -> None:
        """Send or keep; pauses the producer where too much waits.  Never blocks."""
        if self._send is None:
            self._transport.write(data)
            return
        if at_once and not self._waiting:
            data = _sent_at_once(self._send, data)
        if data:
            self._waiting += len(data)
            self._transport.write(data)
            if self._waiting > FULL_BYTES:
                self.pauseProducing()


def _sent_at_once(send: Callable[[memoryview], Any], data: bytes) -> bytes:
    """Give the kernel what it takes; the rest."""
    at, whole = 0, memoryview(data)
    while at < len(data):
        sent = send(whole[at:])
        # What is no number says that it is broken, which the transport finds out by itself.
        taken = sent if isinstance(sent, int) and sent > 0 else 0
        is_full = taken < min(len(data) - at, _SEND_BYTES)
        at += taken
        if is_full:
            break
    return data[at:]
