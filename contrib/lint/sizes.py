"""Caps on the size of files and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contrib.lint.source import Finding, Source, functions

FILE_CAP = 400
TEST_FILE_CAP = 600
FUNCTION_CAP = 50


def sizes(source: Source) -> Iterator[Finding]:
    """Yield files and functions that outgrew their cap.

    A docstring counts; a function inside another counts for itself alone, so
    that a state machine's one builder may hold its outputs.
    """
    lines = len(source.text.splitlines())
    cap = TEST_FILE_CAP if source.under("tests") else FILE_CAP
    if lines > cap:
        yield Finding(source.path, 1, f"{lines} lines; a file may have {cap}")
    for node in functions(source):
        length = _length(node) - sum(_length(one) for one in _nested(node))
        if length > FUNCTION_CAP:
            text = f"{node.name} has {length} lines; a function may have {FUNCTION_CAP}"
            yield source.found(node, text)


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _nested(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the functions directly inside ``node``, not those inside them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _nested(child)
