"""JSON and base64url as tokens and key sets must hold them: one meaning, or refused.  Pure."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*\Z")


def read_object(data: bytes) -> Mapping[str, Any]:
    """The JSON object in *data*.

    Raises:
        ValueError: it is none, names a member twice, or holds what is no JSON.
    """
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


def decode_base64url(text: str) -> bytes:
    """The bytes of *text*, which has no padding and no other spelling.

    Raises:
        ValueError: it is not of that form.
    """
    if _BASE64URL.match(text) is None:
        raise ValueError("it is not base64url")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if encode_base64url(data) != text:
        raise ValueError("it is not base64url in its one form")
    return data


def encode_base64url(data: bytes) -> str:
    """Without padding."""
    return urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member is named twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
