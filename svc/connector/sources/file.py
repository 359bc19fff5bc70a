"""The discovery source ``file``: a list of resources that another program writes.

TOML or JSON, told apart by the file's name.  Each entry has ``id``, ``kind``, ``address`` and the
kind's other keys, as in ``connector.resources``, and may have ``labels`` and ``onward_auth``.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from zope.interface import implementer

from svc.errors import ConfigError, Malformed
from svc.interfaces.discovery import FoundResource, IDiscoverySource, IFinder, SourceTools
from svc.model.cluster.scope import MAX_PUBLISHED

MAX_BYTES = 1 << 20
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_KEYS = frozenset({"path"})
_OURS = frozenset({"id", "kind", "labels", "onward_auth"})


@implementer(IDiscoverySource)
@frozen
class FileSource:
    """See the module."""

    name: str = "file"

    def open(self, table: Mapping[str, object], path: str, tools: SourceTools) -> IFinder:
        """The list in the file that ``path`` names."""
        unknown = sorted(set(table) - _KEYS)
        if unknown:
            raise ConfigError(f"{path}.{unknown[0]}", "the source file has no such key")
        file = table.get("path")
        if not isinstance(file, str) or not os.path.isabs(file):
            raise ConfigError(f"{path}.path", "required: the absolute path of a file")
        if not file.endswith((".toml", ".json")):
            raise ConfigError(f"{path}.path", "must end in .toml or .json")
        return FileFinder(Path(file), tools)


@implementer(IFinder)
@define
class FileFinder:
    """Reads the file each time, and parses it where its content is another."""

    path: Path
    tools: SourceTools = field(repr=False)
    _content: bytes | None = field(default=None, init=False, repr=False)
    _found: Sequence[FoundResource] = field(default=(), init=False, repr=False)

    async def find(self) -> Sequence[FoundResource]:
        """What the file lists.

        Raises:
            Malformed: it cannot be read, is too long, or is no list of resources.
        """
        content = await self.tools.in_thread(partial(_read, self.path))
        if content != self._content:
            self._found = await self.tools.in_thread(partial(_parsed, self.path, content))
            self._content = content
        return self._found


def _read(path: Path) -> bytes:
    """The file's content.  Blocks.

    Raises:
        Malformed: there is none, it is too long, or others may write it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as e:
        raise Malformed(f"{path}: {e.strerror}") from None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Malformed(f"{path}: is not a regular file")
        if found.st_mode & stat.S_IWOTH:
            raise Malformed(f"{path}: every user may write it; run: chmod o-w {path}")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise Malformed(f"{path}: is longer than {MAX_BYTES >> 20} MiB")
    return content


def _parsed(path: Path, content: bytes) -> Sequence[FoundResource]:
    """The resources of a file.

    Raises:
        Malformed: naming the file, and the entry.
    """
    try:
        text = content.decode("utf-8")
        tree: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as e:
        what = "TOML" if path.suffix == ".toml" else "JSON"
        raise Malformed(f"{path}: {_line(e)}is not {what}") from None
    entries = tree.get("resources") if isinstance(tree, dict) else None
    if not isinstance(entries, list) or set(tree) != {"resources"}:
        raise Malformed(f"{path}: must hold a list `resources`, and nothing else")
    if len(entries) > MAX_PUBLISHED:
        raise Malformed(f"{path}: has more than {MAX_PUBLISHED} resources")
    return tuple(_entry(f"{path}: resources[{at}]", one) for at, one in enumerate(entries))


def _line(fault: Exception) -> str:
    """Where a parser stopped, without its words: they quote the text."""
    if isinstance(fault, json.JSONDecodeError):
        return f"line {fault.lineno}: "
    found = _AT_LINE.search(str(fault))
    return "" if found is None else f"line {found[1]}: "


def _entry(where: str, entry: object) -> FoundResource:
    if not isinstance(entry, dict):
        raise Malformed(f"{where}: must be a table")
    for name in ("id", "kind", "address"):
        if not isinstance(entry.get(name), str):
            raise Malformed(f"{where}: {name} is required and must be a string")
    labels, mode = entry.get("labels", {}), entry.get("onward_auth", "")
    if not isinstance(labels, dict) or not all(isinstance(one, str) for one in labels.values()):
        raise Malformed(f"{where}: labels must be a table of strings")
    if not isinstance(mode, str):
        raise Malformed(f"{where}: onward_auth must be a string")
    return FoundResource(
        id=entry["id"],
        kind=entry["kind"],
        table={name: value for name, value in entry.items() if name not in _OURS},
        labels=labels,
        onward_auth=mode,
        where=where,
    )
