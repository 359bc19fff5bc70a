"""One person's day: what they sign in for, lose, ask for and use up, with stock tools at each step.

The provider, sshd, PostgreSQL, ssh, psql and curl are stock programs; the gateway is an
Authority, two Proxies and a Connector, each a process.
"""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime
from typing import Any
from unittest import TestCase

from svc.testing.gateway.gateway import Gateway, init_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, Ran, run, svc_command, until
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.support.temporary import process_directory
from tests.support.tools import stock_tool
from tests.system.board import Site
from tests.system.databases import application_database
from tests.system.piped import ITSELF
from tests.system.provider import provider
from tests.system.signing_in import SignInStage, groups_of
from tests.system.world import sshd

RUN_BY = "make fault"

KINDS = ["postgres", "ssh", "tcp", "web"]
LEAF_SECS, RENEWED_SECS = 24, 16
"""Of a person's certificate; and until it is renewed, with the groups that the provider says."""
GRANTED_SECS = 12
SECOND = "proxy2"
ADA, LENA = "ada@example.org", "lena@example.org"
ON_REQUEST = """
@id("everybody-sees")
permit (principal is User, action == Action::"view", resource);

@id("host-on-request") @requestable
permit (principal is User, action == Action::"sshConnect", resource == Server::"host")
when { context has approved_request };

@id("leads-approve")
permit (principal in Group::"leads", action == Action::"approveAccess", resource);
"""
STAYS = "echo here; exec sleep 300"
"""What a session runs that only its end stops; with a terminal, so that sshd ends it then."""


