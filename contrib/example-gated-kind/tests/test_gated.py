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
from svc.testing.gateway.settings import POLICY, PROXY, GatewayTarget

KINDS = ["redis", "ssh", "tcp"]
NO_WRITES = '@id("no-writes") forbid (principal, action == Action::"redisWrite", resource);\n'


def serve(listening: socket.socket, heard: list[bytes]) -> None:
    """A Redis of one value, as far as inline commands go."""
    try:
        while True:
            peer, _ = listening.accept()
            with peer, peer.makefile("rb") as lines:
                for line in lines:
                    heard.append(line)
                    is_get = line.upper().startswith(b"GET ")
                    peer.sendall(b"$5\r\nhello\r\n" if is_get else b"-ERR unknown command\r\n")
    except OSError:
        pass  # the test is over


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
            self.assertEqual([replies.readline() for _ in range(2)], [b"$5\r\n", b"hello\r\n"])
            found = re.fullmatch(
                rb"-NOPERM denied by no-writes; run `svc why ([0-9a-f]{32})`\r\n",
                replies.readline(),
            )
            assert found is not None
            self.assertEqual([replies.readline() for _ in range(2)], [b"$5\r\n", b"hello\r\n"])
            self.assertIn(b"only GET and SET", replies.readline())
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(replies.read(), b"")
        self.assertEqual(heard, [b"GET a\r\n", b"SVC_DENIED\r\n", b"GET b\r\n", b"SVC_DENIED\r\n"])
        words = ("audit", "show", "--event", "request.decision", "--last", "9", "--json")

        def decisions() -> list[dict[str, Any]]:
            found = [one for one in gateway.operator(*words).json if one["action"] == "db_query"]
            return found if len(found) == 3 else []

        recorded = until("the decisions are in the log", decisions)
        self.assertEqual(
            [(one["cedar_action"], one["decision"], one.get("policies")) for one in recorded],
            [
                ("redisRead", "allow", ["ops-all"]),
                ("redisWrite", "deny", ["no-writes"]),
                ("redisRead", "allow", ["ops-all"]),
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
        self.assertEqual(counted, {"allow": 2, "deny": 1})
        self.check_cut(gateway, person)
        self.assertIn("verified", gateway.verify())

    def check_cut(self, gateway: Gateway, person: GatewayPerson) -> None:
        """A session that the policy no longer allows is ended, and its person told why."""
        with socket.create_connection(person.endpoint("cache"), 20) as client:
            replies = client.makefile("rb")
            client.sendall(b"GET a\r\n")
            self.assertEqual([replies.readline() for _ in range(2)], [b"$5\r\n", b"hello\r\n"])
            gateway.set_policy(POLICY + NO_WRITES.replace("redisWrite", "redisConnect"))
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(replies.read(), b"")
        ended = until("the cut in the status", lambda: person.status().get("ended"))
        self.assertEqual(ended[-1]["reason"], "policy_changed")
