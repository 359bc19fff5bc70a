"""Access on request: denied, asked for, approved by another, used once at one of two Proxies."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.system.piped import ProxySsh
from tests.system.world import around

SECOND = "proxy2"
REQUESTABLE = """
@id("everybody-sees")
permit (principal, action == Action::"view", resource is TcpService);
@id("echo-on-request") @requestable @reason("ask the on-call lead")
permit (principal, action == Action::"tcpConnect", resource == TcpService::"echo")
when { context has approved_request };
"""


@cache
def gateway() -> Gateway:
    """With two Proxies; ``bob`` is of no group, ``ada`` and ``cleo`` may approve."""
    made = make_gateway(
        [GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")], policy=POLICY + REQUESTABLE
    )
    second = made.add_proxy(SECOND)
    both = {"endpoints.proxy": [made.public, second], "connector.proxy_connection_count": 2}
    made.files.write(CONNECTOR, made.files.table(CONNECTOR) | both)
    made.restart(CONNECTOR)
    for proxy in (PROXY, SECOND):
        made.await_metric(proxy, "svc_active_connector_tunnels", 1)
    bob = made.add_person("bob")
    config = (bob.directory / "client.toml").read_text("utf-8")
    (bob.directory / "second.toml").write_text(config.replace(made.public, second), "utf-8")
    made.add_person("ada", "ops")
    made.add_person("cleo", "ops")
    return made


class AccessRequestTests(SynchronousTestCase):
    """Each test asks for something else, so that no approval of another test is there."""

    def setUp(self) -> None:
        self.gateway = gateway()
        people: dict[str, GatewayPerson] = {one.name: one for one in self.gateway.people}
        self.ada, self.bob = people["ada"], people["bob"]

    def through(self, config: str = "client.toml") -> Ran:
        """What comes of a session of its own that sends one word."""
        path = str(self.bob.directory / config)
        return self.bob.svc("--config", path, "proxy-ssh", "echo", "--kind", "tcp", stdin=b"word")

    def asked(self, *words: str) -> str:
        entry = self.told(self.bob, "request", "echo", *words)
        self.assertEqual((entry["state"], entry["person_name"]), ("open", "bob"))
        return str(entry["id"])

    def told(self, person: GatewayPerson, *words: str) -> Any:
        """The document that a command prints."""
        found = person.svc(*words, "--json").checked().json
        self.assertEqual(list(unknown(found)), [])
        return found

    def of_the_proxy(self) -> list[Any]:
        """Records of what a Proxy alone denied: none, for each has its only record elsewhere."""
        words = ("audit", "show", "--event", "request.decision", "--last", "99", "--json")
        shown = self.gateway.operator(*words).json
        return [one for one in shown if one["decision"] != "allow"]

    def decided(self, person: GatewayPerson, word: str, id: str) -> Ran:
        return person.svc("requests", word, id, "--yes")

    def test_a_request_from_the_denial_to_its_end(self) -> None:
        """Denied, with how to ask; own approval refused; approved; used once, of two Proxies."""
        denied = self.through()
        self.assertEqual(denied.status, 1, denied.stderr)
        self.assertIn("reason denied", denied.stderr)
        self.assertIn("approves a request for it (ask the on-call lead)", denied.stderr)
        self.assertIn("to ask for access: svc request echo", denied.stderr)
        found = re.search("svc why ([0-9a-f]{32})", denied.stderr)
        assert found is not None
        unknown = self.bob.svc("why", "0" * 8)
        self.assertEqual((unknown.status, unknown.stdout), (1, ""))
        self.assertIn("type more digits, or the whole id", unknown.stderr)
        why = self.bob.svc("why", found[1]).checked()
        self.assertRegex(why.stdout, "on request, echo-on-request +ask the on-call lead")
        self.assertIn("to ask for access: svc request echo --action tcpConnect", why.stderr)
        id = self.asked("--uses", "1", "--for", "10m", "--reason", "incident 7")
        self.assertEqual(self.through().status, 1, "asking alone opens nothing")
        own = self.decided(self.bob, "approve", id)
        self.assertNotEqual(own.status, 0)
        self.assertIn("another person", own.stderr)
        self.ada.up("echo")
        self.assertIn("1 wait for you", self.ada.svc("status", "--refresh").checked().stdout)
        none = self.ada.svc("requests", "list").checked()
        self.assertEqual(none.stdout, "")
        self.assertIn(
            "no rows\n1 request of another person waits for your decision: svc", none.stderr
        )
        self.assertIn("requests list --to-decide", none.stderr)
        (waiting,) = self.told(self.ada, "requests", "list", "--to-decide")
        self.assertEqual((waiting["id"], waiting["asked_reason"]), (id, "incident 7"))
        shown = self.ada.svc("requests", "show", id[:8]).checked().stdout
        for part in ("bob (", "echo (tcp)", "tcpConnect", "10 min", "1, of which 0", "incident 7"):
            self.assertIn(part, shown)
        self.told(self.ada, "requests", "approve", id[:12], "--yes")
        self.assertEqual(self.told(self.bob, "requests", "show", id)["decided_by"], "ada")
        with ThreadPoolExecutor(2) as threads:
            ends = list(threads.map(self.through, ("client.toml", "second.toml")))
        self.assertEqual(sorted(one.status for one in ends), [0, 1], ends)
        self.assertEqual(sorted(one.stdout for one in ends), ["", "word"], ends)
        self.assertEqual(self.told(self.bob, "requests", "show", id)["state"], "used")
        self.assertEqual(self.through().status, 1, "it was for one session")
        self.assertEqual(self.of_the_proxy(), [])
        self.gateway.verify()

    def test_the_end_of_the_time(self) -> None:
        """A running session ends with the time that was approved, and is told why."""
        id = self.asked("--for", "4s")
        self.decided(self.ada, "approve", id).checked()
        session = ProxySsh(self.bob)
        session.open()
        self.assertEqual(session.process.wait(30), 1)
        self.assertIn("the time that was granted is over", session.said())
        self.assertIn("to ask for access", self.through().stderr)

    def test_the_approver_is_let_go(self) -> None:
        """A running session ends within a reload pass, and is told why."""
        (cleo,) = (one for one in self.gateway.people if one.name == "cleo")
        id = self.asked("--for", "10m")
        self.decided(cleo, "approve", id).checked()
        session = ProxySsh(self.bob)
        session.open()
        self.gateway.operator("persons", "disable", "cleo")
        self.assertEqual(session.process.wait(60), 1)
        self.assertIn("who approved it was let go", session.said())
        asked = cleo.svc("status").checked().stdout
        self.assertRegex(asked, r"(?m)^person +cleo\n(.*\n)*proxy +\S+ refuses you$")
        self.assertRegex(asked, r"no new sessions +the person was disabled by an operator")
        self.assertEqual(cleo.svc("status", "--refresh").status, 1)
        mine = self.bob.svc("status", "--refresh").checked().stdout
        self.assertRegex(mine, r"(?m)^person +bob\n(.*\n)*proxy +\S+ accepts you\nresources +1$")
        self.assertEqual(self.through().status, 1)
        self.told(self.bob, "requests", "withdraw", id)

    def test_no(self) -> None:
        """What was denied, or taken back by who asked, opens nothing."""
        id = self.asked("--for", "10m")
        self.told(self.ada, "requests", "deny", id, "--yes")
        self.assertEqual(self.told(self.bob, "requests", "show", id)["state"], "denied")
        id = self.asked("--for", "10m")
        withdrawn = self.told(self.bob, "requests", "withdraw", id)
        self.assertEqual(withdrawn["state"], "withdrawn")
        self.assertEqual(self.through().status, 1)
