"""Caps on the size of files and functions."""

from __future__ import annotations

from collections.abc import Iterator

from contrib.lint.source import Finding, Source, functions

FILE_CAP = 400
TEST_FILE_CAP = 600
FUNCTION_CAP = 50


def sizes(source: Source) -> Iterator[Finding]:
    """Yield files and functions that outgrew their cap; a docstring counts too."""
    lines = len(source.text.splitlines())
    cap = TEST_FILE_CAP if source.under("tests") else FILE_CAP
    if lines > cap:
        yield Finding(source.path, 1, f"{lines} lines; a file may have {cap}")
    for node in functions(source):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_CAP:
            text = f"{node.name} has {length} lines; a function may have {FUNCTION_CAP}"
            yield source.found(node, text)
