"""The facts of a request that policies read: as the key of an answer, and as Cedar reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from attrs import frozen

from svc.model.policy.access import AccessRequest, ContextValue
from svc.model.policy.terms import AttributeTerm

_SCALARS = frozenset({"Bool", "Long", "String", "ipaddr"})


@frozen(eq=False)
class FactRead:
    """One fact that a slice reads: how it becomes part of the key, and of the JSON.

    ``key`` is None where the value is its own key.
    """

    name: str
    key: Callable[[Any], Any] | None
    write: Callable[[Any], str]


def read_facts(reads: tuple[FactRead, ...], request: AccessRequest) -> tuple[Any, ...]:
    """The facts of the request that count, each as its key; None where it is absent."""
    get = request.context.get
    return tuple([get(one.name) if one.key is None else one.key(get(one.name)) for one in reads])


def read_of(fact: AttributeTerm) -> FactRead:
    """How a fact of the vocabulary is read."""
    write, start = _writer(fact), quote(fact.name) + ":"
    scalar = fact.type in _SCALARS
    return FactRead(fact.name, None if scalar else _key, lambda value: start + write(value))


def _key(value: ContextValue | None) -> Any:
    """The value in a form that can be a key, and from which it can be told again."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return tuple(sorted((name, _key(item)) for name, item in value.items()))
    return frozenset(value)


def _writer(fact: AttributeTerm) -> Callable[[Any], str]:
    """What turns a key of the fact's type into the JSON that Cedar reads."""
    match fact.type:
        case "Bool":
            return lambda value: "true" if value else "false"
        case "Long":
            return str
        case "String":
            return quote
        case "ipaddr":
            return lambda value: '{"__extn":{"fn":"ip","arg":' + quote(value) + "}}"
        case "Set<String>":
            return lambda value: "[" + ",".join(map(quote, sorted(value))) + "]"
    writers = {part.name: (quote(part.name) + ":", _writer(part)) for part in fact.type}

    def write_record(value: Any) -> str:
        fields = ((writers[name], item) for name, item in value)
        return "{" + ",".join(start + write(item) for (start, write), item in fields) + "}"

    return write_record
