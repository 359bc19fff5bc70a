"""Words that no committed file may hold: paths of one machine, hosts of a registry."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from contrib.lint.source import Finding

# Written so that this file does not match itself.
_MACHINE = re.compile(r"(?<![\w.})>-])/(?:roo[t]/|(?:wor[k]|tmp/[w]|opt/pyp[i])(?:/|\b(?![\w.-])))")
_REGISTRY = re.compile(r"\b(?:pypi\.or[g]|pythonhosted\.or[g])")


def committed(root: Path) -> list[str]:
    """Return the paths git knows under ``root``; none outside a repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False, text=True
    )
    return [name for name in listing.stdout.split("\0") if name]


def words(path: str, text: str) -> Iterator[Finding]:
    """Yield the lines of a file that name a machine's path or a registry's host."""
    for number, line in enumerate(text.splitlines(), 1):
        if _MACHINE.search(line):
            yield Finding(path, number, "names a path of one machine")
        if _REGISTRY.search(line):
            yield Finding(path, number, "names a package registry's host")
