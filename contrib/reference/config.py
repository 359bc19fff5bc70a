"""The page of the configuration, from the table of its keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc.config.keys import ENVIRONMENT, KEYS, NODES, ROLES, Key
from svc.config.source import variable

_HEAD = """\
# Configuration

Made from `svc/config/keys.py` by `python -m contrib.reference`; do not edit.

`svc --config FILE <role>` reads one TOML file: a regular file of at most 1 MiB in UTF-8, owned by
the role's user or root, which no other user may write. An unknown key, a wrong type or an invalid
value ends the start with status 1; all errors are reported together, each with its key and never
with its value. A key marked *not in this build* is checked for its form; any value but the default
is then refused.

A key marked *Reloads* takes a new value without a restart: `svc --config FILE reload --role ROLE`,
or SIGHUP, has the running role read the file again ([how](../how-to/reload.md)). If any other key
has changed, nothing takes effect.

`SVC_<TABLE>__<KEY>` in the environment overrides the key of that name in the file:
`SVC_TELEMETRY__METRICS_LISTEN` overrides `telemetry.metrics_listen`, `SVC_PROFILE` overrides
`profile`. Its value has TOML's syntax, so a string keeps its quotes. An unknown `SVC_` name is an
error.
"""


def markdown() -> str:
    """The page."""
    return "\n".join([_HEAD, *_keys(), "", "## Environment", "", *_environment(), ""])


def _keys() -> Iterator[str]:
    yield "| Key | Form | Default | Roles | Meaning |"
    yield "|---|---|---|---|---|"
    for key in KEYS:
        later = " *Not in this build.*" if key.later else ""
        reloads = " *Reloads.*" if key.reloads else ""
        required = f" Required for {', '.join(key.required)}." if key.required else ""
        yield (
            f"| `{key.path}` | {key.form.words} | {_defaults(key)} | {_roles(key)} "
            f"| {key.meaning}{required}{later}{reloads} |"
        )


def _defaults(key: Key) -> str:
    others = (f"; {role}: {_default(value)}" for role, value in key.defaults.items())
    return "".join((_default(key.default), *others))


def _default(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, list):
        return "`[" + ", ".join(f'"{each}"' for each in value) + "]`"
    return f"`{value}`"


def _roles(key: Key) -> str:
    if key.roles == ROLES:
        return "every role"
    return "every node" if key.roles == NODES else ", ".join(key.roles)


def _environment() -> Iterator[str]:
    yield "| Variable | Meaning |"
    yield "|---|---|"
    yield "| `RUST_LOG` | Log filter, default `warn,svc=info`; replaces the default entirely. |"
    for name, meaning in ENVIRONMENT.items():
        yield f"| `{name}` | {meaning} |"
    yield f"| `{variable('telemetry.metrics_listen')}`, … | Overrides the key of that name. |"
