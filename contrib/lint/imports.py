"""Who may import what: the part that import-linter's floors cannot say.

Some libraries have one home, so that what they do stays in one room.  The
reactor, the host's clock and the host's randomness come in at the top of the
house and are passed down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contrib.lint.source import Finding, Source, dotted

#: Library -> the only places under svc/ that import it.
HOMES = {
    "sqlite3": ("svc/store",),
    "psycopg2": ("svc/store", "svc/demo"),
    "cedarpy": ("svc/policy",),
    "h2": ("svc/wire", "svc/rpc"),
    "hpack": ("svc/wire",),
    "pydantic": ("svc/config",),
    "klein": ("svc/telemetry",),
    "prometheus_client": ("svc/telemetry",),
    "click": ("svc/cli",),
    "pyrage": ("svc/ops/backup",),
    "nacl": ("svc/model/sodium.py", "svc/recording/sealing.py"),
}

BANNED = {
    "unittest.mock": "write a memory implementation that passes the contract",
    "mock": "write a memory implementation that passes the contract",
    "asyncio": "there is one reactor in a process",
    "twisted.internet.defer.inlineCallbacks": "async def, or callbacks inside a Protocol",
    "twisted.plugin.getPlugins": "it unpickles dropin.cache",
    "time.sleep": "ask the clock",
}

#: Programs that stand for a peer live as the peer does.
PEERS = {"asyncio": ("contrib/bench/grpc_ends.py",)}

#: The host's own clocks and randomness, and what is passed in instead.
PASSED_IN = {
    "time.time": "pass in now()",
    "datetime.datetime.now": "pass in now()",
    "datetime.datetime.utcnow": "pass in now()",
    "time.monotonic": "pass in the clock",
    "os.urandom": "pass in entropy(n)",
    "secrets": "pass in entropy(n)",
    "random": "pass in entropy(n), or jitter",
    "uuid.uuid4": "pass in entropy(n)",
}

REACTOR = "twisted.internet.reactor"
REACTOR_HOMES = ("svc/tap.py", "svc/cli")
#: Where the host's own are taken; a drop-in is made at import, so it takes them itself.
COMPOSERS = (*REACTOR_HOMES, "svc/compose", "svc/demo", "svc/setup", "svc/testing", "svc/plugins")
#: Floors above the drop-ins; import-linter does not see a folder without __init__.py.
ABOVE_PLUGINS = ("svc.doctor", "svc.compose", "svc.demo", "svc.setup", "svc.cli", "svc.tap")


def _imported(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yield ``(node, dotted name)`` for each import; ``from a import b`` gives ``a.b``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def _used(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yield ``(node, dotted name)`` for imports and for names reached through them."""
    known: dict[str, str] = {}
    for node, name in _imported(source):
        yield node, name
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if name.split(".")[-1] == alias.name.split(".")[-1]:
                    known[alias.asname or alias.name] = name
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = dotted(node).partition(".")
            if head in known and rest:
                yield node, f"{known[head]}.{rest}"


def _within(name: str, table: str) -> bool:
    return name == table or name.startswith(table + ".")


def imports(source: Source) -> Iterator[Finding]:
    """Yield imports and uses that belong elsewhere in the house, or nowhere."""
    for node, name in _used(source):
        for banned, instead in BANNED.items():
            if _within(name, banned) and not source.under(*PEERS.get(banned, ())):
                yield source.found(node, f"{banned} is banned: {instead}")
        if source.under("svc"):
            yield from _inside_svc(source, node, name)


def _inside_svc(source: Source, node: ast.AST, name: str) -> Iterator[Finding]:
    if _within(name, REACTOR) and not source.under(*REACTOR_HOMES):
        yield source.found(node, "the reactor is imported in svc/tap.py and svc/cli only")
    if not source.under(*COMPOSERS):
        for taken, instead in PASSED_IN.items():
            if _within(name, taken):
                yield source.found(node, f"{taken}: {instead}")
    for library, homes in HOMES.items():
        if _within(name, library) and not source.under(*homes):
            yield source.found(node, f"{library} is imported in {', '.join(homes)} only")
    if source.under("svc/plugins"):
        for floor in ABOVE_PLUGINS:
            if _within(name, floor):
                yield source.found(node, f"a drop-in does not import {floor}")
