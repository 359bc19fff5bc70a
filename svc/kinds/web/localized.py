"""Answers under the person's name for an application: its own redirects and cookies stay with it.

An application knows itself by its own name, and a browser here by another.
A redirect to the application's own name becomes one to the same path; a cookie
for its own domain becomes one of the host alone, and one for a wider domain is
dropped, since a browser would refuse it or give it to others.  All else passes
as it is, also what is no answer: the gate refuses that.
"""

from __future__ import annotations

import re
from collections import deque

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import HEAD_END, MAX_HEAD, HttpAnswer, read_answer
from svc.kinds.web.identity import SPELLINGS, is_identity

_ABSOLUTE = re.compile(rb"(?:https?:)?//([^/?#\\]*)([/?#].*)?\Z", re.IGNORECASE)
_DOMAIN = re.compile(rb";[ \t]*domain[ \t]*=([^;]*)", re.IGNORECASE)
_USUAL_PORTS = (b":80", b":443")
_MOST_TRAILERS = 32
_CHANGED = frozenset({b"location", b"set-cookie"}) | SPELLINGS


def localized(raw: bytes, head: HttpAnswer, host: bytes) -> bytes:
    """An answer's head as the person gets it; the very bytes where nothing is to be changed.

    Args:
        host: The target's name, with its port where that is not the usual one.
    """
    if head.headers.has_none_of(_CHANGED):
        return raw
    first = raw.partition(b"\r\n")[0]
    lines = [first]
    for name, value in head.headers.fields:
        lower, changed = name.lower(), value
        if lower == b"location":
            changed = _location(value, host)
        elif lower == b"set-cookie":
            changed = _cookie(value, host)
        elif is_identity(name):
            continue
        if changed or not value:
            lines.append(name + b": " + changed)
    same = [first, *(name + b": " + value for name, value in head.headers.fields)]
    return raw if lines == same else b"\r\n".join((*lines, b"", b""))


def _location(value: bytes, host: bytes) -> bytes:
    found = _ABSOLUTE.match(value)
    if found is None or _bare(found[1]) != _bare(host):
        return value
    rest = found[2] or b"/"
    if rest.startswith((b"//", b"/\\")):
        return b"/." + rest  # by itself it would name another site
    return rest if rest.startswith(b"/") else b"/" + rest


def _cookie(value: bytes, host: bytes) -> bytes:
    name = _bare(host).partition(b":")[0]
    domains = [one.strip().lstrip(b".").lower() for one in _DOMAIN.findall(value)]
    if any(one not in (b"", name) for one in domains):
        return b""
    return _DOMAIN.sub(b"", value)


def _bare(host: bytes) -> bytes:
    lower = host.lower()
    usual = next((port for port in _USUAL_PORTS if lower.endswith(port)), b"")
    return lower.removesuffix(usual)


@define
class AnswerRewriter:
    """The answers of one connection, as the target sends them and as the person gets them.

    Attributes:
        host: The target's name.
        asked: The methods of the requests that it got and has not answered.
    """

    host: bytes
    asked: deque[bytes]
    _head: bytearray = field(factory=bytearray, init=False)
    _body: BodyScan | None = field(default=None, init=False)
    _is_past: bool = field(default=False, init=False)

    @property
    def is_between(self) -> bool:
        """Whether every answer that has begun has ended."""
        return self._body is None and not self._head and not self._is_past

    def feed(self, data: bytes) -> bytes:
        """What the person gets of these bytes."""
        if self._is_past:
            return data
        out = bytearray()
        while data and not self._is_past:
            if self._body is None:
                data = self._take_head(data, out)
                continue
            try:
                taken = self._body.take(data)
            except Malformed:
                self._is_past = True
                break
            out += data[:taken]
            data = data[taken:]
            self._body = None if self._body.is_over else self._body
        return bytes(out + data)

    def _take_head(self, data: bytes, out: bytearray) -> bytes:
        if not self._head and self.asked and (found := HEAD_END.search(data)):
            return self._take_answer(data, found.end(), out)
        searched = max(0, len(self._head) - 3)
        self._head += data
        found = HEAD_END.search(self._head, searched)
        if found is None and len(self._head) <= MAX_HEAD and self.asked:
            return b""
        whole = bytes(self._head)
        self._head = bytearray()
        if found is None or not self.asked:
            self._is_past = True
            return whole
        return self._take_answer(whole, found.end(), out)

    def _take_answer(self, whole: bytes, end: int, out: bytearray) -> bytes:
        try:
            head = read_answer(whole[:end])
            body = head.body_for(self.asked[0])
        except Malformed:
            self._is_past = True
            return whole
        out += localized(whole[:end], head, self.host)
        self._is_past = head.status == 101
        if not head.is_interim:
            self.asked.popleft()
            scan = BodyScan(body, _MOST_TRAILERS)
            self._body = None if scan.is_over else scan
        return whole[end:]
