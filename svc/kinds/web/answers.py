"""Answers that are worded on the person's machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import wraps

from svc.errors import Malformed
from svc.model.session.edits import MakeEdit

_NOTHING = ("default-src", "frame-ancestors", "base-uri", "form-action")
_HEADERS = (
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Content-Security-Policy: " + "; ".join(f"{what} 'none'" for what in _NOTHING),
)


def only_inserted(make: MakeEdit) -> MakeEdit:
    """An answer comes between others: a Proxy takes nothing away of what the target sent."""

    @wraps(make)
    def inserted(came: bytes, values: Mapping[str, str]) -> bytes:
        if came:
            raise Malformed("an answer of the gate's would replace bytes that the target sent")
        return make(came, values)

    return inserted


def page_answer(
    status: str, page: str, *, closes: bool = True, referrers: str = "no-referrer"
) -> bytes:
    """A page, which nothing can frame.

    Args:
        referrers: What those learn of it that it leads to.
    """
    policy = f"Referrer-Policy: {referrers}"
    return _answer(status, "text/html; charset=utf-8", page, closes=closes, more=(policy,))


def refused_form(
    reason: str, message: str, session_uid: str = "", **more: object
) -> dict[str, object]:
    """What a program reads of a refusal: one form, whoever refuses.

    Args:
        session_uid: Of the session that the request came in; empty: of none.
        more: What else is told, by name.
    """
    told = {"reason": reason, "message": message, "session_uid": session_uid or None, **more}
    return {"error": told}


def json_answer(
    status: str, told: Mapping[str, object], *, closes: bool = True, more: tuple[str, ...] = ()
) -> bytes:
    """The same for programs, with these fields besides."""
    fields = ("Referrer-Policy: no-referrer", *more)
    text = json.dumps(told) + "\n"
    return _answer(status, "application/json", text, closes=closes, more=fields)


def without_body(answer: bytes) -> bytes:
    """As it answers HEAD."""
    head, end, _ = answer.partition(b"\r\n\r\n")
    return head + end


def plain(value: object) -> str:
    """A text without what a terminal or a page would not show as itself."""
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return "".join(each if each.isprintable() else "?" for each in text)


def _answer(
    status: str, media_type: str, text: str, *, closes: bool, more: tuple[str, ...]
) -> bytes:
    body = text.encode("utf-8")
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        *_HEADERS,
        *more,
    ]
    if closes:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "", "")).encode("ascii") + body
