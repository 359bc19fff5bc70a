"""``svc all``: one process that is an Authority, a Proxy and a Connector."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from svc.telemetry.series import SERIES
from svc.testing.gateway.settings import ALL
from tests.support.proof import proves
from tests.system.strangers import listening_of
from tests.system.world import world

ROLES = {"authority", "proxy", "connector"}


class AllTests(SynchronousTestCase):
    """At the gateway in which sessions are tested as well."""

    @proves("G-ROLE-04")
    def test_one_process(self) -> None:
        """One process has the listeners of all three roles, and a tunnel from itself to itself."""
        gateway = world("all").gateway
        child = gateway.child(ALL)
        named = gateway.listening(ALL)
        self.assertLessEqual({"control", "join", "renewal", "public", "telemetry"}, set(named))
        found = {f"{host}:{port}" for host, port in listening_of(child.pid)}
        self.assertEqual(found, set(named.values()))
        self.assertEqual(gateway.metric(ALL, "svc_active_connector_tunnels"), 1)
        self.assertEqual(gateway.metric(ALL, "svc_connector_proxy_connections_connected"), 1)
        rows = gateway.operator("list-nodes", "--json").json
        self.assertEqual({row["role"] for row in rows if row["state"] == "active"}, ROLES)

    @proves("G-OPEN-37")
    def test_label_values(self) -> None:
        """The label `role` has one series for each of the three, `lane` the two lanes alone."""
        exposition = world("all").gateway.get(ALL, "/metrics")[1]
        of_role = re.findall(
            r'^svc_transport_identity_expires_in_seconds\{.*?role="(\w+)".*\}', exposition, re.M
        )
        self.assertEqual((len(of_role), set(of_role)), (3, ROLES))
        self.assertEqual(set(re.findall(r'[{,]role="(\w+)"', exposition)), ROLES)
        lanes = {one.labels["lane"] for one in SERIES if "lane" in one.labels}
        self.assertEqual(lanes, {("renewal", "admin")})
        self.assertLessEqual(set(re.findall(r'[{,]lane="(\w+)"', exposition)), *map(set, lanes))
