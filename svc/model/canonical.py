"""Canonical JSON (RFC 8785) for what is hashed and signed: one value, one text.

The subset is chosen so that every language and store agrees on the bytes: no
floating point, integers within 2^53 either way, keys of printable ASCII, and
strings of Unicode scalar values.  Reading is strict: what is not already in
canonical form is refused, so two texts never mean one record.  Nothing here
knows what is encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from json import encoder
from json.scanner import make_scanner
from typing import Any, TypeAlias, cast

from svc.errors import Malformed

Json: TypeAlias = "bool | int | str | Sequence[Json] | Mapping[str, Json] | None"

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 32
MAX_BYTES = 1 << 20

_ENCODE_TEXT = json.JSONEncoder(ensure_ascii=False).encode
_ENCODE_PLAIN = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode
_NESTED = frozenset([dict, list])
_LONGEST_NUMBER = len(str(-MAX_INTEGER))


def _refused(value: object) -> Any:
    raise Malformed(f"canonical JSON: {type(value).__name__} has no form")


_make: Any = getattr(encoder, "c_make_encoder", None)
# Made once: the library's encoder makes one for each call.
_CHUNKS: Any = (
    None
    if _make is None
    else _make(None, _refused, encoder.encode_basestring, None, ":", ",", True, False, False)
)


def write_plain(value: Any) -> str:
    """The canonical text of *value*, which the caller vouches for; else as :func:`encode`."""
    return _ENCODE_PLAIN(value) if _CHUNKS is None else "".join(_CHUNKS(value, 0))


def encode(value: Json) -> bytes:
    """The canonical bytes of *value*.

    Raises:
        Malformed: *value* has a float, bytes, an integer past 2^53, a key that
            is not printable ASCII, a lone surrogate, or more than 32 levels.
    """
    try:
        if _is_plain(value, MAX_DEPTH):
            return write_plain(value).encode("utf-8")
        return _encode(value, MAX_DEPTH).encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("canonical JSON: a string contains a lone surrogate") from None


def decode(data: bytes, *, max_bytes: int = MAX_BYTES) -> Json:
    """The value that *data* is the canonical form of.

    Raises:
        Malformed: *data* is longer than *max_bytes*, nested too deeply, not
            JSON, or not the one canonical form of what it says.
    """
    if len(data) > max_bytes:
        raise Malformed(f"canonical JSON: it is longer than {max_bytes} bytes")
    try:
        text = data.decode("utf-8")
        # The canonical form has no space around a value: what looks for it is left out.
        value, _ = (SCAN_LARGE if may_be_large(text) else SCAN)(text, 0)
    except (ValueError, RecursionError, StopIteration):  # it stops deep nesting by itself
        raise Malformed("canonical JSON: it is not JSON, or a number is not an integer") from None
    is_simple = _is_simple(data) and (_has_few_levels(data) or is_shallow(value, MAX_DEPTH))
    written = write_plain(value) if is_simple else encode(value).decode("utf-8")
    if written != text:
        raise Malformed("canonical JSON: it is not in canonical form")
    return cast("Json", value)


def _is_simple(data: bytes) -> bool:
    """Whether any JSON in *data* is allowed, but for its depth: printable ASCII, nothing escaped.

    Nearly all records are such; looking at each of their values costs as much as to parse them.
    """
    return data.isascii() and b"\\" not in data and b"\x7f" not in data


def _has_few_levels(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") <= MAX_DEPTH


def is_shallow(value: object, levels: int = MAX_DEPTH) -> bool:
    """Whether *value*, as JSON is read, has no more levels."""
    within: list[Any] = [value] if type(value) in _NESTED else []
    while within:
        if levels <= 0:
            return False
        levels -= 1
        found: list[Any] = []
        for each in within:
            items = each.values() if type(each) is dict else each
            if not _NESTED.isdisjoint(map(type, items)):
                found += [one for one in items if type(one) in _NESTED]
        within = found
    return True


def _is_plain(value: object, levels: int) -> bool:
    """Whether *value* is of builtin types only and allowed: the library's encoder may have it."""
    level: list[Iterable[Any]] = [(value,)]
    while level:
        below: list[Iterable[Any]] = []
        for items in level:
            for item in items:
                sort = type(item)
                if sort is str or item is None or sort is bool:
                    continue
                if sort is int:
                    if not -MAX_INTEGER <= item <= MAX_INTEGER:
                        return False
                elif sort is dict:
                    for key in item:
                        if type(key) is not str or not key.isascii() or not key.isprintable():
                            return False
                    below.append(item.values())
                elif sort is list or sort is tuple:
                    below.append(item)
                else:
                    return False
        if below and levels == 0:
            return False
        levels -= 1
        level = below
    return True


def _encode(value: object, levels: int) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _ENCODE_TEXT(value)
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise Malformed("canonical JSON: an integer is beyond 2^53")
        return int.__repr__(value)
    if levels == 0:
        raise Malformed(f"canonical JSON: more than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _encode_mapping(value, levels - 1)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_encode(item, levels - 1) for item in value]) + "]"
    raise Malformed(f"canonical JSON: a {type(value).__name__} has no canonical form")


def _encode_mapping(value: Mapping[object, object], levels: int) -> str:
    members: list[str] = []
    for key in value:
        if not isinstance(key, str) or not key.isascii() or not key.isprintable():
            raise Malformed("canonical JSON: a key is not printable ASCII")
    for key in sorted(value):  # type: ignore[type-var]
        members.append(f"{_ENCODE_TEXT(str(key))}:{_encode(value[key], levels)}")
    return "{" + ",".join(members) + "}"


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER or abs(found := int(text)) > MAX_INTEGER:
        raise ValueError(text)
    return found


def may_be_large(text: str) -> bool:
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

SCAN = make_scanner(cast("Any", json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse)))
"""Reads JSON in which no number is large."""

SCAN_LARGE = make_scanner(
    cast(
        "Any",
        json.JSONDecoder(parse_float=_refuse, parse_int=_integer, parse_constant=_refuse),
    )
)
"""Reads any, and looks at each number."""
