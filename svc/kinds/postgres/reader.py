"""At the Connector: where each message of a session begins, and which of them need a decision.

Query, FunctionCall, Parse, Bind and Execute do, but for three: the plain end of a transaction, the
Bind that follows its statement's Parse, and the first Execute of a portal, which are one request
with what was decided before them.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.kinds.postgres.messages import (
    DECIDED,
    HEAD,
    LONGEST_END,
    LONGEST_NAMES,
    LONGEST_TEXT,
    check_length,
    ends_transaction,
    head_at,
    size_of,
    text_at,
)
from svc.model.session.ranges import Request

_MOST_PORTALS = 4096
_ENOUGH = HEAD + LONGEST_NAMES + LONGEST_END
"""The bytes of a message that tell its names, and whether its text ends a transaction."""


@define
class PostgresRequests:
    """Reads the requests of one session.

    See :class:`svc.model.session.ranges.RequestReader`.
    """

    _at: int = field(default=0, init=False)
    _start: int = field(default=0, init=False)
    _head: bytearray = field(factory=bytearray, init=False)
    _size: int = field(default=0, init=False)
    _fresh: bytes | None = field(default=None, init=False)
    _portals: set[bytes] = field(factory=set, init=False)

    def feed(self, data: bytes, is_denied: Callable[[int], bool]) -> list[Request]:
        """See RequestReader."""
        starts: list[Request] = []
        at = 0
        while at < len(data):
            if not self._head:
                at = self._whole(data, at, is_denied, starts)
                if at == len(data):
                    break
                self._start = self._at + at
                starts.append((self._start, False, 0))
            if len(self._head) < HEAD:
                taken = data[at : at + HEAD - len(self._head)]
                self._head += taken
                at += len(taken)
                if len(self._head) < HEAD:
                    break
                self._size = size_of(bytes(self._head))
            at = self._take(data, at)
            if self._at + at == self._start + self._size:
                if self._head[0] in DECIDED:
                    head = bytes(self._head)
                    if self._needs(head, self._size, is_denied(self._start)):
                        starts.append((self._start, True, _end(self._start, self._size)))
                self._head.clear()
        self._at += len(data)
        return starts

    def _take(self, data: bytes, at: int) -> int:
        """Up to the message's end, or that of the bytes."""
        end = min(len(data), self._start + self._size - self._at)
        self._head += data[at : min(end, at + _ENOUGH - len(self._head))]
        return end

    def _whole(
        self, data: bytes, at: int, is_denied: Callable[[int], bool], starts: list[Request]
    ) -> int:
        """Note the messages that have come whole, from one's beginning on; where they end."""
        before, end = self._at, len(data)
        while end - at >= HEAD:
            kind, length = head_at(data, at)
            check_length(length)
            after, start = at + length + 1, before + at
            if after > end:
                break
            if kind in DECIDED and self._needs(
                data[at : min(after, at + _ENOUGH)], length + 1, is_denied(start)
            ):
                starts.append((start, True, _end(start, length + 1)))
            else:
                starts.append((start, False, 0))
            at = after
        return at

    def _needs(self, head: bytes, size: int, is_denied: bool) -> bool:
        kind, body = head[0], head[HEAD:]
        if kind in b"QF":
            whole = size == HEAD + len(body)
            return not (kind == ord("Q") and whole and ends_transaction(body[:-1]))
        first, after = text_at(body)
        if kind == ord("P"):
            self._fresh = None if is_denied else first
            return size > _ENOUGH or not ends_transaction(text_at(body, after)[0])
        if kind == ord("B"):
            fresh, self._fresh = self._fresh, None
            if not is_denied and len(self._portals) < _MOST_PORTALS:
                self._portals.add(first)
            return fresh is None or text_at(body, after)[0] != fresh
        is_fresh = first in self._portals
        self._portals.discard(first)
        return not is_fresh


def _end(start: int, size: int) -> int:
    return start + min(size, LONGEST_TEXT)
