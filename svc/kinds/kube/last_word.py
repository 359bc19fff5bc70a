"""Where the end of a watch, or of a stream in channels, can be told to whoever reads it."""

from __future__ import annotations

from attrs import define, field

from svc.kinds.kube.request import request_info
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import SPDY, SWITCHING, HttpAnswer, HttpRequest
from svc.kinds.web.last_word import EndScan
from svc.kinds.web.websocket import FrameScan
from svc.kinds.web.words import EVENTS, STREAMS

_OF_STATUS = b"v4.channel.k8s.io"
"""Of the protocols over SPDY, the one whose error stream takes a Status."""

_CHANNELLED = (b"v4.channel.k8s.io", b"v5.channel.k8s.io")
"""Of those over a WebSocket, the ones whose channel 3 takes one."""

_SPDY_HEAD = 8

_JSON = (b"application/json", b"application/json;stream=watch")


@define
class EventScan:
    """Follows the events of a watch, each a line of JSON, in chunks."""

    body: BodyScan
    form: str = field(default=EVENTS, init=False)
    _last: bytes = field(default=b"\n\r\n", init=False)

    @property
    def is_between(self) -> bool:
        """See EndScan: at the end of a chunk that ends a line."""
        return self.body.is_between_chunks and self._last == b"\n\r\n"

    def take(self, data: bytes) -> None:
        """See EndScan."""
        self._last = (self._last + data[-3:])[-3:]


@define
class SpdyScan:
    """Follows the frames of SPDY, whose heads are 8 bytes and end with the length."""

    form: str = field(default=STREAMS, init=False)
    _head: bytearray = field(factory=bytearray, init=False)
    _left: int = field(default=0, init=False)

    @property
    def is_between(self) -> bool:
        """See EndScan: at the end of a frame."""
        return not self._left and not self._head

    def take(self, data: bytes) -> None:
        """See EndScan."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(_SPDY_HEAD - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                if len(self._head) == _SPDY_HEAD:
                    self._left = int.from_bytes(self._head[-3:], "big")
                    self._head.clear()
            at += step


def end_of_stream(
    request: HttpRequest, answer: HttpAnswer, body: BodyScan | None
) -> EndScan | None:
    """See EndOf."""
    headers = answer.headers
    if answer.status == SWITCHING:
        if request.protocol == SPDY:
            is_told = headers.one(b"x-stream-protocol-version") == _OF_STATUS
            return SpdyScan() if is_told else None
        return FrameScan(headers.one(b"sec-websocket-protocol") in _CHANNELLED)
    is_plain = not headers.all(b"content-encoding") and _is_json(headers.one(b"content-type"))
    if body is None or answer.status != 200 or not is_plain or b"watch" not in request.target:
        return None
    return EventScan(body) if request_info(request).verb == "watch" else None


def _is_json(media_type: bytes) -> bool:
    return media_type.replace(b" ", b"").lower() in _JSON
