"""The tables of discovery: scopes at an Authority, sources at a Connector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from svc.config.problems import shown
from svc.config.values import SourceTable
from svc.errors import Malformed
from svc.model.cluster.onward import read_onward_auth
from svc.model.cluster.scope import (
    MAX_SCOPES,
    MAX_SOURCES,
    DiscoveryScope,
    ScopeOrigin,
    check_scope,
)
from svc.model.ids import is_resource_id

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")

_SCOPE_KEYS = frozenset(
    {"name", "kinds", "onward_auth", "connectors", "id_prefix", "match_labels", "labels"}
)


def read_scopes(tables: list[dict[str, object]]) -> tuple[DiscoveryScope, ...]:
    """The scopes of ``discovery.auto_scopes``.

    Raises:
        ValueError: naming the scope.
    """
    found = tuple(_scope(at, table) for at, table in enumerate(tables))
    seen: set[str] = set()
    for each in found:
        if each.name in seen:
            raise ValueError(f"scope {each.name} is listed twice")
        seen.add(each.name)
    if len(found) > MAX_SCOPES:
        raise ValueError(f"must list at most {MAX_SCOPES} scopes")
    return found


def _scope(at: int, table: dict[str, object]) -> DiscoveryScope:
    name = table.get("name")
    is_named = isinstance(name, str) and is_resource_id(name)
    where = f"scope {name}" if is_named else f"[{at}]"
    unknown = sorted(table.keys() - _SCOPE_KEYS)
    if unknown:
        raise ValueError(f"{where}: unknown key {shown(unknown[0])}")
    prefix = table.get("id_prefix", "")
    if not isinstance(prefix, str):
        raise ValueError(f"{where}: id_prefix must be a string")
    try:
        scope = DiscoveryScope(
            name=name if is_named and isinstance(name, str) else "unnamed",
            kinds=_texts(where, table, "kinds"),
            onward_auth=tuple(map(read_onward_auth, _texts(where, table, "onward_auth"))),
            connectors=_texts(where, table, "connectors"),
            id_prefix=prefix,
            match_labels=_pairs(where, table, "match_labels"),
            labels=_pairs(where, table, "labels"),
            origin=ScopeOrigin.CONFIG,
        )
        check_scope(scope)
    except Malformed as refused:
        text = refused.text.removeprefix("scope unnamed: ").removeprefix(f"scope {name}: ")
        raise ValueError(f"{where}: {text}") from None
    if not is_named:
        raise ValueError(f"{where}: name is required and must be a DNS label")
    return scope


def _texts(where: str, table: Mapping[str, object], word: str) -> tuple[str, ...]:
    value = table.get(word, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{where}: {word} must be a list of strings")
    return tuple(value)


def _pairs(where: str, table: Mapping[str, object], word: str) -> dict[str, str]:
    value = table.get(word, {})
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError(f"{where}: {word} must be a table of strings")
    return value


_SOURCE_KEYS = frozenset({"name", "source", "every_secs"})
_EVERY_SECS = 10.0


def read_sources(tables: list[dict[str, object]]) -> tuple[SourceTable, ...]:
    """The tables of ``connector.discovery_sources``.

    Raises:
        ValueError: naming the table.
    """
    found = tuple(_source(at, table) for at, table in enumerate(tables))
    seen: set[str] = set()
    for each in found:
        if each.name in seen:
            raise ValueError(f"{each.name} is listed twice")
        seen.add(each.name)
    if len(found) > MAX_SOURCES:
        raise ValueError(f"must list at most {MAX_SOURCES} sources")
    return found


def _source(at: int, table: dict[str, object]) -> SourceTable:
    name, word, every = (
        table.get("name"),
        table.get("source"),
        table.get("every_secs", _EVERY_SECS),
    )
    if not isinstance(name, str) or not is_resource_id(name):
        raise ValueError(f"[{at}]: name is required and must be a DNS label")
    if not isinstance(word, str) or not _WORD.match(word):
        raise ValueError(f"[{at}]: source is required: a drop-in's name, such as file")
    is_number = isinstance(every, int | float) and not isinstance(every, bool)
    if not is_number or not 0.1 <= every <= 3600:  # type: ignore[operator]
        raise ValueError(f"[{at}]: every_secs must be a number from 0.1 to 3600")
    rest = {key: value for key, value in table.items() if key not in _SOURCE_KEYS}
    return SourceTable(
        name=name,
        source=word,
        every_secs=float(every),  # type: ignore[arg-type]
        table=MappingProxyType(rest),
        key_path=f"connector.discovery_sources[{at}]",
    )
