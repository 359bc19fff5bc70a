"""The requests of one connection, told apart as they come."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import (
    HEAD_END,
    MAX_HEAD,
    WEBSOCKETS,
    BadHead,
    HttpRequest,
    Protocols,
    last_request,
)


@define
class RequestSplit:
    """Tells heads from bodies.

    Attributes:
        protocols: Those that a request may ask to switch to.
    """

    protocols: Protocols = WEBSOCKETS
    _head: bytearray = field(factory=bytearray, init=False)
    _body: BodyScan | None = field(default=None, init=False)

    @property
    def is_between(self) -> bool:
        """Whether what has come ends with a request."""
        return self._body is None and not self._head

    def split(self, data: bytes) -> Iterator[HttpRequest | bytes]:
        """Each head that these bytes complete, and the bytes of bodies between.

        Raises:
            BadHead: a head is not taken.
            Malformed: a body is not framed as it must be.
        """
        while data:
            if self._body is None:
                head, data = self._take_head(data)
                if head is not None:
                    self._body = BodyScan(head.body) if head.body.length != 0 else None
                    yield head
            else:
                taken = self._body.take(data)
                yield data[:taken]
                data = data[taken:]
            if self._body is not None and self._body.is_over:
                self._body = None

    def _take_head(self, data: bytes) -> tuple[HttpRequest | None, bytes]:
        found = None if self._head else HEAD_END.search(data)
        if found is not None and found.end() <= MAX_HEAD:
            return last_request(data[: found.end()], self.protocols), data[found.end() :]
        searched = max(0, len(self._head) - 3)
        self._head += data
        found = HEAD_END.search(self._head, searched)
        if (found.end() if found else len(self._head)) > MAX_HEAD:
            raise BadHead(f"a head is longer than {MAX_HEAD} bytes", reason="head_too_long")
        if found is None:
            return None, b""
        raw, rest = bytes(self._head[: found.end()]), bytes(self._head[found.end() :])
        self._head = bytearray()
        return last_request(raw, self.protocols), rest
