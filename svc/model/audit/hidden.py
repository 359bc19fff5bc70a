"""Personal values of the entries of batches: where an entry holds a hash for one, and its hash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from svc.errors import Malformed
from svc.model.audit.plain_json import quoted
from svc.model.canonical import decode
from svc.model.policy.access import MAX_LEVELS, fact_from_form

_VALUE = b"svc-request-value-v1\0"
_AROUND = 48
_TOP = 2
"""How many names lead to a fact that is in no record: ``context`` and its own."""


def value_hash(path: str, salt: bytes, value: str) -> str:
    """What stands in an entry for a personal value, in hex."""
    return salted_hash(salt, hashed_of(path, value))


def hashed_of(path: str, value: str) -> bytes:
    """What is hashed of a personal value after the salt: the same for each that hides it."""
    return hashed_path(path) + value.encode("utf-8")


def hashed_path(path: str) -> bytes:
    """How that begins, whatever the value is."""
    where = path.encode()
    return len(where).to_bytes(2, "big") + where


def salted_hash(salt: bytes, hashed: bytes) -> str:
    """The hash of what :func:`hashed_of` gave, with this salt, in hex."""
    return sha256(_VALUE + salt + hashed).hexdigest()


def salted_text(path: str, salt: bytes, value: str) -> str:
    """A personal value as members of a JSON list."""
    return f'{quoted(path)},"{salt.hex()}",{quoted(value)}'


def said_bytes(path: str, said: str) -> int:
    """How many bytes a value takes beside a batch, a little more than less.

    Args:
        said: What :func:`salted_text` writes of it.
    """
    text = path + said
    return (len(text) if text.isascii() else len(text.encode())) + _AROUND


def hidden_at(entry: Mapping[str, Any], path: str) -> str:
    """The hash that an entry holds at *path*; empty where it holds none."""
    there: Any = entry
    for name in _names(path):
        there = there.get(name) if type(there) is dict else None
    if type(there) is not dict or len(there) != 1 or type(there.get("personal")) is not str:
        return ""
    return str(there["personal"])


@lru_cache(maxsize=256)
def _names(path: str) -> tuple[str, ...]:
    """The members that lead to a value of an entry: few paths exist."""
    return tuple(path.removeprefix("request.").split("."))


def hash_of_value(path: str, salt: bytes, value: str, known: dict[tuple[str, str], bytes]) -> str:
    """What stands in an entry for the canonical JSON of a fact, in hex.

    What this takes can be put in the place of the hash, and decided over again.

    Args:
        known: What was found of the other values of a batch, whose requests hide the same few.  It
            goes with the batch: values that were erased meanwhile are not to stay in memory.

    Raises:
        Malformed: it is not the one form of anything that a fact may be.
    """
    hashed = known.get((path, value))
    if hashed is None:
        hashed = known[path, value] = hashed_value(path, value)
    return salted_hash(salt, hashed)


def hashed_value(path: str, value: str) -> bytes:
    """As :func:`hashed_of`, if *value* is the one form of what a fact may be; or Malformed."""
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("request batch: a personal value is not Unicode") from None
    fact_from_form(decode(data), levels=MAX_LEVELS - len(_names(path)) + _TOP)
    return hashed_of(path, value)


def hidden_paths(entry: Mapping[str, Any]) -> list[str]:
    """Where an entry holds a hash for a personal value, in order."""
    return sorted(hidden_in_order(entry))


def hidden_in_order(entry: Mapping[str, Any]) -> list[str]:
    """The same, in the order in which they stand in the entry."""
    context = entry.get("context")
    return _hidden("request.context", context) if type(context) is dict else []


def _hidden(path: str, values: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in values.items():
        if type(value) is not dict:
            continue
        if set(value) == {"personal"} and isinstance(value["personal"], str):
            found.append(f"{path}.{name}")
        else:
            found += _hidden(f"{path}.{name}", value)
    return found
