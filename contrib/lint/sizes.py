"""A smoke alarm for files and functions that have grown long."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from contrib.lint.source import Finding, Source, code_lines, functions

FILE_CAP = 300
TEST_FILE_CAP = 500
FUNCTION_CAP = 40
TEST_FUNCTION_CAP = 60
IMPORT_CAP = 40
"""Modules of ours that one module imports: beyond them it knows too many features."""

FOLDER_CAP = 15
"""Modules in one folder, its face not counted."""

LOOKED_AT: Mapping[str, str] = {
    "contrib/verify_audit.py": "one file of its own, which an auditor takes along and reads",
    "svc/authority/admin.py:service": "a table: the method, the action, the function",
    "svc/authority/enroll/bootstrap.py:_node": "one transaction, read from top to bottom",
    "svc/authority/sessions/issue.py": "the one place where a grant is made, read as a whole",
    "svc/authority/state/rewind.py:_record": "one record, a field a line",
    "svc/authority/registry/register.py:_keep": "one registration from its start to its end",
    "svc/cli/setup.py:init": "the options of a command, an option a line",
    "svc/compose/authority/ingest.py:audit_queue": "wiring: an argument a line",
    "svc/compose/authority/control.py:control_service": "wiring: an argument a line",
    "svc/compose/authority/role.py:_assembled": "wiring: an argument a line",
    "svc/compose/authority/role.py:make_authority": "wiring: an argument a line",
    "svc/compose/authority/shared.py:shared_services": "wiring: an argument a line",
    "svc/compose/client.py:_assembled": "wiring: an argument a line",
    "svc/compose/connector.py:services": "wiring: an argument a line",
    "svc/compose/process.py:_assembled": "wiring: an argument a line",
    "svc/compose/proxy/role.py:make_proxy": "wiring: an argument a line",
    "svc/compose/proxy/role.py:services": "wiring: an argument a line",
    "svc/config/keys.py": "a catalogue: an entry for each configuration key",
    "svc/config/keys.py:_endpoints": "a part of the catalogue",
    "svc/config/keys.py:_limits": "a part of the catalogue",
    "svc/config/keys.py:_numbers": "a part of the catalogue",
    "svc/config/keys.py:_oidc": "a part of the catalogue",
    "svc/config/keys.py:_recordings": "a part of the catalogue",
    "svc/config/keys.py:_roles": "a part of the catalogue",
    "svc/config/keys.py:_top": "a part of the catalogue",
    "svc/config/keys.py:_wire": "a part of the catalogue",
    "svc/model/audit/events.py": "a catalogue: an entry for each event of the audit log",
    "svc/store/sql/audit.py:append": "one transaction, read from top to bottom",
    "svc/telemetry/series.py": "a catalogue: an entry for each metric",
    "svc/telemetry/series.py:_decisions": "a part of the catalogue",
    "svc/telemetry/series.py:_relays": "a part of the catalogue",
    "svc/telemetry/series.py:_sessions": "a part of the catalogue",
    "tests/config/malformed.py": "a table: each configuration that is refused, and the text",
    "tests/proxy/pieces.py:_assemble": "wiring: an argument a line",
    "tests/policy/test_vocabulary.py:test_wrong_terms": "a table",
}
"""What is over a cap and was looked at, with the reason why it stays as it is."""


def shelves(sources: Iterable[Source]) -> Iterator[Finding]:
    """Yield each folder of many modules whose face does not say why it is one shelf."""
    folders: dict[str, list[Source]] = {}
    for source in sources:
        if source.under("svc"):
            folders.setdefault(source.path.rpartition("/")[0], []).append(source)
    for folder, modules in folders.items():
        faces = [one for one in modules if one.path.endswith("/__init__.py")]
        if len(modules) - len(faces) > FOLDER_CAP and not any(
            "one shelf" in " ".join((ast.get_docstring(one.tree) or "").split()) for one in faces
        ):
            text = f"{len(modules)} modules: divide them by meaning, or say why they are one shelf"
            yield Finding(f"{folder}/__init__.py", 1, text)


def sizes(source: Source) -> Iterator[Finding]:
    """Yield files and functions that are over their cap, in lines of code, or import too much.

    Blank lines, comments, docstrings and imports do not count.  A function
    inside another counts for itself alone, so that a state machine's one
    builder may hold its outputs.
    """
    tests = source.under("tests", "contrib")
    code = code_lines(source)
    cap = TEST_FILE_CAP if tests else FILE_CAP
    if len(code) > cap and source.path not in LOOKED_AT:
        yield Finding(source.path, 1, f"{len(code)} lines of code; a file over {cap} is divided")
    modules = {name for name in _imported(source) if name.partition(".")[0] == "svc"}
    if len(modules) > IMPORT_CAP and not tests:
        text = f"{len(modules)} modules of ours are imported; one over {IMPORT_CAP} is divided"
        yield Finding(source.path, 1, text)
    cap = TEST_FUNCTION_CAP if tests else FUNCTION_CAP
    for node in functions(source):
        own = code & _span(node)
        for inner in _nested(node):
            own -= _span(inner)
        if len(own) > cap and f"{source.path}:{node.name}" not in LOOKED_AT:
            text = f"{node.name} has {len(own)} lines of code; a function over {cap} is divided"
            yield source.found(node, text)


def _imported(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _nested(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the functions directly inside ``node``, not those inside them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _nested(child)
