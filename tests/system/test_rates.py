"""One person floods a real gateway with denied requests: what is answered, written, and left."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from twisted.trial.unittest import TestCase

from svc.testing.gateway.flood import answers, start_flood
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

RUN_BY = "make fault"

TOO_MANY = "too_many_requests"
CALLS, OPENS = 800, 15
NUMBERS = {"limits.denials_per_minute": 60, "limits.denials_burst": 20}


class FloodTests(TestCase):
    """A gateway of its own: its Proxy is stopped, and its budgets are small."""

    timeout = 120

    def setUp(self) -> None:
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        self.gateway: Gateway = make_gateway([target], numbers=NUMBERS)
        self.addCleanup(self.gateway.end)
        self.ann = self.gateway.add_person("ann", "ops")
        self.ann.up("echo")
        self.eve: GatewayPerson = self.gateway.add_person("eve")

    def records(self, event: str) -> list[dict[str, Any]]:
        """Those of one sort, of everything there is."""
        shown = self.gateway.operator("audit", "show", "--last", "1000", "--json").json
        return [one for one in shown if one["event"] == event]

    def counted(self) -> int:
        """What the summaries say together."""
        return sum(one["details"]["count"] for one in self.records("refusals.summary"))

    @proves("G-OPEN-16")
    def test_denied_requests_without_end(self) -> None:
        """Each call is answered, few are written down, and the rest is counted to the last one."""
        flood = start_flood(self.eve, "echo", "--calls", str(CALLS), "--at-once", "200")
        self.addCleanup(flood.end)
        until("the budget is used up", lambda: answers(flood)[TOO_MANY] > 0, alive=[flood])
        for number in range(OPENS):
            self.assertEqual(self.echo(b"%d" % number), b"%d" % number)
        self.assertEqual(flood.wait(60), 0)
        told = answers(flood)
        self.assertEqual(set(told), {"denied", TOO_MANY})
        self.assertEqual(told.total(), CALLS)
        self.assertLess(told["denied"], CALLS // 4)
        refused = self.gateway.metric(PROXY, "svc_budget_refused_total", budget="denials")
        self.assertEqual(refused, told[TOO_MANY])
        self.outlive()
        self.assertOnRecord(told["denied"], told[TOO_MANY])

    def outlive(self) -> None:
        """A session ends, a Proxy is stopped and the next one killed, all without an Authority."""
        spool = self.gateway.files.state(PROXY) / "spool"
        with socket.create_connection(self.ann.endpoint("echo"), 30) as peer:
            peer.sendall(b"to the end")
            self.assertEqual(peer.recv(100), b"to the end")
            self.gateway.child("authority").kill()
        until("the end is on the disk", (spool / "ends").exists)
        proxy = self.gateway.child(PROXY)
        self.assertEqual(proxy.stop(), 0)
        self.gateway.start(PROXY, ready=False)
        until("a second life", lambda: self.spools(spool) == 2, alive=[proxy])
        proxy.kill()
        self.gateway.start("authority")
        self.gateway.start(PROXY)
        until("the former spools are gone", lambda: self.spools(spool) == 1)
        until("all ends are told", lambda: not (spool / "ends").exists())

    @staticmethod
    def spools(directory: Path) -> int:
        """How many spools lie in a Proxy's directory."""
        found = 0
        for one in directory.iterdir():
            # It may go while we look.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found += any(one.iterdir())
        return found

    def assertOnRecord(self, denied: int, counted: int) -> None:
        """A record for each decision, and one count for all that were not decided."""
        refused = self.records("session.refused")
        self.assertEqual(len(refused), denied)
        [eve] = {one["actor"]["id"] for one in refused}
        until("all is told", lambda: self.counted() == counted)
        summaries = self.records("refusals.summary")
        # One a minute: the flood may have lasted over the end of one.
        self.assertLessEqual(len(summaries), 2)
        for one in summaries:
            self.assertEqual(
                (one["reason"], one["details"]["person_id"], one["actor"]["kind"]),
                ("denials", eve, "node"),
            )
            self.assertNotIn("echo", json.dumps(one))
        self.assertEqual(len(self.records("session.start")), OPENS + 1)
        ends = self.records("session.end")
        self.assertEqual([one["reason"] for one in ends], ["closed"] * (OPENS + 1))
        self.assertGreater(min(one["details"]["bytes_up"] for one in ends), 0)
        for bad in ("session.abandoned", "audit.gap", "audit.held"):
            self.assertEqual(self.records(bad), [])
        self.assertIn("verified", self.gateway.verify())

    def echo(self, data: bytes) -> bytes:
        """What comes back through a session of the other person."""
        with socket.create_connection(self.ann.endpoint("echo"), 30) as peer:
            peer.sendall(data)
            return peer.recv(len(data))
