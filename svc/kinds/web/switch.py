"""The switch of a connection to another protocol: what was asked for, and what opens it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

from attrs import frozen

from svc.kinds.web.head import SPDY, WEBSOCKET, HttpAnswer, HttpRequest

NAMES = {WEBSOCKET: b"websocket", SPDY: b"SPDY/3.1"}
"""As they are written."""

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@frozen
class Switch:
    """What a request asks for.

    Attributes:
        protocol: Empty: nothing.
        key: What the opening of a WebSocket must prove to have read.
    """

    protocol: bytes = b""
    key: bytes = b""

    def is_answered_by(self, answer: HttpAnswer) -> bool:
        """Whether a 101 opens just that."""
        headers = answer.headers
        return (
            bool(self.protocol)
            and headers.words(b"upgrade") == {self.protocol}
            and b"upgrade" in headers.words(b"connection")
            and (
                self.protocol != WEBSOCKET or self._is_proved(headers.one(b"sec-websocket-accept"))
            )
        )

    def _is_proved(self, accepted: bytes) -> bool:
        proof = b64encode(sha1(self.key + _GUID, usedforsecurity=False).digest())
        return bool(self.key) and accepted == proof


NO_SWITCH = Switch()


def switch_of(head: HttpRequest) -> Switch:
    """What this request asks for."""
    return Switch(head.protocol, head.websocket_key) if head.upgrades else NO_SWITCH
