"""The kind at work: commands of one session through a gateway of real processes."""

from __future__ import annotations

import contextlib
import re
import socket
from threading import Thread
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, POLICY, PROXY, GatewayTarget

KINDS = ["redis", "ssh", "tcp"]
NO_WRITES = '@id("no-writes") forbid (principal, action == Action::"redisWrite", resource);\n'
NO_THIRD = """@id("no-third")
forbid (principal, action == Action::"redisConnect", resource)
when { context has database && context.database == "3" };
@id("no-b-in-second")
forbid (principal, action == Action::"redisRead", resource)
when { context has database && context.database == "2" && context has key && context.key == "b" };
"""


def serve(listening: socket.socket, heard: list[bytes]) -> None:
    """A Redis whose every value names its database, as far as inline commands go."""
    while True:
        try:
            peer, _ = listening.accept()
        except OSError:
            return  # the test is over
        with contextlib.suppress(OSError), peer, peer.makefile("rb") as lines:
            database = b"?"
            for line in lines:
                heard.append(line)
                command, _, rest = line.strip().partition(b" ")
                if command == b"GET":
                    peer.sendall(b"$5\r\nhell" + database + b"\r\n")
                elif command == b"SELECT" and rest in (b"0", b"2"):
                    database = rest
                    peer.sendall(b"+OK\r\n")
                else:
                    peer.sendall(b"-ERR unknown command\r\n")


