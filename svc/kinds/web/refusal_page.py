"""The page that a browser shows in place of one that svc refuses: why, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from svc.kinds.web.answers import plain

NAVIGATES = b"navigate"
"""What a browser says of a request whose answer a person is to see."""

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<h1>{title}</h1>
<p>{message}</p>
<dl>
<dt>Reason</dt><dd>{reason}</dd>
{rows}</dl>
{commands}</html>
"""
_ROWS = {
    "policies": "<dt>Policies</dt><dd>{}</dd>\n",
    "decision_id": "<dt>Decision</dt><dd><code>{}</code></dd>\n",
}
_COMMANDS = {
    "explain": "<p>To see why: <code>{}</code></p>\n",
    "request": "<p>To ask for access, which another person can approve: <code>{}</code></p>\n",
}


def refusal_page(title: str, told: Mapping[str, Any]) -> str:
    """The page.

    Args:
        told: As :func:`svc.kinds.web.answers.refused_form` has it; what is empty is left out.
    """
    return _PAGE.format(
        title=title,
        message=_shown(told["message"]),
        reason=_shown(told["reason"]),
        rows=_parts(_ROWS, told),
        commands=_parts(_COMMANDS, told),
    )


def _parts(forms: Mapping[str, str], told: Mapping[str, Any]) -> str:
    return "".join(
        form.format(_shown(told[name])) for name, form in forms.items() if told.get(name)
    )


def _shown(value: object) -> str:
    return escape(plain(value))
