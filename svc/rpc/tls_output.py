"""The ciphertext of a connection on its way to the socket."""

from __future__ import annotations

from typing import Any

from svc.runtime import outlet


class CiphertextOutlet(outlet.Outlet):
    """The only writer of *transport*, for its whole life.

    A transport that cannot send at once (one in memory, one that is a stream itself) says by
    itself when it is full.
    """

    def __init__(self, transport: Any) -> None:
        super().__init__(transport, outlet.sending(transport))
        self._is_closed = False
        transport.registerProducer(self, self._send is None)

    def write(self, data: bytes) -> None:
        """Send or keep; nothing once closed.  Never blocks."""
        if data and not self._is_closed:
            self._put(data)

    def finish(self) -> None:
        """Nothing more is written; what waits still goes.  Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._transport.unregisterProducer()

    def close(self) -> None:
        """The transport is gone, or about to be.  Idempotent."""
        self._is_closed = True
        super().close()
