"""Reads the reason why a Connector ends a session, from messages that pass unread otherwise.

A join passes bytes; here only the heads of the messages among them are looked at, and no message
but an ``end`` is read.  A Connector is believed in what only it can know, and in nothing else.
"""

from __future__ import annotations

from svc.errors import Malformed
from svc.model.session.ending import (
    BROKEN,
    CANCELLED,
    CERTIFICATE_ENDED,
    CONNECTOR_STOPPING,
    GATED_FAULTS,
    GRANT_ENDED,
    RECORDING_FAILED,
    TARGET_CLOSED,
    SessionOver,
)
from svc.rpc.frames import FrameKind, parse_frame, read_end

_HEAD = 5
"""Of a gRPC message: a flag, and the length in four bytes."""

_LONGEST = 128
"""An ``end`` is no longer; a longer message is skipped unread."""

CONNECTORS_OWN = GATED_FAULTS | {
    BROKEN,
    CANCELLED,  # where it ends the protocol, it alone hears whether the person's tool took leave
    CERTIFICATE_ENDED,
    CONNECTOR_STOPPING,
    GRANT_ENDED,
    RECORDING_FAILED,
    TARGET_CLOSED,
}
"""Words of a Connector's that this Proxy cannot know by itself."""


class EndFrameReader:
    """Attributes:
    reason: What the Connector said; empty while it said nothing.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._held = bytearray()
        self._size = 0
        self._skip = 0

    def passed(self, chunk: bytes | memoryview) -> None:
        """Bytes have come from the Connector."""
        view = memoryview(chunk)
        while view:
            if self._skip:
                skipped = min(self._skip, len(view))
                self._skip -= skipped
                view = view[skipped:]
                continue
            wanted = _HEAD + self._size - len(self._held)
            self._held += view[:wanted]
            view = view[wanted:]
            if len(self._held) == _HEAD + self._size:
                self._complete()

    def receive(self, over: SessionOver) -> None:
        """An end was read by somebody else."""
        self.reason = over.reason if over.reason in CONNECTORS_OWN else BROKEN

    def _complete(self) -> None:
        if self._size:
            self._read(bytes(self._held[_HEAD:]))
            self._size = 0
            self._held.clear()
            return
        size = int.from_bytes(self._held[1:_HEAD], "big")
        if 0 < size <= _LONGEST:
            self._size = size
            return
        self._skip = size
        self._held.clear()

    def _read(self, message: bytes) -> None:
        try:
            kind, payload = parse_frame(message)
            if kind is FrameKind.END:
                self.receive(read_end(payload))
        except Malformed:
            pass  # Whoever it is for refuses it.
