"""What the target gets of a request's head: no more than the gate has read, and nothing forged.

Bodies pass as they are.  Headers that speak of one connection, that name the
person or the way, or that change method or path behind the gate's back, are
dropped whoever sent them (rule R4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.head import (
    HEAD_END,
    MAX_HEAD,
    WEBSOCKETS,
    Header,
    HttpRequest,
    Protocols,
    read_answer,
)
from svc.kinds.web.split import RequestSplit
from svc.kinds.web.switch import NAMES, Switch, switch_of

_KEPT = frozenset({b"content-length", b"content-type", b"transfer-encoding", b"host"})
"""What ``Connection`` cannot take away: without it the target would read another request.

The media type is among what was decided.
"""

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


Fields = tuple[Header, ...]
ChangeFields = Callable[[Fields], Fields]
"""What a kind makes of the header fields that a target may get: it drops some and adds its own."""


def same_fields(fields: Fields) -> Fields:
    """They pass as they are."""
    return fields


def rewritten(
    head: HttpRequest,
    host: bytes,
    change: ChangeFields = same_fields,
    added: Fields = (),
) -> bytes:
    """The head as the target gets it; path and query are the very bytes that came.

    Args:
        host: The target's name.
        change: Made of the fields that are left, before what the connection itself needs.
        added: Fields of our own, which nothing that came can take away.
    """
    named = head.headers.words(b"connection") - _KEPT
    lines = [b"%s %s HTTP/%s" % (head.method, head.target, head.version), b"Host: " + host]
    kept = []
    for name, value in head.headers.fields:
        lower = name.lower()
        is_dropped = lower in _DROPPED or lower in named or b"_" in name
        if not is_dropped and not lower.startswith(_DROPPED_BEGINNINGS):
            kept.append((name, value))
    lines += [name + b": " + value for name, value in (*change(tuple(kept)), *added)]
    if head.upgrades:
        lines += (b"Connection: Upgrade", b"Upgrade: " + NAMES[head.protocol])
    elif head.is_last:
        lines.append(b"Connection: close")
    return b"\r\n".join((*lines, b"", b""))


MOST_ASKED = 64
"""Requests of one connection that may wait for their answers; a gate waits with fewer."""


class NextBytes(Enum):
    """What of a connection may come next."""

    FIRST = "first"
    OTHERS = "others"
    LAST = "last"
    ASKED = "asked"
    SWITCHED = "switched"


def _state_after(head: HttpRequest) -> NextBytes:
    if head.upgrades:
        return NextBytes.ASKED
    return NextBytes.LAST if head.is_last else NextBytes.OTHERS


@define
class RequestRewriter:
    """The requests of one connection, as they come and as the target gets them.

    Attributes:
        host: The target's name.
        change: What the kind makes of the header fields.
        protocols: Those that a request may ask to switch to.
        asked: The methods of requests that it got; who reads the answers takes them out.
    """

    host: bytes
    change: ChangeFields = same_fields
    protocols: Protocols = WEBSOCKETS
    asked: deque[bytes] = field(factory=deque, init=False)
    _requests: RequestSplit = field(init=False)
    _answer: bytearray = field(factory=bytearray, init=False)
    _state: NextBytes = field(default=NextBytes.FIRST, init=False)
    _switch: Switch = field(factory=Switch, init=False)
    _latest: tuple[HttpRequest, bytes] | None = field(default=None, init=False)

    @_requests.default
    def _split(self) -> RequestSplit:
        return RequestSplit(self.protocols)

    def feed(self, data: bytes) -> bytes:
        """What the target gets of these bytes.

        Raises:
            Malformed: they are no requests.
        """
        out = bytearray()
        for part in self.parts(data):
            out += self.head(part) if isinstance(part, HttpRequest) else part
        return bytes(out)

    def parts(self, data: bytes) -> Iterator[HttpRequest | bytes]:
        """The heads in these bytes, and what is between them; each as it is asked for.

        Raises:
            Malformed: they are no requests.
        """
        if self._state is NextBytes.SWITCHED:
            yield data
            return
        if self._state is NextBytes.ASKED and data:
            raise Malformed("bytes for a protocol that the target has not switched to")
        for part in self._requests.split(data):
            if isinstance(part, HttpRequest):
                self._advance(part)
            elif part and self._state is NextBytes.ASKED:
                raise Malformed("bytes for a protocol that the target has not switched to")
            yield part
        if self._state is NextBytes.ASKED and not self._requests.is_between:
            raise Malformed("bytes for a protocol that the target has not switched to")

    def head(self, head: HttpRequest, added: Fields = ()) -> bytes:
        """A head as the target gets it; see :func:`rewritten`."""
        if added or head.upgrades:
            self._latest = None
            return rewritten(head, self.host, self.change, added)
        if self._latest is None or self._latest[0] is not head:
            self._latest = head, rewritten(head, self.host, self.change)
        return self._latest[1]

    def answered(self, data: bytes) -> None:
        """Watch what the target answers to an upgrade: after anything but 101 nothing more goes.

        Raises:
            Malformed: that is no answer.
        """
        if self._state is not NextBytes.ASKED:
            return
        self._answer += data
        while self._state is NextBytes.ASKED and (found := HEAD_END.search(self._answer)):
            head = read_answer(bytes(self._answer[: found.end()]))
            del self._answer[: found.end()]
            if not head.is_interim:
                is_opened = head.status == 101 and self._switch.is_answered_by(head)
                self._state = NextBytes.SWITCHED if is_opened else NextBytes.LAST
        if len(self._answer) > MAX_HEAD and self._state is NextBytes.ASKED:
            raise Malformed("the head of an answer is too long")

    def _advance(self, head: HttpRequest) -> None:
        if self._state in (NextBytes.LAST, NextBytes.ASKED):
            raise Malformed("a request follows the one that said it was the last")
        if head.upgrades and self._state is not NextBytes.FIRST:
            raise Malformed("what asks for another protocol is not its connection's first request")
        if len(self.asked) >= MOST_ASKED:
            raise Malformed("too many requests wait for their answers")
        self.asked.append(head.method)
        self._switch = switch_of(head)
        self._state = _state_after(head)
