"""Names that a person, a scraper or a service manager sees: the neutral ones, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import click
from twisted.trial.unittest import SynchronousTestCase

from svc.cli import svc
from svc.config.keys import KEYS
from svc.telemetry.series import SERIES
from tests.support.proof import proves
from tests.support.sources import nodes

FOREIGN = {
    "RUST_LOG",
    "STATE_DIRECTORY",
    "KUBERNETES_SERVICE_HOST",
    "SUDO_UID",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
}
"""Variables that the documents, the service manager, an orchestrator and a desktop name."""
NO_VARIABLES = {
    "CAP_NET_BIND_SERVICE",
    "CHAIN_DOMAIN",
    "FIRST_SEQ",
    "END_STREAM",
    "TCP_INFO",
    "OBJECT_COLUMN",
    "OBJECT_POLICY",
    "OBJECT_RULE",
    "OBJECT_TABCONSTRAINT",
    "OBJECT_TRIGGER",
}
"""Names in ``__all__``, a flag of HTTP/2, an option of sockets, a capability, words of
PostgreSQL: read from no environment."""


class TermTests(SynchronousTestCase):
    """`authority` took the place of `auth` where one types it, and nowhere else."""

    @proves("U-HIS-04")
    def test_auth(self) -> None:
        """No key and no command says `auth`; the metrics that always did still do."""
        typed = {part for key in KEYS for part in re.split(r"[._]", key.path)}
        typed |= set(svc.list_commands(click.Context(svc)))
        self.assertNotIn("auth", typed)
        self.assertIn("authority", typed)
        names = {one.name for one in SERIES if "auth" in one.name.split("_")}
        self.assertEqual(
            names, {"svc_active_auth_relay_connections", "svc_active_auth_relay_streams"}
        )


def ours() -> Iterator[ast.AST]:
    """Everything in the program's own sources; generated modules aside."""
    for path, found in nodes().items():
        if not path.name.endswith("_pb2.py"):
            yield from found


@cache
def texts() -> list[str]:
    """Every text in them."""
    found = [node.value for node in ours() if isinstance(node, ast.Constant)]
    return [value for value in found if isinstance(value, str)]


def found(pattern: str) -> set[str]:
    """What a pattern finds in any text."""
    return {each for text in texts() for each in re.findall(pattern, text)}


class NamesTests(SynchronousTestCase):
    """What strings the program holds."""

    @proves("G-GEN-02")
    def test_prefixes(self) -> None:
        """Series, variables, targets, units, headers and directories begin with svc or SVC_."""
        self.assertEqual([one.name for one in SERIES if not one.name.startswith("svc_")], [])
        variables = {text for text in texts() if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", text)}
        others = {name for name in variables if not name.startswith("SVC_")}
        self.assertEqual(others - NO_VARIABLES, FOREIGN)
        self.assertIn("SVC_LOG_FORMAT", variables)
        targets = {
            str(word.value.value)
            for node in ours()
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Logger"
            for word in node.keywords
            if word.arg == "namespace" and isinstance(word.value, ast.Constant)
        }
        self.assertLessEqual({"svc", "svc_proxy"}, targets)
        self.assertEqual([name for name in targets if not re.fullmatch(r"svc(_[a-z]+)?", name)], [])
        self.assertEqual(found(r"/var/lib/([\w.-]+)"), {"svc"})
        self.assertLessEqual(found(r"/etc/([\w.-]+)"), {"ssh", "svc", "systemd"})
        self.assertLessEqual(found(r"(?:~|HOME)/\.([\w-]+)"), {"svc"})
        units = found(r"\b([\w-]+)\.(?:service|socket|timer)\b")
        self.assertEqual({name for name in units if not name.startswith("svc-")}, set())
        self.assertLessEqual(found(r"\b[\w-]+-identity\b"), {"svc-identity"})
