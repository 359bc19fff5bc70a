"""Reads one role's configuration: returns frozen settings, or all errors at once.

Blocking; it runs before the reactor does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from attrs import fields, has
from pydantic import BaseModel, ValidationError

from svc.config import values
from svc.config.keys import KEYS, ROLES
from svc.config.models import settings_model
from svc.config.problems import ConfigErrors, SharedStateDir, shown, unknown, whole
from svc.config.rules import check
from svc.config.source import Tree, overlay, parse, read_file
from svc.errors import ConfigError

_NOTHING: Mapping[str, str] = MappingProxyType({})
_INDEX = re.compile(r"(\[\d+\]): ")
_TABLES = {name: cls for name, cls in vars(values).items() if isinstance(cls, type) and has(cls)}


def load_settings(path: str, role: str, environ: Mapping[str, str]) -> values.RoleSettings:
    """The settings of *role* from the file at *path* and the environment over it.

    Args:
        path: The file that ``--config`` names.
        role: One of ``authority``, ``proxy``, ``connector``, ``all``, ``client``.
        environ: The process's environment; only ``SVC_`` names and
            ``STATE_DIRECTORY`` are read.

    Raises:
        ConfigError: the file cannot be read.
        ConfigErrors: its text, or the environment, is refused: every refusal, or that it cannot be
            parsed.
        SharedStateDir: when the unit gives the state directory of all roles (exit 238).
    """
    text = read_file(path)
    return read_settings(text, role, environ, path)


def read_settings(
    text: str, role: str, environ: Mapping[str, str] = _NOTHING, path: str = "config"
) -> values.RoleSettings:
    """The settings that a TOML text gives; as :func:`load_settings` without the file."""
    if role not in ROLES:
        raise ValueError(role)
    try:
        tree = parse(text, whole(path))
    except ConfigError as refused:
        raise ConfigErrors([refused]) from None
    origin, errors = overlay(tree, environ)
    _fill(tree, role)
    read: BaseModel | None = None
    try:
        read = _model().model_validate(tree)
    except ValidationError as error:
        errors.extend(_refusals(error, origin))
    errors.extend(check(tree, role, environ, origin))
    shared = [error for error in errors if isinstance(error, SharedStateDir)]
    if shared:
        raise shared[0]
    if errors or read is None:
        raise ConfigErrors(errors)
    return _settings(read, role, path)


def _fill(tree: Tree, role: str) -> None:
    """Write into *tree* what the absence of a key means for this role alone."""
    for key in KEYS:
        if role not in key.defaults:
            continue
        table, _, name = key.path.rpartition(".")
        found = tree.setdefault(table, {}) if table else tree
        if isinstance(found, dict):  # else the model refuses it
            found.setdefault(name, key.defaults[role])


@cache
def _model() -> type[BaseModel]:
    return settings_model()


def _settings(read: BaseModel, role: str, path: str) -> values.RoleSettings:
    taken: dict[str, Any] = {"role": role, "path": path}
    for field in fields(values.RoleSettings):
        if field.name in taken:
            continue
        value = getattr(read, field.name)
        taken[field.name] = _plain(value, str(field.type))
    taken["cluster"], taken["state_dir"] = taken["cluster"] or "", taken["state_dir"] or ""
    return values.RoleSettings(**taken)


def _plain(value: Any, type_name: str) -> Any:
    """The frozen value of a table of the model, with the tables in it."""
    if not isinstance(value, BaseModel):
        return value
    table = _TABLES[type_name]
    inner = {each.name: _plain(getattr(value, each.name), str(each.type)) for each in fields(table)}
    return table(**inner)


def _refusals(error: ValidationError, origin: Mapping[str, str]) -> Iterator[ConfigError]:
    forms = {key.path: key.form.words for key in KEYS}
    reported: set[tuple[str, str]] = set()
    for each in error.errors(include_url=False, include_input=False):
        names = [part for part in each["loc"] if isinstance(part, str)]
        path = ".".join(shown(name) for name in names)
        where = _indexed(each["loc"])
        if each["type"] == "extra_forbidden":
            yield ConfigError(where, unknown("key", path, _known()))
            continue
        key = next((path for path in _prefixes(names) if path in forms), "")
        if each["type"] == "value_error":
            at, what = _at(str(each["ctx"]["error"]))
            where += at
        else:
            what = f"must be {forms[key]}" if key else "must be a table"
            where = key or where
        if key in origin:
            where = f"{where} ({origin[key]})"
        if (where, what) not in reported:
            reported.add((where, what))
            yield ConfigError(where, what)


def _prefixes(names: list[str]) -> list[str]:
    return [".".join(names[:count]) for count in range(len(names), 0, -1)]


def _at(what: str) -> tuple[str, str]:
    """Part ``[2]: sentence`` of a check that looks at a whole list."""
    found = _INDEX.match(what)
    return (found[1], what[found.end() :]) if found else ("", what)


def _known() -> list[str]:
    """Every key's path, and every table's, so that a misspelled table is known too."""
    tables = [key.path.rpartition(".")[0] for key in KEYS]
    return list(dict.fromkeys([*(key.path for key in KEYS), *filter(None, tables)]))


def _indexed(loc: tuple[int | str, ...]) -> str:
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{shown(part)}" if text else shown(part)
    return text
