"""Names that say nothing, errors that vanish, log lines that cannot be searched."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from contrib.lint.source import Finding, Source, dotted, functions

_EMPTY_WORD = re.compile(r"(^|_)(manager|handler|processor|helpers?|utils?)(_|$)")
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: A word of our own, and the field's word for it.
_STANDARD = {
    "desk": "service",
    "patience": "timeout",
    "picture": "state",
    "survey": "state",
    "tally": "counter",
    "wish": "request",
}
_LOG_LEVELS = {"debug", "info", "warn", "error", "critical", "failure"}
_DURABLE = "svc/runtime/durable.py"
_MOVES = {"os.replace", "os.renames", "shutil.move"}
_WIDE = {"Exception", "BaseException"}
#: Twisted has no other way to set them.
_OF_TWISTED = {"noisy", "numberAccepts"}


def names(source: Source) -> Iterator[Finding]:
    """Yield modules, classes and functions whose name does not say the thing."""
    if _says_nothing(PurePosixPath(source.path).stem):
        yield Finding(source.path, 1, "this module's name does not say what it is")
    for node in ast.walk(source.tree):
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and _says_nothing(node.name):
            yield source.found(node, f"{node.name}: the name does not say what it is")


def _says_nothing(name: str) -> bool:
    return bool(_EMPTY_WORD.search(_snake(name)))


def _snake(name: str) -> str:
    return _WORD_BORDER.sub("_", name).lower()


def standard_words(source: Source) -> Iterator[Finding]:
    """Yield names of ``svc`` with a word of our own where the field has a standard one."""
    if not source.under("svc"):
        return
    for node, name in _named(source):
        for word in set(_snake(name).split("_")) & set(_STANDARD):
            yield source.found(node, f"{name}: the field's word for {word} is {_STANDARD[word]}")


def _named(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """What a file names: itself, classes, functions, arguments and whatever it assigns."""
    yield source.tree, PurePosixPath(source.path).stem
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, node.name
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, node.id if isinstance(node, ast.Name) else node.attr


def errors(source: Source) -> Iterator[Finding]:
    """Yield except clauses that swallow everything, and promises of later work."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and _swallows(node):
            yield source.found(node, "raise it again, or log it with its reason")
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if dotted(raised) == "NotImplementedError":
                yield source.found(node, "no stubs: leave it out until it works")


def cancellations(source: Source) -> Iterator[Finding]:
    """Yield waits whose cancellation would pass for a failure of what is waited for.

    Twisted's CancelledError is an Exception: a coroutine that is stopped would log an error,
    or go on.
    """
    if not source.under("svc"):
        return
    for function in ast.walk(source.tree):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Try) and any(map(_waits, node.body)):
                yield from (
                    source.found(clause, "let CancelledError pass: it is our own stop")
                    for clause in _takes_stops(node)
                )


def _waits(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Await) for node in ast.walk(statement))


def _takes_stops(node: ast.Try) -> Iterator[ast.ExceptHandler]:
    for clause in node.handlers:
        named = [] if clause.type is None else list(map(dotted, _caught(clause.type)))
        if any(name.endswith("CancelledError") for name in named):
            return
        if clause.type is None or set(named) & _WIDE:
            within = [each for part in clause.body for each in ast.walk(part)]
            if not any(
                (isinstance(each, ast.Raise) and each.exc is None)
                or (isinstance(each, ast.Name) and each.id == "CancelledError")
                for each in within
            ):
                yield clause


def _caught(clause: ast.expr) -> list[ast.expr]:
    return clause.elts if isinstance(clause, ast.Tuple) else [clause]


def _swallows(clause: ast.ExceptHandler) -> bool:
    if clause.type is None:
        return True
    if not any(dotted(one) in _WIDE for one in _caught(clause.type)):
        return False
    within = [node for part in clause.body for node in ast.walk(part)]
    passed_on = any(isinstance(node, ast.Name) and node.id == clause.name for node in within)
    return not passed_on and not any(_tells(node) for node in within)


def _tells(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return True
    return isinstance(node, ast.Call) and (
        dotted(node.func).rpartition(".")[2] in _LOG_LEVELS | {"errback"}
    )


def renames(source: Source) -> Iterator[Finding]:
    """Yield files moved or replaced past the one place that sees the move onto the disk."""
    if not source.under("svc") or source.under(_DURABLE, "svc/testing", "svc/demo"):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        # str.replace takes two arguments, Path.replace takes one.
        is_path = dotted(node.func.value).endswith("path") or isinstance(node.func.value, ast.BinOp)
        is_path = is_path and node.func.attr == "replace" and len(node.args) == 1
        if is_path or node.func.attr == "rename" or dotted(node.func) in _MOVES:
            yield source.found(
                node, "svc.runtime.durable moves files so that a power cut undoes nothing"
            )


def log_lines(source: Source) -> Iterator[Finding]:
    """Yield log calls whose message is made up at run time; data belongs in fields."""
    if not source.under("svc"):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        logger, _, level = dotted(node.func).rpartition(".")
        logs = level in _LOG_LEVELS and logger.rpartition(".")[2].lstrip("_") in {"log", "logger"}
        if logs and isinstance(node.args[0], ast.JoinedStr | ast.BinOp | ast.Call):
            yield source.found(node, "a log message is a constant; data goes in fields")


def assembly(source: Source) -> Iterator[Finding]:
    """Yield wiring that changes an object after it was made: what it needs goes to its constructor.

    What only comes later is passed as a function, or as an event that the object tells.
    """
    if not source.under("svc/compose"):
        return
    for node in ast.walk(source.tree):
        for target in _assigned(node):
            if (
                isinstance(target, ast.Attribute)
                and target.attr not in _OF_TWISTED
                and dotted(target.value) not in ("self", "cls")
            ):
                yield source.found(
                    node, f"{dotted(target)}: pass it to the constructor, or as a function"
                )


def _assigned(node: ast.AST) -> list[ast.expr]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    return [
        each
        for target in targets
        for each in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]


def sentences(source: Source) -> Iterator[Finding]:
    """Yield modules without a docstring and tests without their sentence."""
    if source.text.strip() and ast.get_docstring(source.tree) is None:
        yield Finding(source.path, 1, "say what this module is for")
    if source.under("tests"):
        for node in functions(source):
            if node.name.startswith("test_") and ast.get_docstring(node) is None:
                yield source.found(node, f"{node.name}: say in a sentence what must hold")
