"""The client configurations of a person: which there are, and which one commands use.

Each has an identity of its own, where it lies in a directory of its own.  Blocks for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from svc.client.places import (
    CLIENT_FILE,
    CONTEXTS_DIRECTORY,
    SYSTEM_CONFIG,
    chosen,
    home,
    is_selectable,
    selected,
    selection_file,
)
from svc.errors import ConfigError, Fault, SvcError
from svc.runtime import durable

DEFAULT = "default"
SYSTEM = "system"
MOST = 10_000
"""Entries of the person's directory that are looked at, beside ``client.toml``."""

_SUFFIX = ".toml"


class NoSuchContext(SvcError):
    """No configuration has this name."""

    fault = Fault.NOT_FOUND
    reason = "no_context"


@frozen
class ClientContext:
    """One client configuration.

    Attributes:
        name: What it is selected by; the path of one that lies elsewhere.
        rule: What made commands use it, if they do: ``--config``, ``SVC_CONFIG``, ``selected``,
            ``own`` or ``system``; else empty.
    """

    name: str
    path: str
    rule: str = ""

    @property
    def is_selected(self) -> bool:
        """Whether commands use it."""
        return bool(self.rule)


def discover(given: str | None, environ: Mapping[str, str]) -> list[ClientContext]:
    """Every configuration there is, the one that commands use marked; in order of their names.

    Args:
        given: By ``--config``.
    """
    found: dict[str, str] = {}
    for name, path in _places(environ):
        found.setdefault(path, name)
    others = (selected(environ), environ.get("SVC_CONFIG"), given)
    for path in (os.path.abspath(each) for each in others if each):
        found.setdefault(path, path)
    choice = chosen(given, environ)
    used = os.path.abspath(choice[0]) if choice else ""
    rules = {used: choice[1]} if choice else {}
    contexts = [ClientContext(name, path, rules.get(path, "")) for path, name in found.items()]
    return sorted(contexts, key=lambda one: (one.name != DEFAULT, one.name))


def _places(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names and paths of those that need not be told: the person's, and the system's."""
    own = home(environ)
    taken = {DEFAULT, SYSTEM}
    if os.path.lexists(os.path.join(own, CLIENT_FILE)):
        yield DEFAULT, os.path.join(own, CLIENT_FILE)
    for name in _entries(own):
        path = os.path.join(own, name)
        if name == CLIENT_FILE:
            continue
        if name.endswith(_SUFFIX):
            named = name.removesuffix(_SUFFIX)
        elif os.path.isfile(os.path.join(path, CLIENT_FILE)) and name != CONTEXTS_DIRECTORY:
            named, path = name, os.path.join(path, CLIENT_FILE)
        else:
            continue
        yield (path if named in taken else named), path
        taken.add(named)
    if os.path.isfile(SYSTEM_CONFIG):
        yield SYSTEM, SYSTEM_CONFIG


def _entries(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST), strict=False)]
    except OSError:
        return []
    return sorted(name for name in names if not name.startswith(".") and name.isprintable())


def looked_at(environ: Mapping[str, str]) -> list[str]:
    """Where configurations are found that nothing names."""
    own = home(environ)
    return [
        os.path.join(own, CLIENT_FILE),
        os.path.join(own, "NAME", CLIENT_FILE),
        os.path.join(own, f"NAME{_SUFFIX}"),
        SYSTEM_CONFIG,
    ]


def named(contexts: list[ClientContext], name: str) -> ClientContext:
    """The one of this name, or path.

    Raises:
        NoSuchContext: there is none.
    """
    path = os.path.abspath(name)
    found = [one for one in contexts if one.name == name] or [
        one for one in contexts if one.path == path
    ]
    if not found:
        names = ", ".join(one.name for one in contexts) or "none"
        raise NoSuchContext(f"{name}: no such context; there are: {names}")
    return found[0]


def select(context: ClientContext, environ: Mapping[str, str]) -> None:
    """Let commands use it from now on, where neither an option nor a variable says otherwise.

    Raises:
        ConfigError: the selection cannot be written, or would not be read as this path.
    """
    path = Path(selection_file(environ))
    if not is_selectable(context.path):
        raise ConfigError(
            ascii(context.path), "cannot be selected: the path is too long or not printable"
        )
    try:
        # Both are private: whoever joins or signs in here later needs it so.
        for directory in (path.parent.parent, path.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        durable.replace(path, os.fsencode(context.path) + b"\n")
    except OSError as error:
        raise ConfigError(str(path), f"cannot be written: {error.strerror}") from None
