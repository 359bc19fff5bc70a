"""Reports everything that is wrong with a configuration at once, without secrets.

No text made here ever holds a value of the configuration: only key paths,
line numbers, forms, and the nearest known name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from svc.errors import ConfigError

_SHOWN = 80


class ConfigErrors(ConfigError):
    """Every refusal found in one reading; ``errors`` holds them one by one.

    The text has one line for each, in the form ``<path>: <what is wrong>``.
    """

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        super().__init__(errors[0].where, errors[0].what)
        self.errors = tuple(errors)
        self.text = "\n".join(error.text for error in self.errors)


def naming_file(refused: ConfigErrors, path: str) -> ConfigErrors:
    """The same refusals, each with the file that it is about: nobody has named it."""
    named = [
        one
        if one.where.startswith((path, "SVC_"))
        else ConfigError(f"{path}: {one.where}", one.what)
        for one in refused.errors
    ]
    return ConfigErrors(named)


class SharedStateDir(ConfigError):
    """A unit of an old release gives every role the one state directory."""

    reason = "shared_state_dir"
    exit_code = 238


def shown(name: str) -> str:
    """A name of the operator's own, fit to be printed: escaped and not too long."""
    text = name if name.isascii() and name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def whole(path: str) -> str:
    """A file's path, escaped as it must be and never cut."""
    return path if path.isprintable() and path.isascii() else ascii(path)[1:-1]


_LISTENERS = frozenset(
    {"listen", "listen_addr", "listen_address", "listener", "listeners", "bind", "bind_address"}
)
"""Names of keys in former releases, whose defaults are not ours (U-NOTE-36)."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known dotted name most like *name*, or None when none is near.

    A name whose last part is right but stands in the wrong table is nearest.
    """
    names = list(known)
    last = name.rpartition(".")[2]
    moved = [each for each in names if each.rpartition(".")[2] == last]
    if moved:
        return moved[0]
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return close[0]
    by_last = {each.rpartition(".")[2]: each for each in reversed(names)}
    close = get_close_matches(last, list(by_last), n=1, cutoff=0.75)
    return by_last[close[0]] if close else None


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for an unknown name, with the nearest known one."""
    if _LISTENERS & set(name.split(".")):
        return f"unknown {what}; listeners are keys of [endpoints], and so are the addresses dialed"
    like = nearest(name, known)
    return f"unknown {what}" if like is None else f"unknown {what}; did you mean {like}?"
