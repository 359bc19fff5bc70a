"""What tests that kill roles share: one gateway with short times, and the accounts afterwards."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import GatewayTarget
from tests.system.traffic import Traffic
from tests.system.world import around

TIMES = {
    "tunnel.keepalive_secs": 0.5,
    "tunnel.keepalive_timeout_secs": 0.5,
    "tunnel.lease_secs": 6,
    "tunnel.lease_renew_secs": 2,
    "session.reclaim_secs": 5,
    "limits.max_sessions_per_person": 4000,
}
STAYING = 3600.0
TUNNELS = "svc_active_connector_tunnels"
DISCONNECTS = "svc_connector_tunnel_disconnects_total"
REGISTRATIONS = "svc_connector_tunnels_total"


def echo() -> GatewayTarget:
    """The one resource of these tests."""
    return GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")


@cache
def gateway() -> Gateway:
    """The gateway of this process's kills; every test leaves it whole."""
    made = make_gateway([echo()], numbers=TIMES)
    made.add_person("ada", "ops")
    return made


def ada() -> GatewayPerson:
    """The person of :func:`gateway`."""
    return gateway().people[0]


class KillCase(SynchronousTestCase):
    """Begins with a whole gateway, and checks what is left of it."""

    def setUp(self) -> None:
        """Begin with a gateway without sessions."""
        self.gateway = gateway()
        self.proxy = self.gateway.child("proxy")
        self.await_quiet()

    def await_quiet(self) -> None:
        """Wait until there is one tunnel, and nowhere a session."""
        self.gateway.await_tunnels(1)
        self.gateway.await_metric("proxy", "svc_active_sessions", 0)
        self.await_rows(0)

    def await_rows(self, count: int) -> None:
        """Wait until Authority's store has so many open sessions."""
        until(f"{count} open session rows", lambda: self.open_rows() == count)

    def open_rows(self) -> int:
        """How many sessions are open by Authority's store; works without Authority."""
        return int(self.select("SELECT count(*) FROM sessions WHERE state = 'open'")[0][0])

    def select(self, query: str, *values: str) -> list[Any]:
        """Rows of the store."""
        path = self.gateway.files.store
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as store:
            return store.execute(query, values).fetchall()

    def traffic(self, **how: Any) -> Traffic:
        """Visitors, ended with the test."""
        traffic = Traffic(ada(), "echo", **how)
        self.addCleanup(traffic.end)
        return traffic

    def staying(self, visitors: int = 3) -> Traffic:
        """Visitors whose sessions stay open; returns when they do."""
        traffic = self.traffic(visitors=visitors, secs=STAYING)
        until("they echo", lambda: len(traffic.lines("echoed")) >= visitors, alive=[traffic.child])
        return traffic

    def check_accounts(self, *traffics: Traffic) -> None:
        """Every decision a person was told of is in the log, whose chain verifies."""
        for traffic in traffics:
            traffic.end()
        self.await_quiet()
        given = set().union(*(traffic.decisions for traffic in traffics))
        self.assertTrue(given)
        # What a Proxy decides by itself comes to the log a moment later.
        until("every decision in the log", lambda: given <= self.recorded())
        self.assertIn("verified", self.gateway.verify())
        self.check_reasons()

    def recorded(self) -> set[str]:
        """Every decision that is in the log."""
        return {row[0] for row in self.select("SELECT decision_id FROM audit_log")}

    def check_shown(self, *traffics: Traffic) -> None:
        """The operator's command finds what the first person was given."""
        for traffic in traffics:
            given = traffic.lines("given")[0]
            records = self.gateway.decision(given["decision_id"])
            self.assertIn(given["session_uid"], [record["session_uid"] for record in records])

    def check_reasons(self) -> None:
        """Each tunnel that is no more has exactly one reason."""
        of = self.gateway.metrics("proxy")
        ended = sum(value for name, value in of.items() if name.startswith(DISCONNECTS))
        registered = of[f'{REGISTRATIONS}{{outcome="registered"}}']
        self.assertEqual(ended, registered - of[TUNNELS])
        self.assertEqual(of["svc_connector_tunnel_duration_seconds_count"], ended)

    def ended(self, reason: str) -> float:
        """How many tunnels ended for this reason."""
        return self.gateway.metric("proxy", DISCONNECTS, reason=reason)
