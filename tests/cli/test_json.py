"""What commands print for programs."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

from contrib.reference.json_names import KEYS, unknown
from svc.cli.output import moment
from svc.cli.why import explanation
from svc.client.own_certificate import identity_status
from svc.messages.session import Explanation
from svc.model.audit.record import rfc3339
from svc.model.cluster.token import parse_token
from svc.model.principal import Role
from svc.pki.keyring import create_cluster
from tests.cli.authority.test_catalog import TerminalTests
from tests.cli.authority.test_members import SEEN
from tests.cli.terminal import CLUSTER, NOW, POLICY, terminal
from tests.cli.tree import every_command, takes_json
from tests.pki.support import World

CARRIED = {
    "svc authority": "runs a role",
    "svc proxy": "runs a role",
    "svc connector": "runs a role",
    "svc all": "runs a role",
    "svc demo": "shows a gateway, as lines for people",
    "svc up": "runs until it is interrupted",
    "svc open": "its stdout is one URL",
    "svc db": "it becomes psql",
    "svc kubeconfig": "its stdout is a kubeconfig",
    "svc proxy-ssh": "its stdout is the session's",
    "svc authority recordings play": "it prints what was recorded",
    "svc service show": "its stdout is a unit",
}
"""Commands that end with no result."""

KEY = "ab" * 32
SCOPE = "match_labels labels managed_by revision set_at set_by resources"


class JsonTests(TerminalTests):
    """`--json`."""

    def test_every_command_takes_it(self) -> None:
        """Every command that ends with a result takes it, and no other does."""
        found = every_command()
        self.assertGreater(len(found), 40)
        without = {name for name, command in found.items() if not takes_json(command)}
        self.assertEqual(without, set(CARRIED))

    def test_what_they_print(self) -> None:
        """What a command that adds or changes prints is one document, with names from one list."""
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        for words, keys in (
            (("nodes", "add", "p1", "--role", "proxy"), "name role token expires_at ca_pin"),
            (
                ("nodes", "expect", "c1", "--role", "connector", "--key", KEY),
                "id name role key_sha256 expires_at ca_pin",
            ),
            (("nodes", "expected"), "id name role key_sha256 issuer expires_at used"),
            (("nodes", "publication", SEEN.name), "publication"),
            (("groups", "add", "ops"), "name changed"),
            (("persons", "add", "ana", "--group", "ops"), "id name token expires_at ca_pin"),
            (("persons", "list"), "id name state groups"),
            (
                ("resources", "add", "db", "--kind", "tcp", "--node", SEEN.name),
                "id catalog_version",
            ),
            (("resources", "unassign", "db"), "id changed assignment_revision catalog_version"),
            (
                ("resources", "assign", "db", "--node", SEEN.name),
                "id changed assignment_revision catalog_version",
            ),
            (("resources", "remove", "db"), "id catalog_version"),
            (
                ("resources", "add", "h", "--kind", "ssh", "--onward-auth", "passthrough"),
                "id catalog_version",
            ),
            (
                ("resources", "set", "h", "--onward-auth", "certificate"),
                "id onward_auth changed catalog_version",
            ),
            (("scopes", "set", "lab", "--kinds", "tcp"), "name changed revision"),
            (
                ("scopes", "list"),
                f"name kinds onward_modes only_connectors id_prefix {SCOPE}",
            ),
            (("scopes", "remove", "lab"), "name departed"),
            (("nodes", "revoke", SEEN.name), "id tunnels_ended"),
            (("policy", "set", "-"), "policy_version sha256 changed"),
            (("policy", "history"), "policy_version created_at author author_name sha256"),
        ):
            done = self.run_it(*words, "--json", stdin=POLICY.encode())
            self.assertEqual((done.status, done.stderr), (0, ""), words)
            found = json.loads(done.stdout)
            entry = found[0] if isinstance(found, list) else found
            self.assertEqual(set(entry), set(keys.split()), words)
            self.check(found)
        (waits,) = json.loads(self.run_it("nodes", "expected", "--json").stdout)
        done = self.run_it("nodes", "unexpect", waits["id"], "--json")
        self.assertEqual(json.loads(done.stdout), {"id": waits["id"]})
        again = json.loads(self.run_it("groups", "add", "ops", "--json").stdout)
        self.assertEqual(again, {"name": "ops", "changed": False})

    def check(self, found: Any) -> None:
        """Every name is in the list, and every time is a text in UTC."""
        self.assertEqual(list(unknown(found)), [])
        for entry in found if isinstance(found, list) else [found]:
            for name, value in entry.items():
                if name.endswith("_at") and value is not None:
                    self.assertRegex(value, r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z\Z")

    def test_a_token_is_the_same_either_way(self) -> None:
        """The document holds the token that the text would be, and goes without advice."""
        told = self.run_it("persons", "add", "ana", "--json")
        token = json.loads(told.stdout)["token"]
        self.assertEqual(parse_token(token).text, token)
        self.assertNotIn(token, told.stderr)

    def test_init(self) -> None:
        """`svc init` names what it made, and the commands to type next."""
        there = self.place.base / "gate"
        done = terminal("init", str(there), "--json")
        self.assertEqual(done.status, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(set(found), {"directory", "cluster", "ca_pin", "root_key", "commands"})
        self.assertEqual(found["directory"], str(there))
        self.assertTrue(all(line.strip() for line in found["commands"]))

    def test_one_name_for_an_end(self) -> None:
        """When a key, a token or a person's certificate expires is told under one name."""
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        (node,) = json.loads(self.run_it("nodes", "list", "--json").stdout)
        self.assertEqual(node["leaf_expires"], moment(NOW + 3600))
        create_cluster(self.place.state / "keys", CLUSTER, time.time, os.urandom)
        (made,) = json.loads(self.run_it("keys", "renew", "grant", "--json").stdout)
        self.assertEqual(set(made), {"name", "certificate_sha256", "expires_at"})
        own = World().identity(Role.USER, lifetime=7200)
        told = identity_status(own)
        self.assertEqual(told["certificate"]["expires_at"], rfc3339(own.facts.not_after))
        self.assertEqual(list(unknown(told)), [])

    def test_what_is_not_known(self) -> None:
        """What `svc why` does not know is null, and every name in it is in the list."""
        told = explanation(Explanation("ab" * 16, explained=True, decision="allow"))
        self.assertEqual(list(unknown(told)), [])
        self.assertEqual(told["decision"], "allow")
        for name in ("reason", "time", "session_ended", "session_lane", "request_hint"):
            self.assertIsNone(told[name], name)
        self.assertEqual(told["why"], {})

    def test_names(self) -> None:
        """Names are lower case words, each with a meaning of its own."""
        for name, meaning in KEYS.items():
            self.assertRegex(name, r"\A[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")
            self.assertTrue(meaning)


class HelpTests(TerminalTests):
    """`--help`."""

    def test_nothing_is_cut_off(self) -> None:
        """Each command is told with its whole first sentence, in 80 columns."""
        for words in ((), ("authority",), ("authority", "resources"), ("authority", "audit")):
            told = terminal(*words, "--help").stdout
            self.assertNotIn("...\n", told.partition("Commands:")[2], words)
            self.assertLessEqual(max(map(len, told.splitlines())), 80, words)
        whole = re.sub(r"\s+", " ", terminal("--help").stdout)
        self.assertIn("Exchange a one-use token for your identity on this machine.", whole)
