"""Canonical JSON of values that were checked before, many thousand times a second.

``svc.model.canonical`` judges what it writes; here a caller vouches for the values: texts without
lone surrogates, numbers within 2^53, names of ASCII.  Reading is bounded by the caller, and checks
numbers; that a text is in the one form shows by writing it again.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Any

from svc.errors import Malformed
from svc.model.canonical import SCAN, SCAN_LARGE, may_be_large, write_plain

__all__ = ["quoted", "read_plain", "write_plain"]

quoted = encode_basestring
"""``quoted(text)``: what :func:`write_plain` writes of a text."""


def read_plain(text: str) -> Any:
    """The value that *text* says.

    Raises:
        Malformed: it is not JSON, or a number is no integer or too large.
    """
    try:
        # Few texts have as many digits where a number may stand; only these are looked into.
        value, end = (SCAN_LARGE if may_be_large(text) else SCAN)(text, 0)
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
    scan = SCAN_LARGE if may_be_large(text) else SCAN
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
        value, end = SCAN_LARGE(text, at)
    except (ValueError, RecursionError, StopIteration):
        raise Malformed("canonical JSON: not JSON, or a number that is no integer") from None
    return value, int(end)
