"""Answers that are worded on the person's machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import wraps

from svc.errors import Malformed
from svc.model.session.edits import MakeEdit

_HEADERS = (
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
)


def only_inserted(make: MakeEdit) -> MakeEdit:
    """An answer comes between others: a Proxy takes nothing away of what the target sent."""

    @wraps(make)
    def inserted(came: bytes, values: Mapping[str, str]) -> bytes:
        if came:
            raise Malformed("an answer of the gate's would replace bytes that the target sent")
        return make(came, values)

    return inserted


def page_answer(status: str, page: str, *, closes: bool = True) -> bytes:
    """A page, which nothing can frame."""
    return _answer(status, "text/html; charset=utf-8", page, closes=closes)


def json_answer(status: str, told: Mapping[str, object], *, closes: bool = True) -> bytes:
    """The same for programs."""
    return _answer(status, "application/json", json.dumps(told) + "\n", closes=closes)


def without_body(answer: bytes) -> bytes:
    """As it answers HEAD."""
    head, end, _ = answer.partition(b"\r\n\r\n")
    return head + end


def plain(value: object) -> str:
    """A text without what a terminal or a page would not show as itself."""
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return "".join(each if each.isprintable() else "?" for each in text)


def _answer(status: str, media_type: str, text: str, *, closes: bool) -> bytes:
    body = text.encode("utf-8")
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        *_HEADERS,
    ]
    if closes:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "", "")).encode("ascii") + body
