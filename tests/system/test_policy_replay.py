"""A policy tried at a running gateway before it is in force, by the real commands."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, run, svc_command
from svc.testing.gateway.settings import AUTHORITY
from tests.support.proof import proves
from tests.system.common import ada, eve, shared

RUN_BY = "make fault"

NOT_ECHO = """
@id("echo-is-closed") @reason("closed for repairs")
forbid (principal, action, resource) when { resource == TcpService::"echo" };
"""
HARMLESS = """
@id("nobody") forbid (principal == User::"nobody", action, resource);
"""


def authority(*words: str, text: str = "") -> Ran:
    """One command of the Authority's, with *text* on its stdin."""
    config = str(shared().files.config(AUTHORITY))
    command = svc_command("--config", config, "authority", *words)
    return run(command, shared().files.directory, stdin=text.encode(), seconds=60.0)


class PolicyReplayTests(SynchronousTestCase):
    """`policy check`, `policy replay` and `policy set --require-replay`."""

    def told(self, *words: str, text: str = "", status: int = 0) -> Any:
        """The document that a command prints."""
        done = authority(*words, "--json", text=text)
        self.assertEqual(done.status, status, done.stderr)
        return json.loads(done.stdout)

    @proves("G-OPEN-57")
    def test_before_it_is_in_force(self) -> None:
        """What a text would decide and change is told, and it is activated with its replay."""
        self.assertEqual(ada().svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"x").stdout, "x")
        self.assertEqual(eve().svc("proxy-ssh", "echo", "--kind", "tcp").status, 1)
        active = self.told("policy", "show")["text"]
        ask = ("--as", "ada", "--action", "tcpConnect", "--resource", "echo")
        closed = self.told("policy", "check", "-", *ask, text=active + NOT_ECHO, status=2)
        self.assertEqual(closed["why"], {"echo-is-closed": "closed for repairs"})
        self.assertEqual(self.told("policy", "check", *ask)["decision"], "allow")
        since = ("--since", "1h")
        found = self.told("policy", "replay", "-", *since, text=active + NOT_ECHO)
        (change,) = [one for one in found["changes"] if one["name"] == "ada"]
        self.assertEqual(
            (change["resource"], change["decision_before"], change["decision_after"]),
            ("echo", "allow", "deny"),
        )
        self.assertEqual(change["policies_after"], ["echo-is-closed"])
        self.assertEqual(found["undecidable"]["entities_not_recorded"], 0)
        replay = self.told("policy", "replay", "-", *since, text=active + HARMLESS)
        self.assertEqual(replay["changed_count"], 0)
        bound = ("policy", "set", "-", "--require-replay", replay["replay"])
        refused = authority(*bound, text=active + NOT_ECHO)
        self.assertEqual(refused.status, 1)
        self.assertIn("it finds something else now", refused.stderr)
        self.addCleanup(authority, "policy", "set", "-", text=active)
        version = self.told(*bound, text=active + HARMLESS)["policy_version"]
        (record,) = self.told("audit", "show", "--event", "policy.activate", "--last", "1")
        self.assertEqual(record["policy_version"], version)
        self.assertEqual(record["details"]["replay_digest"], replay["replay"][-64:])
