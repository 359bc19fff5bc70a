"""What a rule looks at: one parsed source file; and what it returns: findings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

TREES = ("svc", "tests", "contrib", "twisted")
KEPT = "tests/upgrade/golden/"
"""Files of an earlier build, kept as they were."""


@frozen
class Finding:
    """One breach of a rule, at a line of a file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@frozen
class Source:
    """A Python file: its path from the root with ``/``, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        """Parse ``text`` as the file ``path``; SyntaxError if it is no Python."""
        return cls(path, text, ast.parse(text, path))

    def found(self, node: ast.AST, text: str) -> Finding:
        """Return a finding at the line of ``node``."""
        return Finding(self.path, getattr(node, "lineno", 1), text)

    def under(self, *places: str) -> bool:
        """Say whether this file is one of ``places`` or lies in one of them."""
        return any(self.path == p or self.path.startswith(p.rstrip("/") + "/") for p in places)


def sources(root: Path) -> Iterator[Source]:
    """Yield every Python file of ours under ``root``, generated ones left out."""
    for tree in TREES:
        for path in sorted((root / tree).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.endswith("_pb2.py") and not name.startswith(KEPT):
                yield Source.parse(name, path.read_text(encoding="utf-8"))


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of a file, nested ones too."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(source: Source) -> set[int]:
    """Return the numbers of the lines of code: no blank, comment, docstring or import line."""
    quiet: set[int] = set()
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom):
            continue
        if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Constant):
            quiet.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.text.splitlines(), 1)
    return {n for n, line in lines if line.strip() and not line.lstrip().startswith("#")} - quiet


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for a chain of names and attributes, ``""`` for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""
