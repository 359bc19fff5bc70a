"""Reads facts of a request as people type them, by the types of the vocabulary.

``hour=14``, ``read_only=true``, ``effects=read,write`` (a set) and
``proxy_reported.source_address=10.0.0.7`` (a fact within a record).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import ip_network

from svc.errors import Malformed
from svc.model.policy.access import LARGEST_INTEGER, ContextValue
from svc.model.policy.terms import AttributeTerm
from svc.policy.vocabulary import ActionShape


def facts_of(
    typed: Iterable[tuple[str, str]], action: str, shape: ActionShape
) -> dict[str, ContextValue]:
    """The facts of a request for *action* from their names and values.

    Raises:
        Malformed: the action has no such fact, it is given twice, or the value is not of its type.
    """
    found: dict[str, ContextValue] = {}
    records: dict[str, dict[str, ContextValue]] = {}
    for name, value in typed:
        outer, dot, inner = name.partition(".")
        term = _term(shape.facts.values(), outer, name, action)
        if isinstance(term.type, str):
            if dot:
                raise _no_fact(name, action, [])
            _put(found, name, name, _value(term, name, value))
        else:
            if not dot:
                parts = ", ".join(f"{outer}.{part.name}" for part in term.type)
                raise Malformed(f"fact {name}: it is a record; give its parts: {parts}")
            part = _term(term.type, inner, name, action)
            _put(records.setdefault(outer, {}), inner, name, _value(part, name, value))
    return {**found, **records}


def _put(into: dict[str, ContextValue], key: str, name: str, value: ContextValue) -> None:
    if key in into:
        raise Malformed(f"fact {name}: it is given more than once")
    into[key] = value


def _term(terms: Iterable[AttributeTerm], wanted: str, name: str, action: str) -> AttributeTerm:
    known = {term.name: term for term in terms}
    if wanted not in known:
        raise _no_fact(name, action, get_close_matches(wanted, sorted(known), 1, 0.6))
    return known[wanted]


def _no_fact(name: str, action: str, near: list[str]) -> Malformed:
    hint = f"; the nearest is {near[0]}" if near else ""
    return Malformed(
        f"fact {name}: requests for {action} do not have it{hint}; see the vocabulary reference"
    )


def _value(term: AttributeTerm, name: str, value: str) -> ContextValue:
    match term.type:
        case "Bool":
            if value not in ("true", "false"):
                raise Malformed(f"fact {name}: must be true or false")
            return value == "true"
        case "Long":
            return _whole(name, value)
        case "ipaddr":
            try:
                ip_network(value, strict=False)
            except ValueError:
                raise Malformed(f"fact {name}: must be an IP address") from None
            return value
        case "Set<String>":
            return frozenset(filter(None, value.split(",")))
    return value


def _whole(name: str, value: str) -> int:
    digits = value.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(LARGEST_INTEGER))
    if not is_number or int(digits) > LARGEST_INTEGER:
        raise Malformed(f"fact {name}: must be a whole number, within ±2^53")
    return int(value)
