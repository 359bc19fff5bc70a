"""Canonical JSON of values that were checked before, many thousand times a second.

``svc.model.canonical`` judges what it writes; here a caller vouches for the values: texts without
lone surrogates, numbers within 2^53, names of ASCII.  Reading is bounded by the caller, and checks
numbers; that a text is in the one form shows by writing it again.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from json.scanner import make_scanner
from typing import Any, cast

from svc.errors import Malformed
from svc.model.canonical import MAX_INTEGER, write_plain

__all__ = ["quoted", "read_plain", "write_plain"]

quoted = encode_basestring
"""``quoted(text)``: what :func:`write_plain` writes of a text."""

_MOST_DIGITS = 17


def read_plain(text: str) -> Any:
    """The value that *text* says.

    Raises:
        Malformed: it is not JSON, or a number is no integer or too large.
    """
    try:
        # Few texts have as many digits where a number may stand; only these are looked into.
        value, end = (_READ_LARGE if _may_be_large(text) else _READ)(text, 0)
        if end != len(text):
            raise ValueError(text)
        return value
    except (ValueError, RecursionError, StopIteration):
        raise Malformed("canonical JSON: not JSON, or a number that is no integer") from None


def read_items(text: str) -> tuple[list[Any], list[str]]:
    """The items of the list that *text* says, and the text of each.

    Nothing may stand between them but a comma; the caller sees by writing them that it is a list.

    Raises:
        Malformed: as for :func:`read_plain`.
    """
    scan = _READ_LARGE if _may_be_large(text) else _READ
    found, texts = list[Any](), list[str]()
    at, last = 1, len(text) - 1
    try:
        while at < last:
            value, end = scan(text, at)
            found.append(value)
            texts.append(text[at:end])
            at = end + 1
    except (ValueError, RecursionError, StopIteration):
        raise Malformed("canonical JSON: not JSON, or a number that is no integer") from None
    return found, texts


def read_item(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at *at* of *text*, and where it ends.

    Raises:
        Malformed: as for :func:`read_plain`.
    """
    try:
        value, end = _READ_LARGE(text, at)
    except (ValueError, RecursionError, StopIteration):
        raise Malformed("canonical JSON: not JSON, or a number that is no integer") from None
    return value, int(end)


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS or abs(found := int(text)) > MAX_INTEGER:
        raise ValueError(text)
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _may_be_large(text: str) -> bool:
    """Whether 16 digits stand in a row where a number may begin."""
    if len(text) < len(_MANY):
        return False
    marks = b":" + text.encode("utf-8", "replace").translate(_MARKS)
    return b":" + _MANY in marks or b":-" + _MANY in marks


_MANY = b"0" * 16
_MARKS = bytes(
    ord("0" if chr(one) in "0123456789" else ":" if chr(one) in ":,[ \t\n\r\v\f" else chr(one))
    if one < 128
    else one
    for one in range(256)
)
"""Every digit as 0, and what a number may follow as a colon: looked for faster than a pattern."""

# The canonical form has no space around a value: what looks for it is left out.
_READ = make_scanner(
    cast("Any", json.JSONDecoder(parse_float=_no_number, parse_constant=_no_number))
)
_READ_LARGE = make_scanner(
    cast(
        "Any",
        json.JSONDecoder(parse_float=_no_number, parse_int=_integer, parse_constant=_no_number),
    )
)
