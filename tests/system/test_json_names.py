"""The JSON of every command, at one running gateway: one name for one thing."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import DATA, KEYS, unknown
from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.processes import Ran, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, POLICY, GatewayTarget
from tests.cli.authority.backups import RECIPIENT, key_file
from tests.cli.tree import every_command, takes_json
from tests.system.world import around

RUN_BY = "make fault"

ELSEWHERE = {
    "svc authority audit adopt": "tests.cli.authority.test_adopt",
    "svc authority audit erase": "tests.system.test_web",
    "svc authority audit outbox discard": "tests.cli.authority.test_outbox",
    "svc authority audit outbox release": "tests.cli.authority.test_outbox",
    "svc authority identities add": "tests.cli.authority.test_identities",
    **dict.fromkeys(
        (
            f"svc authority policy {word}"
            for word in ("activate", "approve", "diff", "propose", "reject", "review", "rollback")
        ),
        "tests.system.test_policy_changes",
    ),
    **dict.fromkeys(
        (
            f"svc authority keys sync root {word}"
            for word in ("prepare", "ack", "activate", "cancel", "withdraw", "readmit")
        ),
        "tests.system.test_distribution_root",
    ),
    "svc authority preflight": "tests.ops.preflight.test_command",
    "svc authority state adopt": "tests.system.test_unsigned_rows",
    "svc doctor": "tests.ops.doctor.test_checks",
    "svc login": "tests.system.test_sign_in",
    "svc logout": "tests.system.test_sign_in",
    "svc reload": "tests.system.test_reload",
    "svc request": "tests.system.test_access_requests",
    "svc setup apply": "tests.setup.host.test_applying",
    "svc service install": "tests.cli.test_services",
    "svc service uninstall": "tests.cli.test_services",
    **dict.fromkeys(
        (f"svc authority recordings {word}" for word in ("list", "show", "export", "remove")),
        "tests.system.test_recordings",
    ),
    **dict.fromkeys(
        (f"svc requests {word}" for word in ("approve", "deny", "list", "show", "withdraw")),
        "tests.system.test_access_requests",
    ),
}
"""What a gateway refuses that is sound, or has no gated session, no provider, no service manager,
or one person only.  There every document is compared with the same list."""

RECORDS = {
    "svc authority audit show",
    "svc authority audit export",
    "svc authority audit prove",
}
"""What they print are records of the log, whose names are another list's."""

