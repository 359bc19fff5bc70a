"""Two people and one policy, through real processes: proposed by one, approved by another."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

APPROVERS = """
@id("admins-approve")
permit (principal in Group::"admins", action == Action::"approvePolicy", resource is Cluster);
"""
NOT_ECHO = """
@id("echo-is-closed") @reason("closed for repairs")
forbid (principal in Group::"ops", action == Action::"tcpConnect", resource == TcpService::"echo");
"""
LOCKED = """
@id("operators-for-a-moment")
permit (principal is Operator, action in Action::"administer", resource is Cluster)
when {{ context has now && context.now < {end} }};
"""


class PolicyChangeTests(SynchronousTestCase):
    """`policy propose`, `review`, `approve`, `activate`, `rollback`, and break-glass."""

    gateway: Gateway
    ada: GatewayPerson
    eve: GatewayPerson

    def setUp(self) -> None:
        port = around().ports["echo"]
        rules = {"policy.approvals": 1, "policy.break_glass": [f"local:{os.geteuid()}"]}
        self.gateway = make_gateway(
            [GatewayTarget("echo", f"127.0.0.1:{port}")], policy=None, layout="all", numbers=rules
        )
        self.addCleanup(self.gateway.end)
        self.set("--break-glass", text=POLICY + APPROVERS).checked()
        self.ada = self.gateway.add_person("ada", "ops", "admins")
        self.eve = self.gateway.add_person("eve", "admins")
        people = self.gateway.operator("persons", "list", "--json").json
        self.ids = {one["name"]: one["id"] for one in people}

    def set(self, *words: str, text: str) -> Any:
        return self.gateway.operator("policy", "set", "-", *words, stdin=text.encode(), check=False)

    def told(self, *words: str, stdin: str = "", by: GatewayPerson | None = None) -> Any:
        """The document that a `policy` command prints, by somebody's identity."""
        who = ("--identity", str(by.directory / "client.toml")) if by is not None else ()
        done = self.gateway.operator("policy", *words, *who, "--json", stdin=stdin.encode())
        found = json.loads(done.stdout)
        self.assertEqual(list(unknown(found)), [])
        return found

    def refused(self, *words: str, by: GatewayPerson | None = None, stdin: str = "") -> str:
        who = ("--identity", str(by.directory / "client.toml")) if by is not None else ()
        done = self.gateway.operator("policy", *words, *who, stdin=stdin.encode(), check=False)
        self.assertEqual(done.status, 1, done.stderr)
        return done.stderr

    @proves("G-POL-03", "G-OPEN-58", "G-HLT-07")
    def test_two_people_and_one_policy(self) -> None:
        """Own approval is refused, another's counts, and history is never rewritten."""
        ada, eve = self.ada, self.eve
        ada.svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"x").checked()
        active = self.told("show")["text"]
        self.assertIn("policy_needs_approval", self.set(text=active + NOT_ECHO).stderr)
        proposed = self.told(
            "propose", "-", "--since", "1h", "--reason", "repairs", by=ada, stdin=active + NOT_ECHO
        )
        self.assertEqual(proposed["approvals_needed"], 1)
        (change,) = proposed["policy_changes"]
        self.assertEqual((change["policy"], change["sensitive"]), ("echo-is-closed", []))
        id = proposed["proposal"]
        html = self.gateway.directory / "page.html"
        seen = self.told("review", id[:12], "--html", str(html), "--replay")
        self.assertTrue(seen["replay_confirmed"])
        page = "\n".join(seen["page"])
        self.assertRegex(page, r"(?m)^1 +ada +echo +tcpConnect +allow by ops-all +deny by echo-is-")
        self.assertIn("+forbid (principal in Group::", page)
        self.assertIn("<pre>", html.read_text())
        self.assertNotIn("<script", html.read_text())
        approve = ("approve", id, "--document", seen["document_sha256"])
        self.assertIn("not_approved", self.refused("activate", id))
        self.assertIn("own_approval", self.refused(*approve, by=ada))
        self.assertEqual(self.told(*approve, by=eve)["approvals"], 1)
        done = self.told("activate", id)
        self.assertEqual(done["approvers"], [self.ids["eve"]])
        self.assertEqual(ada.svc("proxy-ssh", "echo", "--kind", "tcp").status, 1)

        back = self.told("rollback", by=ada)
        self.assertEqual(back["policy_changes"][0]["sensitive"], ["forbid_removed"])
        self.assertEqual(back["approvals_needed"], 2)
        diff = self.told("diff", str(done["policy_version"] - 1))["diff"]
        self.assertTrue([line for line in diff if line.startswith("+forbid")])
        self.broken_glass(active)
        self.recorded(id)
        self.gateway.verify()

    def broken_glass(self, active: str) -> None:
        """A policy that soon lets nobody in is undone by the break-glass operator, on record."""
        end = int(time.time()) + 8
        self.set("--break-glass", text=LOCKED.format(end=end)).checked()
        until("the policy's last moment", lambda: time.time() > end)

        def locked_out() -> bool:
            tried = self.gateway.operator("persons", "list", check=False)
            return tried.status == 1 and "(denied)" in tried.stderr

        until("the policy locks everybody out", locked_out)
        self.set("--break-glass", text=active).checked()
        self.assertEqual(self.gateway.operator("persons", "list", check=False).status, 0)
        used = self.shown("operator.break_glass")
        self.assertIn("denied", {one["reason"] for one in used})
        self.assertEqual({one["actor"]["id"] for one in used}, {f"local:{os.geteuid()}"})

    def recorded(self, id: str) -> None:
        """Who proposed, refused, approved and activated stands in the log."""
        found = {
            one["event"]: one
            for one in self.shown("policy")
            if one.get("details", {}).get("proposal_id") == id
        }
        self.assertEqual(found["policy.propose"]["details"]["proposer"], self.ids["ada"])
        self.assertEqual(found["policy.refused"]["reason"], "own_approval")
        self.assertEqual(found["policy.approve"]["actor"]["id"], self.ids["eve"])
        activated = found["policy.activate"]["details"]
        self.assertEqual(activated["approvers"], [self.ids["eve"]])
        self.assertTrue(activated["replay_digest"])

    def shown(self, event: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.gateway.operator(
            "audit", "show", "--event", event, "--json"
        ).json
        return found
