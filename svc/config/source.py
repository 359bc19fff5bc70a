"""Merges a file and an environment into one tree of TOML values.

A syntax error is told by its line's number and key alone: parsers quote the text, and the
text may hold a secret.
"""

from __future__ import annotations

import grp
import math
import os
import pwd
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from svc.config.keys import ENVIRONMENT, KEYS
from svc.config.problems import shown, unknown, whole
from svc.errors import ConfigError

MAX_BYTES = 1 << 20
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_SETS = re.compile(r"\s*([\w.-]+)\s*=")
_TWICE = ("Cannot declare", "Cannot overwrite", "Cannot mutate", "Duplicate inline table key")
_PREFIX = "SVC_"

Tree = dict[str, Any]


def read_file(path: str) -> str:
    """The text of a configuration file.  Blocking; called before the reactor runs.

    Raises:
        ConfigError: when it is not a regular file of ours, too large or not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise ConfigError(whole(path), "is a symbolic link; name the file itself") from None
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(whole(path), f"cannot be read: {why}") from None
    except ValueError:
        raise ConfigError("--config", "the path contains a NUL character") from None
    try:
        _check_owner(path, os.fstat(descriptor))
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise ConfigError(whole(path), "is larger than 1 MiB")
    if data.startswith(b"\xef\xbb\xbf"):
        raise ConfigError(whole(path), "starts with a byte order mark; save the file without it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(whole(path), f"line {line}: is not UTF-8") from None


def _check_owner(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(whole(path), "is not a regular file")
    if status.st_uid not in (0, os.geteuid()):
        owner = _user(status.st_uid)
        by_root = (
            "root reads only files that no other user can change; " if not os.geteuid() else ""
        )
        what = f"is owned by {owner}; {by_root}run this as {owner}, or make root its owner"
        raise ConfigError(whole(path), what)
    shared = stat.S_IWOTH if _private_group(status) else stat.S_IWOTH | stat.S_IWGRP
    if status.st_mode & shared:
        raise ConfigError(whole(path), f"other users can write to it; run chmod go-w {quote(path)}")


def _user(uid: int) -> str:
    """The user's name; of a uid without one, the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _private_group(status: os.stat_result) -> bool:
    """Whether the file's group is its owner's own, with nobody else in it."""
    if status.st_gid != status.st_uid:
        return False
    try:
        return not grp.getgrgid(status.st_gid).gr_mem
    except KeyError:
        return False


def parse(text: str, where: str) -> Tree:
    """The tree of a TOML text; *where* names it in a refusal."""
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(where, "is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(where, _syntax(str(error), text)) from None
    for path, value in _leaves(tree, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(shown(path), "must be a finite number")
    return tree


def _syntax(message: str, text: str) -> str:
    at = _AT_LINE.search(message)
    line = f"line {at[1]}{_key_of(text, int(at[1]))}: " if at else ""
    if message.startswith(_TWICE):
        return f"{line}a key or table is defined twice"
    if "end of document" in message:
        return "is not valid TOML: a string, array or table is not closed at the end of the file"
    return f"{line}is not valid TOML"


def _key_of(text: str, number: int) -> str:
    """The key that a line sets; only one of ours is named, anything else could be a value."""
    found = _SETS.match(text.split("\n")[number - 1])
    name = found[1].rpartition(".")[2] if found else ""
    known = {key.path.rpartition(".")[2] for key in KEYS}
    return f", key {name}" if name in known else ""


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{at}]")
    else:
        yield path, value


def overlay(tree: Tree, environ: Mapping[str, str]) -> tuple[dict[str, str], list[ConfigError]]:
    """Lay the ``SVC_`` variables over *tree*, in place.

    Returns:
        Which variable set which dotted path, and the refusals.
    """
    paths = {variable(key.path): key.path for key in KEYS}
    origin: dict[str, str] = {}
    errors: list[ConfigError] = []
    for name in sorted(environ):
        if not name.startswith(_PREFIX) or name in ENVIRONMENT:
            continue
        path = paths.get(name)
        if path is None:
            what = unknown("variable", name, [*paths, *ENVIRONMENT])
            errors.append(ConfigError(shown(name), what))
            continue
        try:
            _put(tree, path.split("."), _value(name, environ[name]))
        except ConfigError as error:
            errors.append(error)
        else:
            origin[path] = name
    return origin, errors


def variable(path: str) -> str:
    """The environment variable that overrides a key."""
    return _PREFIX + path.replace(".", "__").upper()


def _value(name: str, text: str) -> object:
    form = "must be a TOML value; a string needs its quotes, as in '\"text\"'"
    try:
        tree = tomllib.loads(f"value = {text}\n")
    except (ValueError, RecursionError):
        raise ConfigError(name, form) from None
    if tree.keys() != {"value"}:
        raise ConfigError(name, form)
    for _, value in _leaves(tree, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(name, "must be a finite number")
    return tree["value"]


def _put(tree: Tree, parts: list[str], value: object) -> None:
    for part in parts[:-1]:
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):  # the file's own mistake; the model will name it
            return
        tree = inner
    tree[parts[-1]] = value
