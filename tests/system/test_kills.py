"""Every role is killed, stopped and told to go while sessions run over it."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway import Gateway, make_gateway
from svc.testing.person import Person
from svc.testing.processes import until
from svc.testing.settings import Target
from tests.proof import proves
from tests.system.traffic import Traffic
from tests.system.world import around

TIMES = {
    "tunnel.keepalive_secs": 0.5,
    "tunnel.keepalive_timeout_secs": 0.5,
    "tunnel.lease_secs": 6,
    "tunnel.lease_renew_secs": 2,
    "session.reclaim_secs": 2,
}
STAYING = 3600.0
TUNNELS = "svc_active_connector_tunnels"
DISCONNECTS = "svc_connector_tunnel_disconnects_total"
REGISTRATIONS = "svc_connector_tunnels_total"


def echo() -> Target:
    """The one resource of these tests."""
    return Target("echo", f"127.0.0.1:{around().ports['echo']}")


@cache
def gateway() -> Gateway:
    """The gateway of this process's kills; every test leaves it whole."""
    made = make_gateway([echo()], numbers=TIMES)
    made.add_person("ada", "ops")
    return made


def ada() -> Person:
    """The person of :func:`gateway`."""
    return gateway().people[0]


class Kills(SynchronousTestCase):
    """What the others do when one of them goes."""

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

    def select(self, query: str) -> list[Any]:
        """Rows of the store."""
        path = self.gateway.directory / "store.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as store:
            return store.execute(query).fetchall()

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
        recorded = {row[0] for row in self.select("SELECT decision_id FROM audit_log")}
        given = set().union(*(traffic.decisions for traffic in traffics))
        self.assertTrue(given)
        self.assertEqual(given - recorded, set())
        self.assertTrue(self.gateway.decision(min(given)))
        self.assertIn("verified", self.gateway.verify())
        self.check_reasons()

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

    @proves("G-TUN-12", "G-TUN-17", "G-TUN-18", "G-TUN-19", "G-MET-13", "G-MET-20", "G-MET-21")
    def test_the_connector_is_killed(self) -> None:
        """Its tunnel and sessions are accounted for at once; restarted it serves again."""
        staying, passing = self.staying(), self.traffic()
        passing.await_more("echoed", 2)
        gateway = self.gateway
        broken = self.ended("transport_error")
        notices = gateway.metric("proxy", "svc_abandoned_session_notices_total")
        accounted = gateway.metric("proxy", "svc_abandoned_sessions_total")
        gateway.child("connector").kill()
        gateway.await_metric("proxy", TUNNELS, 0)
        gateway.await_metric("proxy", "svc_active_sessions", 0)
        until("the tunnel's end", lambda: self.ended("transport_error") == broken + 1)
        gateway.await_metric("proxy", "svc_abandoned_session_notices_total", notices + 1)
        until(
            "the sessions' fate",
            lambda: gateway.metric("proxy", "svc_abandoned_sessions_total") >= accounted + 3,
        )
        self.await_rows(0)
        until("visitors know", lambda: len(staying.lines("over")) == 3)
        passing.await_more("refused", 2)
        gateway.start("connector")
        passing.await_more("echoed", 2)
        self.check_accounts(staying, passing)

    @proves("G-MET-14", "G-MET-51", "G-MET-52", "G-MET-53")
    def test_the_proxy_is_killed(self) -> None:
        """Connector and Authority notice; when it is back both find it, and sessions open again."""
        staying, passing = self.staying(), self.traffic()
        passing.await_more("echoed", 2)
        gateway = self.gateway
        connected = "svc_connector_proxy_connections_connected"
        cycles = gateway.metric("connector", "svc_connector_reconnects_total")
        self.proxy.kill()
        gateway.await_metric("connector", connected, 0)
        gateway.await_metric("connector", "svc_connector_proxy_connections_degraded", 1)
        gateway.await_metric("connector", "svc_connector_proxy_connections_desired", 1)
        until(
            "the Connector tries again",
            lambda: gateway.metric("connector", "svc_connector_reconnects_total") >= cycles + 2,
        )
        until("Authority knows", lambda: gateway.status()["proxies"] == 0)
        self.assertEqual(gateway.status()["connectors"], 0)
        self.await_rows(0)
        until("visitors know", lambda: len(staying.lines("over")) == 3)
        self.assertEqual(gateway.get("connector", "/readyz")[0], 200)
        gateway.start("proxy")
        gateway.await_metric("connector", connected, 1)
        gateway.await_metric("connector", "svc_connector_proxy_connections_degraded", 0)
        passing.await_more("echoed", 2)
        self.check_accounts(staying, passing)

    @proves("G-RDY-04", "G-ROLE-05")
    def test_the_authority_is_killed(self) -> None:
        """Sessions and the tunnel stay; opens are refused until it is back, then rows are true."""
        staying, passing = self.staying(), self.traffic(secs=1.0)
        passing.await_more("echoed", 2)
        gateway = self.gateway
        tunnels = gateway.metric("proxy", REGISTRATIONS, outcome="registered")
        gateway.child("authority").kill()
        passing.await_more("refused", 3)
        gateway.await_metric("proxy", "svc_active_sessions", 3)
        self.assertEqual(gateway.get("proxy", "/readyz")[0], 200)
        gateway.start("authority")
        passing.await_more("echoed", 2)
        self.assertEqual(staying.lines("over"), [])
        passing.end()
        gateway.await_metric("proxy", "svc_active_sessions", 3)
        self.await_rows(3)
        self.assertEqual(gateway.metric("proxy", REGISTRATIONS, outcome="registered"), tunnels)
        self.check_accounts(staying, passing)

    @proves("G-TUN-13")
    def test_the_connector_is_silent(self) -> None:
        """A Connector that stands still is given up, and comes back by itself when it goes on."""
        staying = self.staying()
        silent = self.ended("keepalive_failed")
        connector = self.gateway.child("connector")
        connector.signal(signal.SIGSTOP)
        self.addCleanup(connector.signal, signal.SIGCONT)
        until("the tunnel is given up", lambda: self.ended("keepalive_failed") == silent + 1, 5)
        self.gateway.await_metric("proxy", "svc_active_sessions", 0)
        self.await_rows(0)
        connector.signal(signal.SIGCONT)
        self.gateway.await_tunnels(1)
        self.check_accounts(staying)

    @proves("G-TUN-11")
    def test_the_connector_is_told_to_go(self) -> None:
        """SIGTERM ends it with 0, its tunnel in order."""
        staying, closed = self.staying(1), self.ended("closed")
        self.assertEqual(self.gateway.child("connector").stop(), 0)
        until("the tunnel's end", lambda: self.ended("closed") == closed + 1)
        self.gateway.start("connector")
        self.check_accounts(staying)

    def test_the_proxy_is_told_to_go(self) -> None:
        """SIGTERM ends it with 0 although sessions are open; they are in the log as ended."""
        staying = self.staying(2)
        self.assertEqual(self.proxy.stop(), 0)
        self.await_rows(0)
        self.gateway.start("proxy")
        self.check_accounts(staying)

    def test_the_authority_is_told_to_go(self) -> None:
        """SIGTERM ends it with 0; sessions stay, and are its own again when it is back."""
        staying = self.staying(2)
        self.assertEqual(self.gateway.child("authority").stop(), 0)
        self.gateway.start("authority")
        until("Authority knows", lambda: self.gateway.status()["open_sessions"] == 2)
        self.assertEqual(staying.lines("over"), [])
        self.check_accounts(staying)

    def test_all_in_one_is_told_to_go(self) -> None:
        """SIGTERM ends `svc all` with 0 although a session is open."""
        made = make_gateway([echo()], layout="all", numbers=TIMES)
        self.addCleanup(made.end)
        traffic = Traffic(made.add_person("bob", "ops"), "echo", visitors=1, secs=STAYING)
        self.addCleanup(traffic.end)
        traffic.await_more("echoed")
        self.assertEqual(made.child("all").stop(), 0)

    @proves("G-TUN-05", "G-TUN-14", "G-MET-15", "G-IDN-06")
    def test_a_node_is_revoked(self) -> None:
        """Its tunnel is evicted, and it is refused from then on, however often it comes."""
        gateway, proxy = self.gateway, self.proxy
        gateway.make_connector([Target("second", echo().address)], "c2")
        self.addCleanup(self._forget, "c2")
        gateway.await_tunnels(2)
        evicted, early = self.ended("evicted"), "svc_connector_registrations_refused_total"
        refused = gateway.metric("proxy", REGISTRATIONS, outcome="refused")
        counted = gateway.metric("c2", early)
        said = gateway.operator("nodes", "revoke", "c2", "--reason", "lost")
        self.assertIn("1 tunnel(s) ended", said.stdout)
        until("the tunnel's end", lambda: self.ended("evicted") == evicted + 1)
        gateway.await_tunnels(1)
        until(
            "it is refused again and again",
            lambda: (
                gateway.metric("proxy", REGISTRATIONS, outcome="refused") >= refused + 2
                and gateway.metric("c2", early) >= counted + 2
            ),
        )
        self.assertTrue(gateway.child("c2").is_alive)
        reasons = {event["reason"] for event in proxy.events("tunnel registration refused")}
        self.assertIn("revoked_node", reasons)
        self.check_reasons()

    def _forget(self, name: str) -> None:
        self.gateway.roles.pop(name).end()

    @proves("G-TUN-15")
    def test_a_node_registers_twice(self) -> None:
        """The same node's second tunnel supersedes its first: there is never more than one."""
        gateway = self.gateway
        superseded = self.ended("superseded")
        whole = gateway.directory / "state" / "connector"
        twin = gateway.directory / "state" / "twin"
        shutil.copytree(whole, twin, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        gateway.clone("connector", "twin")
        self.addCleanup(shutil.rmtree, twin)
        self.addCleanup(self._forget, "twin")
        gateway.start("twin")
        until("the first is superseded", lambda: self.ended("superseded") > superseded)
        self.assertLessEqual(gateway.metric("proxy", TUNNELS), 1)
        gateway.child("twin").kill()
        gateway.await_tunnels(1)
        self.check_reasons()
