"""Run every rule over the tree; print the findings; exit 1 if there are any."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from contrib.lint.classes import class_names, docstrings, positional
from contrib.lint.habits import (
    assembly,
    cancellations,
    errors,
    log_lines,
    names,
    renames,
    sentences,
    standard_words,
)
from contrib.lint.imports import imports
from contrib.lint.sizes import shelves, sizes
from contrib.lint.source import Finding, sources
from contrib.lint.words import committed, words

TREE_RULES = (class_names, positional, docstrings, shelves)
RULES = (
    sizes,
    imports,
    names,
    standard_words,
    errors,
    cancellations,
    renames,
    log_lines,
    sentences,
    assembly,
)


def findings(root: Path) -> Iterator[Finding]:
    """Yield every finding in the tree at ``root``."""
    every = list(sources(root))
    for source in every:
        for rule in RULES:
            yield from rule(source)
    for tree_rule in TREE_RULES:
        yield from tree_rule(every)
    for name in committed(root):
        path = root / name
        if path.is_file():
            yield from words(name, path.read_text(encoding="utf-8", errors="replace"))


def main() -> int:
    """Print the findings, one a line, and return the exit status."""
    found = sorted(set(map(str, findings(Path(__file__).resolve().parents[2]))))
    for line in found:
        print(line)
    print(f"contrib.lint: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
