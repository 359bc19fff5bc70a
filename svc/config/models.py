"""The pydantic models, generated from the table of keys: strict, closed, frozen."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, create_model

from svc.config.keys import KEYS, Key

_CONFIG = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)
NOT_IN_THIS_BUILD = "not in this build; remove it"


def _annotated(key: Key) -> Any:
    toml: Any = key.form.toml
    check = AfterValidator(key.form.check)
    if not key.later:
        return Annotated[toml, check]
    default = _default(key)

    def refuse(value: object) -> object:
        if value != default:
            raise ValueError(NOT_IN_THIS_BUILD)
        return value

    return Annotated[toml, check, AfterValidator(refuse)]


def _default(key: Key) -> Any:
    """The final value that an absent key means."""
    if key.default is None:
        return None
    return key.form.check(TypeAdapter(key.form.toml).validate_python(key.default, strict=True))


def _model(name: str, keys: list[tuple[list[str], Key]]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    tables: dict[str, list[tuple[list[str], Key]]] = {}
    for parts, key in keys:
        if len(parts) == 1:
            fields[parts[0]] = (_annotated(key), _default(key))
        else:
            tables.setdefault(parts[0], []).append((parts[1:], key))
    for table, inner in tables.items():
        model = _model(table, inner)
        fields[table] = (model, model())
    return create_model(name, __config__=_CONFIG, **fields)


def settings_model() -> type[BaseModel]:
    """The model of a whole file."""
    return _model("settings", [(key.path.split("."), key) for key in KEYS])
