"""Which facts of a request's context a policy, or a part of one, can look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from cedarpy import pst


def reads_of(part: Any) -> frozenset[str] | None:
    """The facts that an expression, or a tuple of clauses, can look at; None: perhaps all.

    Only ``context.name`` and ``context has name`` are read as one fact; any
    other use of ``context`` counts as all of it.
    """
    found: set[str] = set()
    waiting: list[Any] = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, pst.GetAttr) and _is_context(node.base):
            found.add(node.attr)
        elif isinstance(node, pst.HasAttr) and _is_context(node.base):
            found.add(node.attrs[0])
        elif _is_context(node):
            return None
        else:
            waiting += _children(node)
    return frozenset(found)


def _is_context(node: object) -> bool:
    return isinstance(node, pst.Var) and node.name == "context"


def _children(node: Any) -> list[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    if isinstance(node, tuple):
        return list(node)
    if is_dataclass(node):
        return [getattr(node, part.name) for part in fields(node)]
    return []
