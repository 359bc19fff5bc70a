"""An agent joins, acts for a person, and is gone with its owner and by an operator's word."""

from __future__ import annotations

import json
import socket
from typing import Any

import jwt
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import run, until
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.support.tools import stock_tool
from tests.system.board import Site
from tests.system.carrying import carrying
from tests.system.piped import ITSELF, ProxySsh
from tests.system.world import around

KINDS = ["ssh", "tcp", "web"]
AGENTS = """
@id("deployer")
permit (principal is Agent, action in [Action::"use", Action::"view"], resource)
when { principal.name == "deployer" };

@id("deployer-acts")
permit (principal is Agent, action == Action::"actAs", resource is User)
when { principal.name == "deployer" };
"""


class AgentTests(SynchronousTestCase):
    """One gateway of real processes; its agent has a directory as a person has."""

    gateway: Gateway
    agent: GatewayPerson

    def setUp(self) -> None:
        self.curl_path = stock_tool("curl", "curl")
        site = Site()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        web = f"127.0.0.1:{site.server_address[1]}"
        echo = f"127.0.0.1:{around().ports['echo']}"
        targets = [
            GatewayTarget("echo", echo),
            GatewayTarget("plain", web, "web"),
            GatewayTarget("told", web, "web", more={"identity": True}),
        ]
        self.gateway = gateway = make_gateway(targets, numbers={"plugins.kinds": KINDS})
        self.addCleanup(gateway.end)
        for name in ("ada", "bob", "carl"):
            gateway.operator("persons", "add", name, "--group", "ops", "--create-groups")
        gateway.set_policy(POLICY + AGENTS)
        added = gateway.operator("agents", "add", "deployer", "--owner", "ada", "--for", "bob")
        self.agent = GatewayPerson("deployer", gateway.directory / "agent", gateway.files.cluster)
        self.agent.join(gateway.public, gateway.pin, added.stdout.strip())
        gateway.people.append(self.agent)

    def row(self, *words: str) -> dict[str, Any]:
        """What the list says of the agent."""
        (found,) = self.gateway.operator("agents", "list", *words, "--json").json
        return dict(found)

    def asked(self, named: str, resource: str = "told") -> tuple[str, dict[str, Any]]:
        """The status of a request in the name of a person, and what was answered."""
        host, port = self.agent.endpoint(resource)
        words = ["-sS", "--noproxy", "*", "--max-time", "30", "-w", "\n%{response_code}"]
        command = [self.curl_path, *words, "-H", f"svc-identity: {named}", f"http://{host}:{port}/"]
        said, _, code = run(command, self.agent.home).checked().stdout.rpartition("\n")
        return code, json.loads(said)

    def opened(self) -> socket.socket | None:
        """A session of tcp that carries bytes; None while there is none."""
        return carrying(self.agent.endpoint("echo"), 10)

    def test_life(self) -> None:
        """It opens sessions by its own certificate, and acts for whom it was delegated to alone."""
        gateway, agent = self.gateway, self.agent
        self.assertIsNone(self.row()["last_seen"])
        self.assertIsNotNone(self.row("--route", "certificate")["last_seen"])
        listed = gateway.operator("agents", "list").stdout
        self.assertRegex(listed, r"deployer +ada +active +- +bob +agent-")
        agent.up("told")
        status = agent.svc("status").checked().stdout
        self.assertRegex(status, "agent +deployer\n")
        told = agent.svc("status", "--json").checked().json
        self.assertEqual((told["agent"], told["name"]), (self.row()["id"], "deployer"))
        self.assertIn("`svc up` renews it\n", status)
        refused = agent.svc("request", "told")
        self.assertEqual(refused.status, 1)
        self.assertIn("an agent cannot ask for access", refused.stderr)
        until("a session", self.opened).close()
        self.assertIsNotNone(self.row()["last_seen"])

        code, answer = self.asked("bob")
        self.assertEqual(code, "200", answer)
        (token,) = (value for name, value in answer["headers"] if name == "svc-identity")
        claims = jwt.decode(token, options={"verify_signature": False})
        self.assertEqual((claims["sub"], claims["name"]), (self.row()["id"], "deployer"))
        self.assertEqual(claims["act"]["name"], "bob")
        # Policy permits to name carl, and carl may make the request; nobody delegated it.
        for resource in ("told", "plain"):
            code, answer = self.asked("carl", resource)
            told = (code, answer["error"]["reason"])
            self.assertEqual(told, ("403", "identity_denied"), resource)
        self.assertEqual(self.asked("bob", "plain")[0], "200")
        self.recorded(claims)

        piped = ProxySsh(agent, environ=ITSELF)
        piped.open()
        gateway.operator("persons", "disable", "ada", "--reason", "on leave")
        self.assertRegex(piped.said(), r"echo: session ended: .*; reason disabled_owner")
        piped.close()
        refused = agent.svc("proxy-ssh", "--kind", "tcp", "echo")
        self.assertIn("reason disabled_owner", refused.stderr)
        self.assertEqual(self.row()["state"], "disabled")
        gateway.operator("persons", "enable", "ada")
        until("a session again", self.opened).close()

        piped = ProxySsh(agent, environ=ITSELF)
        piped.open()
        told = gateway.operator("agents", "revoke", "deployer", "--reason", "lost", "--json").json
        self.assertEqual((told["changed"], told["name"]), (True, "deployer"))
        self.assertRegex(piped.said(), r"echo: session ended: .*; reason revoked")
        piped.close()
        refused = agent.svc("proxy-ssh", "--kind", "tcp", "echo")
        self.assertIn("reason revoked", refused.stderr)
        gateway.verify()

    def recorded(self, claims: dict[str, Any]) -> None:
        """The log names the agent, and the person that it acted for."""
        gateway = self.gateway
        words = ("audit", "show", "--event", "credential.issue", "--last", "9", "--json")
        (record,) = (
            one
            for one in gateway.operator(*words).json
            if one["details"]["serial"] == claims["jti"]
        )
        self.assertEqual(record["actor"]["kind"], "agent")
        self.assertEqual(record["actor"]["id"], claims["sub"])
        self.assertEqual(record["details"]["acts_as"], claims["act"]["sub"])
        shown = gateway.operator("audit", "show", "--event", "session.start", "--last", "9").stdout
        self.assertIn("agent deployer", shown)
