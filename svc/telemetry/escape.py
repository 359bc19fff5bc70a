"""Escapes text of others for a terminal and for one line of a log.

Control characters, terminal escapes, marks that turn the writing direction,
characters that show nothing, line separators and lone surrogates become
visible escapes.
"""

from __future__ import annotations

import json
import re

_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's control and format characters that show nothing, and what it lets be ignored."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+,;*%~\[\]()<>-]+\Z")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    """*text* with every character that is unfit to be shown made visible."""
    return _UNFIT.sub(_visible, text)


def quoted(text: str) -> str:
    """One field's value in a line for people: bare when plain, else in quotes.

    Backslash and quote are escaped inside the quotes, so the value is one
    field whatever it holds.
    """
    if _PLAIN.match(text):
        return text
    return '"' + escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def json_line(record: dict[str, object]) -> str:
    """One JSON object, ASCII only, without a line break in it."""
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f")


def _visible(found: re.Match[str]) -> str:
    mark = found[0]
    if mark in _SHORT:
        return _SHORT[mark]
    code = ord(mark)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
