"""Values made from types alone: the same in every build, whatever classes and fields are called."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, Union, get_args, get_origin

from attrs import fields, has, resolve_types


def made(kind: Any, given: Mapping[str, Any] | None = None, place: str = "0") -> Any:
    """A value of type *kind*; every field is set, none to its default.

    Args:
        given: Values for some places, which a type alone does not say.
        place: The indexes of the fields that lead there, joined by dots: ``0.3``
            is the fourth field of what was asked for.
    """
    if given and place in given:
        return given[place]
    digest = sha256(place.encode()).digest()
    origin, inner = get_origin(kind), get_args(kind)
    if kind is str:
        return digest[:16].hex()
    if kind is bytes:
        return digest
    if kind is bool:
        return True
    if kind is int:
        return int.from_bytes(digest[:2]) + 1
    if kind is float:
        return int.from_bytes(digest[:4]) / 8
    if origin in (Union, types.UnionType):
        (first, *_) = (each for each in inner if each is not type(None))
        return made(first, given, place)
    if origin in (tuple, list, Sequence, frozenset) or getattr(origin, "__name__", "") in {
        "Sequence",
        "Iterable",
        "Collection",
    }:
        both = [made(inner[0], given, f"{place}.{n}") for n in range(2)]
        return frozenset(both) if origin is frozenset else tuple(both)
    if origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
        # One: a map of protobuf has no order.
        return {"k": made(inner[1], given, f"{place}.0")}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    if has(kind):
        resolve_types(kind)
        values = [
            (one.alias, made(one.type, given, f"{place}.{n}"))
            for n, one in enumerate(fields(kind))
            if one.init
        ]
        return kind(**dict(values))
    raise TypeError(f"{place}: no value for {kind}")
