"""No key is accepted and then ignored: its roles read it, or it is refused."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svc
from svc.config import read_settings
from svc.config.keys import KEYS
from svc.errors import ConfigError
from tests.config.malformed import GOOD

ROOTS = {
    "authority": ("svc.compose.authority.role", "svc.compose.process"),
    "proxy": ("svc.compose.proxy.role", "svc.compose.process"),
    "connector": ("svc.compose.connector", "svc.compose.process"),
    "client": ("svc.compose.client", "svc.compose.person"),
}
"""What puts each role together; they and what they import in ROOMS read the settings."""

ROOMS = ("svc.compose.", "svc.join.")
OTHERS = frozenset(name for names in ROOTS.values() for name in names)

ELSEWHERE = {
    ("authority", "identity.issuing_ca_days"): "svc.cli.authority.keys",
    ("client", "profile"): "svc.cli.person",
    ("client", "plugins.checks"): "svc.compose.added_checks",
}
"""Read by a command of that side, and not by the running role."""

CHECKED = {("authority", "tunnel.lease_renew_secs")}
"""Compared with a key that the role reads, and refused where the two do not go together."""

LATER = {
    "proxy.tls.cert": '"/c"',
    "proxy.tls.key": '"/k"',
}
"""A good value other than the default for each key that this build does not serve."""


@cache
def source(name: str) -> ast.Module | None:
    """The module's tree; None for what is no module of ours."""
    path = Path(svc.__path__[0]).joinpath(*name.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return ast.parse(file.read_text("utf-8"))
    return None


def imported(tree: ast.Module) -> Iterator[str]:
    """The names that a module imports from ours, modules and what is in them alike."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def of_role(role: str) -> set[str]:
    """The modules of the room that put *role* together, other roles' left out."""
    found: set[str] = set()
    waiting = list(ROOTS[role])
    while waiting:
        name = waiting.pop()
        tree = source(name)
        if name in found or tree is None:
            continue
        found.add(name)
        waiting += [
            one
            for one in imported(tree)
            if one.startswith(ROOMS) and (one not in OTHERS or one in ROOTS[role])
        ]
    return found


@cache
def read_in(name: str) -> frozenset[str]:
    """``table.key`` for each attribute read in a module, a table's short names looked through."""
    tree = source(name)
    assert tree is not None, name
    tables = dict(_short_names(tree))
    reads = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            reads.add(f"{_table(node.value, tables)}.{node.attr}")
    return frozenset(reads)


def _short_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that stand for a table: ``tunnel, entropy = settings.tunnel, …``; parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            [target] = node.targets[:1]
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for left, right in pairs:
                if isinstance(left, ast.Name) and isinstance(right, ast.Attribute):
                    yield left.id, right.attr


def _table(value: ast.expr, tables: Mapping[str, str]) -> str:
    if isinstance(value, ast.Attribute):
        return value.attr
    return tables.get(value.id, value.id) if isinstance(value, ast.Name) else ""


class UsedTests(SynchronousTestCase):
    """The table of keys against the code."""

    def test_every_key_is_read_by_its_roles(self) -> None:
        """Whoever sets a key in the file of a role that is listed for it changes something."""
        unread = []
        for key in KEYS:
            path = ".".join(f"settings.{key.path}".split(".")[-2:])
            for role in sorted(set(key.roles) & set(ROOTS)):
                modules = of_role(role) | {ELSEWHERE.get((role, key.path), "svc.compose.process")}
                if key.later or (role, key.path) in CHECKED:
                    continue
                if not any(path in read_in(name) for name in modules):
                    unread.append(f"{role}: {key.path}")
        self.assertEqual(unread, [])

    def test_all_reads_what_its_roles_read(self) -> None:
        """``svc all`` is listed wherever one of the three roles in it is."""
        missing = [
            key.path
            for key in KEYS
            if set(key.roles) & {"authority", "proxy", "connector"} and "all" not in key.roles
        ]
        self.assertEqual(missing, [])

    def test_what_is_not_served_is_refused(self) -> None:
        """Each key that this build does not serve is refused by name, whatever role has it."""
        self.assertEqual(set(LATER), {key.path for key in KEYS if key.later})
        for path, value in LATER.items():
            for role in ("authority", "proxy", "connector"):
                refusal = self.assertRaises(
                    ConfigError, read_settings, f"{path} = {value}\n{GOOD[role]}", role
                )
                self.assertIn(f"{path}: not in this build", str(refusal), role)
                self.assertIn("remove it", str(refusal))
