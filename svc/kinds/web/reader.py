"""At the Connector: where each request of a connection begins, whatever the Proxy says of it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import HEAD_END, MAX_HEAD, WEBSOCKETS, Body, Protocols, last_request
from svc.model.session.ranges import Request

_LONGEST_END = 4


@define
class WebRequests:
    """Reads the requests of one connection: every head needs a decision.

    See :class:`svc.model.session.ranges.RequestReader`.

    Attributes:
        protocols: Those that a request may ask to switch to.
    """

    protocols: Protocols = WEBSOCKETS
    _at: int = field(default=0, init=False)
    _start: int = field(default=0, init=False)
    _head: bytearray = field(factory=bytearray, init=False)
    _body: BodyScan | None = field(default=None, init=False)

    def feed(self, data: bytes, is_denied: Callable[[int], bool]) -> list[Request]:
        """See RequestReader."""
        starts, at = list[Request](), 0
        while at < len(data):
            if self._body is not None:
                at += self._body.take(data[at:])
                if self._body.is_over:
                    self._body = None
                continue
            begins = not self._head
            if begins:
                self._start = self._at + at
            at += self._take_head(data[at:], is_denied)
            is_over = not self._head
            if begins or is_over:
                starts.append((self._start, True, self._at + at if is_over else 0))
        self._at += len(data)
        return starts

    def _take_head(self, data: bytes, is_denied: Callable[[int], bool]) -> int:
        before = len(self._head)
        self._head += data[: MAX_HEAD - before]
        found = HEAD_END.search(self._head, max(0, before - _LONGEST_END))
        if found is None:
            if len(self._head) >= MAX_HEAD:
                raise Malformed("a head of a request is too long")
            return len(data)
        head = last_request(bytes(self._head[: found.end()]), self.protocols)
        self._head.clear()
        # Of a request that may come without its body nobody can tell where the next one begins.
        is_unsure = bool(head.headers.all(b"expect")) and is_denied(self._start)
        body = Body(length=None) if head.upgrades or is_unsure else head.body
        self._body = BodyScan(body) if body.length != 0 else None
        return found.end() - before
