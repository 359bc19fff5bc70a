"""Classes across the whole tree: their names, how they are made, what their methods say."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from contrib.lint.source import Finding, Source, dotted

MOST_POSITIONAL = 3


def class_names(sources: Iterable[Source]) -> Iterator[Finding]:
    """Yield each class of ``svc`` whose name another class of ``svc`` has."""
    first: dict[str, str] = {}
    for source in sources:
        if source.under("svc"):
            for node in _classes(source):
                if node.name in first:
                    text = f"{node.name}: a class of this name is in {first[node.name]}"
                    yield source.found(node, text)
                else:
                    first[node.name] = source.path


def positional(sources: Sequence[Source]) -> Iterator[Finding]:
    """Yield constructions of our classes with many arguments that are not named."""
    classes = [node for source in sources for node in _classes(source)]
    any_number = {node.name for node in classes if _takes_any_number(node)}
    ours = ({node.name for node in classes} | {"cls"}) - any_number
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call) or len(node.args) <= MOST_POSITIONAL:
                continue
            made = dotted(node.func).rpartition(".")[2]
            if made in ours and not any(isinstance(each, ast.Starred) for each in node.args):
                text = f"{made}: name the arguments, there are more than {MOST_POSITIONAL}"
                yield source.found(node, text)


def docstrings(sources: Sequence[Source]) -> Iterator[Finding]:
    """Yield public methods of ``svc`` that say nowhere what they are for.

    A method that an interface or a class above declares is described there.
    Methods in camelCase are Twisted's.
    """
    declared = _declared(sources)
    for source in sources:
        if not source.under("svc"):
            continue
        for node in _classes(source):
            if node.name.startswith("_"):
                continue
            above = _names_above(node, declared)
            for method in node.body:
                if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                described = ast.get_docstring(method) or method.name in above
                if not described and _is_asked(method):
                    text = f"{node.name}.{method.name}: say in a sentence what it is for"
                    yield source.found(method, text)


def _takes_any_number(node: ast.ClassDef) -> bool:
    return any(
        isinstance(each, ast.FunctionDef) and each.name == "__init__" and each.args.vararg
        for each in node.body
    )


def _classes(source: Source) -> Iterator[ast.ClassDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            yield node


def _is_asked(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = {dotted(each).rpartition(".")[2] for each in method.decorator_list}
    is_twisted = method.name != method.name.lower()
    return not (method.name.startswith("_") or is_twisted or marks & {"setter", "overload"})


def _above(node: ast.ClassDef) -> set[str]:
    """The names of what *node* inherits from or implements."""
    above = [dotted(base).rpartition(".")[2] for base in node.bases]
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and dotted(mark.func).rpartition(".")[2] in {
            "implementer",
            "provider",
        }:
            above += [dotted(each).rpartition(".")[2] for each in mark.args]
    return set(above)


def _declared(sources: Iterable[Source]) -> Mapping[str, tuple[set[str], set[str]]]:
    """By name of a class: the methods in its body, and the classes above it."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for source in sources:
        for node in _classes(source):
            methods = {
                each.name
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            methods |= {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
            methods |= {
                target.id
                for each in node.body
                if isinstance(each, ast.Assign)
                for target in each.targets
                if isinstance(target, ast.Name)
            }
            found[node.name] = methods, _above(node)
    return found


def _names_above(node: ast.ClassDef, declared: Mapping[str, tuple[set[str], set[str]]]) -> set[str]:
    names: set[str] = set()
    left, seen = _above(node), {node.name}
    while left:
        one = left.pop()
        if one not in seen and one in declared:
            seen.add(one)
            methods, above = declared[one]
            names |= methods
            left |= above
    return names
