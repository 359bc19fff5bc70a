"""Canonical JSON of values that were checked before, many thousand times a second.

``svc.model.canonical`` judges what it writes; here a caller vouches for the values: texts without
lone surrogates, numbers within 2^53, names of ASCII.  Reading is bounded by the caller, and checks
numbers; that a text is in the one form shows by writing it again.
"""

from __future__ import annotations

import json
import re
from json import encoder
from typing import Any

from svc.errors import Malformed
from svc.model.canonical import MAX_INTEGER

_MOST_DIGITS = 17


def _refused(value: object) -> Any:
    raise Malformed(f"canonical JSON: {type(value).__name__} has no form")


_PLAIN = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
)
_make: Any = getattr(encoder, "c_make_encoder", None)
# Made once: the encoder itself makes one for each call.
_CHUNKS: Any = (
    None
    if _make is None
    else _make(None, _refused, encoder.encode_basestring, None, ":", ",", True, False, False)
)


def write_plain(value: Any) -> str:
    """The canonical text of *value*."""
    return _PLAIN.encode(value) if _CHUNKS is None else "".join(_CHUNKS(value, 0))


def read_plain(text: str) -> Any:
    """The value that *text* says.

    Raises:
        Malformed: it is not JSON, or a number is no integer or too large.
    """
    try:
        # Few texts have as many digits where a number may stand; only these are looked into.
        return (_READ_LARGE if _LARGE.search(text) else _READ)(text)
    except (ValueError, RecursionError):
        raise Malformed("canonical JSON: not JSON, or a number that is no integer") from None


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS or abs(found := int(text)) > MAX_INTEGER:
        raise ValueError(text)
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


_LARGE = re.compile(r"(?:^|[:,\[\s])-?[0-9]{16}")
_READ = json.JSONDecoder(parse_float=_no_number, parse_constant=_no_number).decode
_READ_LARGE = json.JSONDecoder(
    parse_float=_no_number, parse_int=_integer, parse_constant=_no_number
).decode