class GatedTests(SynchronousTestCase):
    """Four processes, and a person with a resident."""

    def test_commands(self) -> None:
        """GET passes, SET is denied in its turn and never reaches the server; both are recorded."""
        heard: list[bytes] = []
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        Thread(target=serve, args=(server, heard), daemon=True).start()
        target = GatewayTarget("cache", f"127.0.0.1:{server.getsockname()[1]}", "redis")
        gateway = make_gateway([target], numbers={"plugins.kinds": KINDS})
        self.addCleanup(gateway.end)
        gateway.set_policy(POLICY + NO_WRITES)
        person = gateway.add_person("ada", "ops")
        config = person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        person.up("cache")
        with socket.create_connection(person.endpoint("cache"), 20) as client:
            replies = client.makefile("rb")
            client.sendall(b"GET a\r\nSET a 1\r\nGET b\r\nFLUSHALL\r\n")
            self.assertEqual([replies.readline() for _ in range(2)], [b"$5\r\n", b"hell0\r\n"])
            found = re.fullmatch(
                rb"-NOPERM denied by no-writes; run `svc why ([0-9a-f]{32})`\r\n",
                replies.readline(),
            )
            assert found is not None
            self.assertEqual([replies.readline() for _ in range(2)], [b"$5\r\n", b"hell0\r\n"])
            self.assertIn(b"only GET and SET", replies.readline())
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(replies.read(), b"")
        first, *commands = heard
        self.assertEqual(first, b"SELECT 0\r\n")
        self.assertEqual(
            commands, [b"GET a\r\n", b"SVC_DENIED\r\n", b"GET b\r\n", b"SVC_DENIED\r\n"]
        )
        words = ("audit", "show", "--event", "request.decision", "--last", "9", "--json")

        def decisions() -> list[dict[str, Any]]:
            found = [one for one in gateway.operator(*words).json if one["action"] == "db_query"]
            return found if len(found) == 4 else []

        recorded = until("the decisions are in the log", decisions)
        self.assertEqual(
            [(one["cedar_action"], one["decision"], one.get("policies")) for one in recorded],
            [
                ("redisRead", "allow", ["ops-all"]),
                ("redisWrite", "deny", ["no-writes"]),
                ("redisRead", "allow", ["ops-all"]),
                ("redisWrite", "deny", ["no-writes"]),
            ],
        )
        self.assertEqual(recorded[1]["decision_id"], found[1].decode())
        self.assertEqual(recorded[1]["actor"]["kind"], "person")
        why = person.svc("why", found[1].decode()).checked().stdout
        for word in ("deny", "redisWrite", "no-writes"):
            self.assertIn(word, why)
        counted = {
            decision: gateway.metric(
                PROXY, "svc_request_authorize_total", kind="db_query", decision=decision
            )
            for decision in ("allow", "deny")
        }
        self.assertEqual(counted, {"allow": 2, "deny": 2})
        self.check_noted(gateway)
        self.check_databases(gateway, person, heard)
        self.check_cut(gateway, person)
        self.assertIn("verified", gateway.verify())

    def check_noted(self, gateway: Gateway) -> None:
        """What the gate noted is in the log, and stays verified and legible without the kind."""
        words = ("audit", "show", "--event", "redis.unknown", "--json")
        noted = until("the event is in the log", lambda: gateway.operator(*words).json)
        self.assertEqual(len(noted), 1)
        self.assertEqual(noted[0]["details"]["size"], len(b"FLUSHALL\r\n"))
        said = (noted[0]["actor"]["name"], noted[0]["about"], noted[0]["code"])
        self.assertEqual(said, ("ada", "cache", "SVC1900I"))
        config = gateway.files.config(AUTHORITY)
        text = config.read_text("utf-8")
        self.assertIn('"redis"', text)
        config.write_text(text.replace('"redis", ', ""), "utf-8")
        try:
            self.assertIn("verified", gateway.verify())
            shown = gateway.operator("audit", "show", "--seq", str(noted[0]["seq"]), "--json").json
            self.assertEqual(shown, noted)
        finally:
            config.write_text(text, "utf-8")

    def check_databases(self, gateway: Gateway, person: GatewayPerson, heard: list[bytes]) -> None:
        """A database asked for is decided by policy, and is the one that the session is in."""
        gateway.set_policy(POLICY + NO_WRITES + NO_THIRD)
        heard.clear()
        said = self.session(person, "database=2", b"GET a\r\nGET b\r\n")
        self.assertEqual(said.status, 0, said.stderr)
        self.assertTrue(said.stdout.startswith("$5\r\nhell2\r\n-NOPERM denied by no-b-in-second"))
        self.assertEqual(heard, [b"SELECT 2\r\n", b"GET a\r\n", b"SVC_DENIED\r\n"])
        last = ("audit", "show", "--event", "session.start", "--last", "1", "--json")
        (record,) = gateway.operator(*last).json
        self.assertEqual(record["request"]["context"]["database"], "2")
        heard.clear()
        for database, told in (
            ("database=3", "no-third"),
            ("database=many", "parameter database: does not have the form [0-9]{1,4}"),
            ("database", "--parameter database: given twice, or not written NAME=VALUE"),
            ("schema=2", "redis takes no parameter schema; it takes database"),
            ("database=4", "the target refused the database"),
        ):
            refused = self.session(person, database)
            self.assertNotEqual(refused.status, 0)
            if database != "database=4":  # the Connector's own words are for its operator
                self.assertIn(told, refused.stderr)
        self.assertEqual(heard, [b"SELECT 4\r\n"])

    def session(self, person: GatewayPerson, parameter: str, commands: bytes = b"GET a\r\n") -> Any:
        """Commands in a session of their own."""
        words = ("proxy-ssh", "cache", "--kind", "redis", "--parameter", parameter)
        return person.svc(*words, stdin=commands)

    def check_cut(self, gateway: Gateway, person: GatewayPerson) -> None:
        """A session that the policy no longer allows is ended, and its person told why."""
        with socket.create_connection(person.endpoint("cache"), 20) as client:
            replies = client.makefile("rb")
            client.sendall(b"GET a\r\n")
            self.assertEqual([replies.readline() for _ in range(2)], [b"$5\r\n", b"hell0\r\n"])
            gateway.set_policy(POLICY + NO_WRITES.replace("redisWrite", "redisConnect"))
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(replies.read(), b"")
        ended = until("the cut in the status", lambda: person.status().get("ended"))
        self.assertEqual(ended[-1]["reason"], "policy_changed")
