"""Personal values of the entries of batches: where an entry holds a hash for one, and its hash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from svc.errors import Malformed
from svc.model.audit.plain_json import read_plain
from svc.model.canonical import is_shallow

_VALUE = b"svc-request-value-v1\0"
_SHORT = 128


def value_hash(path: str, salt: bytes, value: str) -> str:
    """What stands in an entry for a personal value, in hex."""
    return salted_hash(salt, hashed_of(path, value))


def hashed_of(path: str, value: str) -> bytes:
    """What is hashed of a personal value after the salt: the same for each that hides it."""
    where = path.encode()
    return len(where).to_bytes(2, "big") + where + value.encode("utf-8")


def salted_hash(salt: bytes, hashed: bytes) -> str:
    """The hash of what :func:`hashed_of` gave, with this salt, in hex."""
    return sha256(_VALUE + salt + hashed).hexdigest()


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


def hash_of_value(path: str, salt: bytes, value: str) -> str:
    """What stands in an entry for a value that is JSON, in hex.  Raises Malformed: it is none."""
    hashed = (_known_hashed if len(value) <= _SHORT else _hashed)(path, value)
    return salted_hash(salt, hashed)


def _hashed(path: str, value: str) -> bytes:
    """What is hashed of a value that is JSON, of no more levels than a record may have.

    How deep JSON may be for a parser differs from one place in our code to the next.
    """
    if not is_shallow(read_plain(value)):
        raise Malformed("request batch: a personal value has too many levels")
    return hashed_of(path, value)


_known_hashed = lru_cache(maxsize=1024)(_hashed)
"""The requests of a session hide the same few values."""


def hidden_paths(entry: Mapping[str, Any]) -> list[str]:
    """Where an entry holds a hash for a personal value, in order."""
    context = entry.get("context")
    return sorted(_hidden("request.context", context)) if type(context) is dict else []


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
