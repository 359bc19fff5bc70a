"""What the target gets of a request's head: no more than the gate has read, and nothing forged.

Bodies pass as they are.  Headers that speak of one connection, that name the
person or the way, or that change method or path behind the gate's back, are
dropped whoever sent them (rule R4).
"""

from __future__ import annotations

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import HEAD_END, MAX_HEAD, HttpRequest, read_request

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"host"})
"""What ``Connection`` cannot take away: without it the target would read another request."""

_DROPPED = frozenset(
    {
        b"connection",
        b"forwarded",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"svc-identity",
        b"te",
        b"trailer",
        b"upgrade",
        b"via",
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
        b"x-original-url",
        b"x-real-ip",
        b"x-rewrite-url",
    }
)
_DROPPED_BEGINNINGS = (b"x-forwarded-", b"svc-", b"x-svc-")


def rewritten(head: HttpRequest, host: bytes) -> bytes:
    """The head as the target gets it; path and query are the very bytes that came.

    Args:
        host: The target's name.
    """
    named = head.headers.words(b"connection") - _FRAMING
    lines = [b"%s %s HTTP/%s" % (head.method, head.target, head.version), b"Host: " + host]
    for name, value in head.headers.fields:
        lower = name.lower()
        is_dropped = lower in _DROPPED or lower in named or b"_" in name
        if not is_dropped and not lower.startswith(_DROPPED_BEGINNINGS):
            lines.append(name + b": " + value)
    if head.is_last:
        lines.append(b"Connection: close")
    return b"\r\n".join((*lines, b"", b""))


@define
class RequestRewriter:
    """The requests of one connection, as they come and as the target gets them."""

    host: bytes
    _head: bytearray = field(factory=bytearray, init=False)
    _body: BodyScan | None = field(default=None, init=False)
    _is_last: bool = field(default=False, init=False)

    def feed(self, data: bytes) -> bytes:
        """What the target gets of these bytes.

        Raises:
            Malformed: they are no requests.
        """
        out = bytearray()
        while data:
            if self._body is None:
                data = self._feed_head(data, out)
            else:
                taken = self._body.take(data)
                out += data[:taken]
                data = data[taken:]
            if self._body is not None and self._body.is_over:
                self._body = None
        return bytes(out)

    def _feed_head(self, data: bytes, out: bytearray) -> bytes:
        if self._is_last:
            raise Malformed("a request follows the one that said it was the last")
        searched = max(0, len(self._head) - 3)
        self._head += data
        found = HEAD_END.search(self._head, searched)
        if (found.end() if found else len(self._head)) > MAX_HEAD:
            raise Malformed("the head of a request is too long")
        if found is None:
            return b""
        end = found.end()
        raw, rest = bytes(self._head[:end]), bytes(self._head[end:])
        self._head = bytearray()
        head = read_request(raw)
        self._is_last = head.is_last
        self._body = BodyScan(head.body)
        out += rewritten(head, self.host)
        return rest
