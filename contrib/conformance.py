"""Write ``docs/conformance.md``: each checklist row, its status, and the test that proves it.

A row is done when a test under ``tests/`` carries ``@proves("<its id>")``, and
by nothing else.  The marks are read from the source; no test is run or
imported here, so this says what is claimed, and ``make test`` whether it holds.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

IDS = "docs/requirements.ids"
PAGE = "docs/conformance.md"

#: Group of rows -> what it is about.  The order is that of the page.
TITLES: Mapping[str, str] = {
    "G-GEN": "Shape of the program and its names",
    "G-ROLE": "The roles",
    "G-CFG": "Configuration and environment",
    "G-LOG": "Log records and their filter",
    "G-TEL": "The telemetry listener",
    "G-RDY": "Readiness",
    "G-MET": "Series",
    "G-TUN": "The reverse tunnel",
    "G-SES": "Sessions, the gate and the data plane",
    "G-HLT": "gRPC health",
    "G-DOC": "Doctor",
    "G-AUD": "The audit log",
    "G-IDN": "Node identity and sign-in",
    "G-TRC": "Traces",
    "G-CLI": "The command line",
    "G-POL": "Policy, catalog, authorities, licence",
    "G-HA": "Several Authorities, several Proxies",
    "G-ERR": "Errors",
    "G-LIM": "Limits and timings",
    "G-STORE": "Migration status of the store",
    "U-REL": "Channels, tags and artifacts",
    "U-HIS": "Release history",
    "U-CLS": "Choosing a rollout class",
    "U-CMD": "Older spellings of commands",
    "U-MIG": "Store migrations",
    "U-PRE": "Before an upgrade",
    "U-BAK": "The paired backup",
    "U-VER": "The verification gate",
    "U-REC": "Recovery",
    "U-PHA": "Phases of the 0.11 upgrade",
    "U-OIDC": "The sign-in profile",
    "U-FLT": "Mixed fleets",
    "U-NOTE": "Upgrading from each earlier version",
    "T-GEN": "Agent tool: files and sections",
    "T-PROV": "Agent tool: provider",
    "T-STOR": "Agent tool: storage",
    "T-PERM": "Agent tool: permissions",
    "T-PROF": "Agent tool: profiles",
    "T-MCP": "Agent tool: tool servers",
    "T-DIR": "Agent tool: directories of skills, agents and styles",
    "T-TASK": "Agent tool: agents and tasks",
    "T-PLUG": "Agent tool: plug-ins",
    "T-MEM": "Agent tool: memory",
    "T-HOOK": "Agent tool: hooks",
    "T-UI": "Agent tool: screen, grants, sandbox",
    "T-SWARM": "Agent tool: swarm",
    "T-DISC": "Agent tool: discovery",
    "T-SEC": "Agent tool: secrets",
    "T-LIM": "Agent tool: limits",
    "G-OPEN": "Gateway: choices the documents leave open",
    "U-OPEN": "Upgrades: choices the documents leave open",
    "T-OPEN": "Agent tool: choices the documents leave open",
    "X": "Traps",
}

LONG = " (long form)"
"""Behind the place of a proof that runs with ``SVC_LONG=1`` alone: ``make test`` leaves it out."""

Proofs = Mapping[str, Sequence[str]]


def marks(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield ``(row id, place of the proof)`` for each mark in a test file.

    Raises:
        ValueError: A mark's ids are not literal strings.
    """
    yield from _marks(ast.parse(text, path).body, path, is_long=False)


def _marks(body: Sequence[ast.stmt], place: str, *, is_long: bool) -> Iterator[tuple[str, str]]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        here = f"{place}::{node.name}"
        runs_long = is_long or _is_long(node)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _is(decorator.func, "proves"):
                for one in decorator.args:
                    if not (isinstance(one, ast.Constant) and isinstance(one.value, str)):
                        raise ValueError(f"{here}: @proves takes literal ids")
                    yield one.value, here + (LONG if runs_long else "")
        if isinstance(node, ast.ClassDef):
            yield from _marks(node.body, here, is_long=runs_long)


def _is_long(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether only the long form runs it: it is marked so, or each of a class's own tests is."""
    if any(_is(each, "in_long_form") for each in node.decorator_list):
        return True
    if not isinstance(node, ast.ClassDef):
        return False
    functions = [
        each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    tests = [each for each in functions if each.name.startswith("test")]
    return bool(tests) and all(map(_is_long, tests))


def _is(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )


def proofs(root: Path) -> Proofs:
    """Return row id -> places of its proofs, over all test files under ``root``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for row, place in marks(name, path.read_text(encoding="utf-8")):
            found[row].append(place)
    return found


def page(rows: Sequence[str], proved: Proofs) -> str:
    """Return the whole page for these rows and proofs."""
    done = sum(row in proved for row in rows)
    lines = [
        "# Conformance",
        "",
        "Made by `make conformance` from the tests that carry `@proves`; do not edit.",
        "A row is done when a test claims it, and `make test` or `make fault` runs that test.",
        "",
        "A *long form* is run only by `make fault LONG=1`; a row that has no other says so.",
        "",
        f"{done} of {len(rows)} rows are done.",
    ]
    for group, title in TITLES.items():
        members = [row for row in rows if row.rpartition("-")[0] == group]
        count = sum(row in proved for row in members)
        lines += ["", f"## {group}: {title} ({count} of {len(members)})", ""]
        lines += ["| Row | Status | Proof |", "|---|---|---|"]
        for row in members:
            places = proved.get(row, ())
            where = "<br>".join(map(_shown, places))
            lines.append(f"| {row} | {_status(places)} | {where} |")
    return "\n".join(lines) + "\n"


def _shown(place: str) -> str:
    return f"`{place.removesuffix(LONG)}`" + (LONG if place.endswith(LONG) else "")


def _status(places: Sequence[str]) -> str:
    if not places:
        return "open"
    return "done, long form only" if all(place.endswith(LONG) for place in places) else "done"


def unknown(rows: Sequence[str], proved: Proofs) -> list[str]:
    """Return a sentence for each proof of a row that the checklist does not have."""
    known = set(rows)
    return [
        f"{place}: no row {row}"
        for row, places in sorted(proved.items())
        if row not in known
        for place in places
    ]


def run(root: Path, check: bool) -> list[str]:
    """Write the page, or with ``check`` compare it; return what is wrong, a sentence each."""
    rows = (root / IDS).read_text(encoding="utf-8").split()
    proved = proofs(root)
    wrong = unknown(rows, proved)
    text = page(rows, proved)
    target = root / PAGE
    if not check:
        target.write_text(text, encoding="utf-8")
    elif not target.is_file() or target.read_text(encoding="utf-8") != text:
        wrong.append(f"{PAGE} is stale: run make conformance")
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Run over this checkout; ``--check`` writes nothing.  Return the exit status."""
    wrong = run(Path(__file__).resolve().parents[1], "--check" in arguments)
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
