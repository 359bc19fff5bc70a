"""The program's own sources, parsed once for all tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def trees() -> Mapping[Path, ast.Module]:
    """Every module of svc; below the repository, in order."""
    return {
        path.relative_to(ROOT): ast.parse(path.read_text("utf-8"), str(path))
        for path in sorted((ROOT / "svc").rglob("*.py"))
    }


@cache
def nodes() -> Mapping[Path, tuple[ast.AST, ...]]:
    """The constants, calls and imports of each."""
    wanted = ast.Constant | ast.Call | ast.Import | ast.ImportFrom
    return {
        path: tuple(node for node in ast.walk(tree) if isinstance(node, wanted))
        for path, tree in trees().items()
    }