TIMES = {"time", "at", "first_at", "last_seen", "leaf_expires", "session_ended"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
LENGTHS = re.compile(r"(\A|_)secs\Z|\Aseconds_left\Z")
KEY = "ab" * 32
SECOND = "connector-2"


class NamesTests(SynchronousTestCase):
    """Every command with ``--json``."""

    def setUp(self) -> None:
        port = around().ports["echo"]
        targets = [
            GatewayTarget("echo", f"127.0.0.1:{port}"),
            GatewayTarget("vault", f"127.0.0.1:{port}", labels=("closed=yes",)),
        ]
        self.second = GatewayTarget("second", f"127.0.0.1:{port}")
        self.gateway = make_gateway(targets)
        self.addCleanup(self.gateway.end)
        self.base = self.gateway.directory / "made"
        self.base.mkdir(mode=0o700)
        self.ada = self.gateway.add_person("ada", "ops")
        self.resident = self.ada.up("echo")
        self.addCleanup(self.resident.stop)
        self.walked: set[str] = set()
        self.forms = defaultdict[str, set[type]](set)
        self.digests = defaultdict[str, set[str]](set)

    def test_every_command(self) -> None:
        """No command prints a name that the reference does not have, or a time in another form."""
        self.use()
        for words, stdin in self.commands():
            self.walk(*words, stdin=stdin)
        wanted = {name for name, command in every_command().items() if takes_json(command)}
        self.assertEqual(wanted - self.walked, set(ELSEWHERE))
        several = {name: forms for name, forms in self.forms.items() if len(forms) > 1}
        self.assertEqual(several, {}, "a name that means several things")
        named_twice = [names for names in self.digests.values() if len(names) > 1]
        self.assertEqual(named_twice, [], "a thing that has several names")

    def use(self) -> None:
        """A session that is refused, and one that is cut: what `svc status` tells then."""
        for name in ("echo", "vault"):
            place = self.ada.endpoint(name)
            with contextlib.suppress(OSError), socket.create_connection(place, 10) as one:
                one.settimeout(10)
                one.sendall(b"word")
                one.recv(4)
                if name == "echo":
                    self.gateway.operator("resources", "unassign", "echo")
                    one.recv(1)
        self.ada.refused("vault")
        until("the cut is told", lambda: self.ada.status()["ended"])
        self.gateway.operator("resources", "assign", "echo", "--node", CONNECTOR)

    def discovery(self) -> Iterator[tuple[tuple[str, ...], bytes]]:
        """Scopes, and how the target of a resource is signed on to."""
        for words in (
            ("resources", "add", "host", "--kind", "ssh"),
            ("resources", "set", "host", "--onward-auth", "certificate"),
            ("resources", "remove", "host"),
            ("scopes", "set", "lab", "--kinds", "tcp"),
            ("scopes", "list"),
            ("ca", "export", "onward_ssh"),
            ("epochs", "status"),
            ("epochs", "activate", "--yes"),
            ("keys", "sync", "root", "status"),
            ("ca", "rotation", "pause"),
            ("ca", "rotation", "resume"),
            ("ca", "rotation", "status"),
            ("scopes", "show", "lab"),
            ("scopes", "remove", "lab"),
        ):
            yield ("authority", *words), b""

    def commands(self) -> Iterator[tuple[tuple[str, ...], bytes]]:
        """Each with its words; in an order in which it is answered."""
        for words in (
            ("status",),
            ("resources", "list"),
            ("contexts", "list"),
            ("contexts", "show"),
        ):
            yield words, b""
        yield ("contexts", "use", "default"), b""
        yield ("why", self.ada.status()["ended"][0]["decision_id"]), b""
        yield ("why", self.ada.status()["refused"][0]["decision_id"]), b""
        yield ("init", str(self.base / "gate")), b""
        yield ("upgrade", "plan", "--from", "0.9.0"), b""
        yield ("authority", "status"), b""
        yield ("authority", "nodes", "add", "p2", "--role", "proxy"), b""
        yield ("authority", "nodes", "expect", "p3", "--role", "proxy", "--key", KEY), b""
        yield ("authority", "nodes", "expected"), b""
        expected = self.gateway.operator("nodes", "expected", "--json").json
        yield ("authority", "nodes", "unexpect", expected[0]["id"]), b""
        yield ("authority", "nodes", "list"), b""
        yield ("authority", "list-nodes"), b""
        yield ("authority", "nodes", "publication", CONNECTOR), b""
        yield ("authority", "groups", "add", "night"), b""
        yield ("authority", "persons", "add", "bob"), b""
        yield ("authority", "persons", "list"), b""
        yield from self.people()
        token = self.gateway.operator("persons", "add", "cyd").stdout
        directory = ("--dir", str(self.base / "cyd"))
        pin = ("--ca-pin", self.gateway.pin)
        yield ("join", "--proxy", self.gateway.public, *pin, *directory), token.encode()
        yield ("authority", "resources", "add", "db", "--kind", "tcp"), b""
        yield ("authority", "resources", "assign", "db", "--node", CONNECTOR), b""
        yield ("authority", "resources", "bindings", "db"), b""
        yield ("authority", "resources", "unassign", "db"), b""
        yield ("authority", "resources", "remove", "db"), b""
        yield from self.discovery()
        yield ("authority", "resources", "list"), b""
        yield ("authority", "list-resources"), b""
        self.gateway.make_connector([self.second], SECOND)
        yield ("authority", "resources", "move", "--from", CONNECTOR, "--to", SECOND), b""
        yield ("authority", "policy", "set", "-"), POLICY.encode()
        yield ("authority", "policy", "check", "-"), POLICY.encode()
        asked = ("--as", "ada", "--action", "tcpConnect", "--resource", "echo")
        yield ("authority", "policy", "check", *asked), b""
        yield ("authority", "policy", "replay", "-", "--since", "1h"), POLICY.encode()
        yield ("authority", "policy", "show"), b""
        yield ("authority", "policy", "history"), b""
        yield ("authority", "keys", "renew", "all"), b""
        for listed in (("outbox", "list"), ("show",), ("events",)):
            yield ("authority", "audit", *listed), b""
        until("a signed head", (self.gateway.files.state(AUTHORITY) / "anchor/latest").exists)
        yield ("authority", "audit", "export"), b""
        yield ("authority", "audit", "prove", "1"), b""
        yield ("authority", "audit", "verify"), b""
        yield ("authority", "verify-audit"), b""
        yield ("authority", "store", "migrate"), b""
        yield ("authority", "store", "migrate", "--check"), b""
        yield ("authority", "store", "migrate", "--rehearse"), b""
        yield ("authority", "migrate"), b""
        yield from self.backups()

    def backups(self) -> Iterator[tuple[tuple[str, ...], bytes]]:
        """A backup, from its making to a restored state; nothing runs after that."""
        out, key = str(self.base / "backup"), ("--identity", str(key_file(self)))
        closed = ("--window-closed", "--encrypt-to", RECIPIENT)
        yield ("authority", "recordings", "rotate-key"), b""
        yield ("authority", "backup", "create", "--out", out, *closed), b""
        yield ("authority", "backup", "verify", out, *key), b""
        yield ("authority", "nodes", "revoke", CONNECTOR), b""
        self.gateway.child(AUTHORITY).stop()
        state = self.gateway.files.state(AUTHORITY)
        state.rename(self.base / "state-of-before")
        state.mkdir(mode=0o700)
        yield ("authority", "backup", "restore", out, *key), b""

    def people(self) -> Iterator[tuple[tuple[str, ...], bytes]]:
        """What is done to people, their groups, tokens and sessions."""
        account = ("--subject", "7", "--issuer", "https://id.example")
        self.gateway.operator("identities", "add", "bob", *account)
        for words in (
            ("persons", "show", "bob"),
            ("persons", "disable", "bob"),
            ("persons", "enable", "bob"),
            ("groups", "list"),
            ("groups", "members", "night", "--add", "bob"),
            ("groups", "remove", "night", "--with-members"),
            ("identities", "list"),
            ("agents", "add", "deployer", "--owner", "bob", "--for", "ada"),
            ("agents", "list"),
            ("agents", "list", "--route", "certificate"),
            ("agents", "revoke", "deployer"),
            ("accounts", "add", "dora"),
            ("accounts", "list"),
            ("accounts", "passkeys"),
            ("accounts", "remove-passkey", "dora", "nosuch"),
            ("accounts", "reset", "dora"),
            ("accounts", "remove", "dora"),
            ("accounts", "first-administrator"),
            ("tokens", "list"),
        ):
            yield ("authority", *words), b""
        (linked,) = self.gateway.operator("identities", "list", "--json").json
        yield ("authority", "identities", "remove", linked["id"]), b""
        waiting = self.gateway.operator("tokens", "list", "--json").json
        yield ("authority", "tokens", "revoke", waiting[0]["id"]), b""
        with socket.create_connection(self.ada.endpoint("echo"), 10) as one:
            one.settimeout(10)
            one.sendall(b"word")
            one.recv(4)
            until("it is open", lambda: self.gateway.operator("sessions", "list", "--json").json)
            yield ("authority", "sessions", "list"), b""
            yield ("authority", "sessions", "end", "--person", "ada"), b""
        for words in (("persons", "revoke", "bob"), ("persons", "remove", "bob")):
            yield ("authority", *words), b""
        yield ("authority", "users", "forget-name", "bob"), b""

    def walk(self, *words: str, stdin: bytes = b"") -> None:
        """One command: its document, name by name."""
        done = self.ran(*words, stdin=stdin).checked()
        command = self.typed(words)
        self.walked.add(command)
        if command in RECORDS:
            return
        found = json.loads(done.stdout)
        self.assertEqual(sorted(set(unknown(found))), [], words)
        for name, value in named(found):
            self.assertNotEqual(value, "", (words, name, "null says that nothing is known"))
            if value is not None:
                self.forms[name].add(float if type(value) is int else type(value))
            if DIGEST.match(str(value)) and name != "certificate_sha256":
                # A key is known by the digest of its certificate, as `key_id`.
                self.digests[str(value)].add(name)
            if name in TIMES or name.endswith("_at"):
                self.assertTrue(value is None or TIME.match(value), (words, name, value))
            elif LENGTHS.search(name):
                self.assertIsInstance(value, (int, float), (words, name))
            else:
                self.assertFalse(TIME.match(str(value)), (words, name, value))

    def ran(self, *words: str, stdin: bytes) -> Ran:
        """Run it as who uses it."""
        if words[0] != "authority":
            return run(svc_command(*words, "--json"), self.ada.home, stdin=stdin)
        config = str(self.gateway.files.config(AUTHORITY))
        return run(svc_command("--config", config, *words, "--json"), self.base, stdin=stdin)

    def typed(self, words: tuple[str, ...]) -> str:
        """The whole name of the command that these words begin with."""
        names = [" ".join(("svc", *words[:count])) for count in range(len(words), 0, -1)]
        return next(name for name in names if name in every_command())


class UnitTests(SynchronousTestCase):
    """The list itself."""

    def test_one_unit(self) -> None:
        """A length of time is in seconds, and says so in its name."""
        units = re.compile(r"(\A|_)(ms|millis|mins?|minutes|hours?|days?|sec|seconds|ttl)\Z")
        self.assertEqual([name for name in KEYS if units.search(name)], [])


def named(value: object) -> Iterator[tuple[str, Any]]:
    """Every name with its value, but for names that are data."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name, inner
            if name not in DATA:
                yield from named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named(inner)