class DayTests(TestCase):
    """One test, from the sign-in in the morning to the log in the evening."""

    gateway: Gateway
    stage: SignInStage
    ada: GatewayPerson
    lena: GatewayPerson

    def setUp(self) -> None:
        self.curl, self.psql = stock_tool("curl"), stock_tool("psql")
        stock_tool("sshd")
        here = provider(process_directory("svc-provider-"))
        numbers = {
            **here.keys,
            "oidc.groups_claim": "groups",
            "oidc.create_persons": True,
            "identity.person_leaf_secs": LEAF_SECS,
            "plugins.kinds": KINDS,
        }
        site = Site()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        targets = [
            GatewayTarget("host", sshd().address, "ssh"),
            GatewayTarget("board", f"127.0.0.1:{site.server_address[1]}", "web"),
            application_database(
                self, "CREATE TABLE orders AS SELECT 7 AS id", "GRANT SELECT ON orders TO app"
            ),
        ]
        self.gateway = made = init_gateway(targets, numbers=numbers)
        self.addCleanup(made.end)
        made.make_authority()
        made.set_policy(POLICY + ON_REQUEST)
        made.make_proxy()
        proxies = [made.public, made.add_proxy(SECOND)]
        both = {"endpoints.proxy": proxies, "connector.proxy_connection_count": len(proxies)}
        made.files.write(CONNECTOR, made.files.table(CONNECTOR) | both)
        made.make_connector(targets)
        for proxy in (PROXY, SECOND):
            made.await_metric(proxy, "svc_active_connector_tunnels", 1)
        for group in ("ops", "leads"):
            made.operator("groups", "add", group)
        self.stage = SignInStage(made, here)
        self.ada, self.lena = self.stage.person("ada"), self.stage.person("lena")

    # The tools

    def ssh(self, *words: str, config: str = "client.toml") -> list[str]:
        """Stock ssh to the host, with ``svc`` as its ProxyCommand."""
        command = svc_command("--config", str(self.ada.directory / config), "proxy-ssh")
        options = sshd().options(f"{shlex.join(command)} %h")
        return [stock_tool("ssh"), *options, *words]

    def staying(self, name: str, config: str = "client.toml") -> Child:
        """A session that stays open; begun."""
        child = Child(
            name=name,
            words=self.ssh("-tt", "host", STAYS, config=config),
            home=self.ada.home,
            log=self.ada.home / f"{name}.log",
            environ=ITSELF,
        )
        self.addCleanup(child.end)
        child.start()
        return child

    def query(self) -> Ran:
        """Stock psql on the person's socket."""
        (one,) = [e for e in self.ada.status()["endpoints"] if e["resource"] == "orders"]
        words = ["-X", "-w", "-At", "-h", one["directory"], "-U", "app", "-d", "postgres"]
        return run([self.psql, *words, "-c", "SELECT id FROM orders"], self.ada.home)

    def page(self) -> tuple[str, dict[str, Any]]:
        """Stock curl at the person's port: the status, and what was answered."""
        host, port = self.ada.endpoint("board")
        words = ["-sS", "--noproxy", "*", "--max-time", "20", "-w", "\n%{response_code}"]
        ran = run([self.curl, *words, f"http://{host}:{port}/plan"], self.ada.home)
        said, _, code = ran.checked().stdout.rpartition("\n")
        return code, json.loads(said)

    # The day

    def test_a_day(self) -> None:
        """Signed in, at work, out of the group, cut off, let in once by another's word, out."""
        self.signs_in()
        self.works()
        cut = self.loses_the_group()
        self.is_refused()
        request, used = self.asks_once()
        self.is_over()
        self.log_tells(cut, request, used)

    def signs_in(self) -> None:
        """By a browser at the provider, which says who is in which group."""
        self.stage.provider.set_accounts(
            ada={"email": ADA, "email_verified": True, "groups": ["ops"]},
            lena={"email": LENA, "email_verified": True, "groups": ["leads"]},
        )
        self.stage.signed_in(self.ada, self.stage.provider.browser(), "ada")
        config = self.ada.directory / "client.toml"
        text = config.read_text("utf-8")
        second = self.gateway.listening(SECOND)["public"]
        (self.ada.directory / "second.toml").write_text(
            text.replace(self.gateway.public, second), "utf-8"
        )
        self.ada.up("board", "host", "orders")

    def works(self) -> None:
        """With ssh, psql and curl."""
        ran = run(self.ssh("host", "echo at work"), self.ada.home).checked()
        self.assertEqual(ran.stdout, "at work\n")
        self.assertEqual(self.query().checked().stdout, "7\n")
        code, told = self.page()
        self.assertEqual((code, told["asked"]), ("200", "GET /plan"))

    def loses_the_group(self) -> str:
        """Removed at the provider, it is gone here with the next renewal; the session that ended.

        Nothing tells the gateway earlier: the provider is asked as often as certificates are
        renewed, so their life is how long a group may outlive its end at the provider.
        """
        session = self.staying("session")
        until("the session", lambda: "here" in session.text(), alive=[session])
        self.stage.provider.set_accounts(ada={"email": ADA, "email_verified": True})
        self.assertNotEqual(session.wait(LEAF_SECS), 0)
        return self.ended(session, "the policy no longer allows it", "policy_changed")

    def ended(self, session: Child, text: str, reason: str) -> str:
        """The decision of a session, of whose end its person was told this."""
        said = session.text()
        why = r"to see why: svc why (?:--dir \S+ )?([0-9a-f]{32})"
        told = f"host: session ended: {text}; reason {reason}; {why}"
        self.assertRegex(said, told)
        found = re.search(told, said)
        assert found is not None
        return found[1]

    def is_refused(self) -> None:
        """Each tool says so in its own way, with the reason and the decision."""
        self.assertEqual(groups_of(self.gateway, ADA), [])
        code, answer = self.page()
        told = answer["error"]
        self.assertEqual((code, told["reason"]), ("403", "denied"))
        self.assertRegex(told["decision_id"], "^[0-9a-f]{32}$")
        refused = self.query()
        self.assertEqual((refused.status, refused.stdout), (2, ""))
        self.assertRegex(refused.stderr, r"\(reason: denied\)\nHINT:  svc why [0-9a-f]{32}")

    def asks_once(self) -> tuple[str, str]:
        """Asked as told, approved by another, used once; the request, and what its session was."""
        denied = run(self.ssh("host", "echo at work"), self.ada.home)
        self.assertEqual((denied.status, denied.stdout), (255, ""))
        hint = re.search("; reason denied; to ask for access: svc ([^;\n]*)", denied.stderr)
        assert hint is not None, denied.stderr
        once = ("--uses", "1", "--for", f"{GRANTED_SECS}s", "--reason", "incident 7", "--json")
        asked = self.ada.svc(*shlex.split(hint[1]), *once).checked().json
        self.assertEqual(asked["state"], "open")
        self.stage.signed_in(self.lena, self.stage.provider.browser(), "lena")
        self.lena.svc("requests", "approve", asked["id"], "--yes").checked()

        both = [self.staying("first"), self.staying("second", "second.toml")]

        def let_in() -> list[Child]:
            inside = [one for one in both if "here" in one.text()]
            assert inside or any(one.is_alive for one in both), [one.text() for one in both]
            return inside

        (inside,) = until("one of two is let in", let_in)
        (outside,) = [one for one in both if one is not inside]
        self.assertEqual(outside.wait(), 255)
        self.assertIn("to ask for access: svc request host", outside.text())
        shown = self.ada.svc("requests", "show", asked["id"], "--json").checked().json
        self.assertEqual((shown["state"], shown["decided_by"]), ("used", LENA))
        self.assertNotEqual(inside.wait(GRANTED_SECS + TIMEOUT_SECS), 0)
        over = self.ended(inside, "the time that was granted is over", "grant_ended")
        return asked["id"], over

    def is_over(self) -> None:
        """What was granted is over: nothing opens by it, and it is listed no more."""
        again = run(self.ssh("host", "echo at work"), self.ada.home)
        self.assertEqual((again.status, again.stdout), (255, ""))
        self.assertIn("; reason denied; ", again.stderr)
        self.assertEqual(self.ada.svc("requests", "list", "--json").checked().json, [])

    def log_tells(self, cut: str, request: str, used: str) -> None:
        """The log verifies, and has the day in its order."""
        log = until("the ends in the log", lambda: self.log_with(cut, used))
        people = self.gateway.operator("persons", "list", "--json").json
        ids = {one["name"]: one["id"] for one in people}
        of_ada = [one for one in log if ids[ADA] in json.dumps(one)]
        told = [(one["event"], one.get("resource_id"), one.get("reason")) for one in of_ada]
        day = [
            ("group.join", None, None),
            ("person.sign_in", None, None),
            ("session.start", "host", None),
            ("session.start", "orders", None),
            ("session.start", "board", None),
            ("session.start", "host", None),
            ("group.leave", None, None),
            ("sign_in.renew", None, None),
            ("session.refused", "board", "denied"),
            ("session.refused", "orders", "denied"),
            ("session.refused", "host", "denied"),
            ("access.request", "host", None),
            ("access.approve", "host", None),
            ("session.start", "host", None),
            ("session.refused", "host", "denied"),
        ]
        rest = iter(told)
        for one in day:
            self.assertIn(one, rest, f"{one} is not in its place in {told}")
        self.assertEqual(len([one for one in told if one[0] == "session.start"]), 5)

        (left,) = [one for one in of_ada if one["event"] == "group.leave"]
        (first, second) = (self.end_of(log, decision) for decision in (cut, used))
        self.assertEqual((first["reason"], second["reason"]), ("policy_changed", "grant_ended"))
        took = datetime.fromisoformat(first["time"]) - datetime.fromisoformat(left["time"])
        # Long before the next renewal, whatever else the machine does.
        self.assertTrue(0 <= took.total_seconds() <= RENEWED_SECS / 2, took)
        (approved,) = [one for one in of_ada if one["event"] == "access.approve"]
        self.assertEqual(approved["actor"]["id"], ids[LENA])
        (entered,) = [
            one for one in of_ada if one["event"] == "session.start" and one["decision_id"] == used
        ]
        fact = entered["request"]["context"]["approved_request"]
        self.assertEqual((fact["id"], fact["approver"]), (request, ids[LENA]))
        self.assertIn("verified", self.gateway.verify())

    def log_with(self, *ended: str) -> list[dict[str, Any]]:
        """The records, once the ends of these sessions are among them; nothing before."""
        lines = self.gateway.operator("audit", "export").stdout.splitlines()
        log = [one for one in map(json.loads, lines) if one.get("event")]
        ends = {one["decision_id"] for one in log if one["event"] == "session.end"}
        return log if ends.issuperset(ended) else []

    def end_of(self, log: list[dict[str, Any]], decision: str) -> dict[str, Any]:
        """The record of a session's end."""
        (end,) = [
            one for one in log if one["event"] == "session.end" and one["decision_id"] == decision
        ]
        return end
