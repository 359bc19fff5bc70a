"""Every role is killed, stopped and told to go while sessions run over it."""

from __future__ import annotations

import shutil
import signal

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import GatewayTarget
from tests.support.proof import proves
from tests.system.killing import REGISTRATIONS, TUNNELS, KillCase, echo

RUN_BY = "make fault"


class Kills(KillCase):
    """What the others do when one of them goes."""

    @proves("G-TUN-12", "G-TUN-17", "G-TUN-18", "G-TUN-19", "G-MET-20", "G-MET-21", "G-MET-27")
    @proves("X-11", "G-SES-11")
    def test_the_connector_is_killed(self) -> None:
        """Its tunnel and sessions are accounted for at once; restarted it serves again."""
        staying, passing = self.staying(), self.traffic()
        passing.await_more("echoed", 2)
        gateway = self.gateway
        broken = self.ended("transport_error")
        name, of = "svc_abandoned_session_notices_total", "transport_error"
        notices = gateway.metric("proxy", name, reason=of)
        closed = gateway.metric("proxy", "svc_abandoned_sessions_total", outcome="closed")
        gateway.await_metric("proxy", "svc_active_auth_relay_streams", 1)
        gateway.child("connector").kill()
        gateway.await_metric("proxy", TUNNELS, 0)
        gateway.await_metric("proxy", "svc_active_sessions", 0)
        until("the tunnel's end", lambda: self.ended("transport_error") == broken + 1)
        gateway.await_metric("proxy", name, notices + 1, reason=of)
        until(
            "the sessions' fate",
            lambda: (
                gateway.metric("proxy", "svc_abandoned_sessions_total", outcome="closed")
                >= closed + 3
            ),
        )
        gateway.await_metric("proxy", "svc_active_auth_relay_streams", 0)
        self.await_rows(0)
        uids = {one["session_uid"] for one in staying.lines("given")}
        reasons = dict(self.select("SELECT uid, end_reason FROM sessions"))
        self.assertEqual({reasons[uid] for uid in uids}, {"tunnel_transport_error"})
        until("visitors know", lambda: len(staying.lines("over")) == 3)
        missed = gateway.metric("proxy", "svc_route_misses_total", reason="departed")
        passing.await_more("refused", 2)
        self.assertGreater(
            gateway.metric("proxy", "svc_route_misses_total", reason="departed"), missed
        )
        gateway.start("connector")
        passing.await_more("echoed", 2)
        self.check_accounts(staying, passing)
        self.check_shown(passing)

    @proves("G-RDY-03", "G-MET-14", "G-MET-51", "G-MET-52", "G-MET-53")
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
        self.check_shown(passing)

    @proves("G-RDY-04", "G-ROLE-05", "G-ROLE-10", "X-28")
    def test_the_authority_is_killed(self) -> None:
        """Sessions and the tunnel stay; opens are refused until it is back, then rows are true."""
        staying, passing = self.staying(), self.traffic(secs=1.0)
        passing.await_more("echoed", 2)
        gateway = self.gateway
        tunnels = gateway.metric("proxy", REGISTRATIONS, outcome="registered")
        gateway.child("authority").kill()
        passing.await_more("refused", 3)
        gateway.await_metric("proxy", "svc_active_sessions", 3)
        lacking = "svc_proxy_lacking"
        gateway.await_metric("proxy", lacking, 1, condition="control_pool")
        status, body = gateway.get("proxy", "/readyz")
        self.assertEqual(status, 200)
        self.assertIn("lacking: control pool (Authority is not reached: no session opens", body)
        gateway.start("authority")
        gateway.await_metric("proxy", lacking, 0)
        self.assertEqual(gateway.get("proxy", "/readyz"), (200, "ready\n"))
        listed = gateway.operator("resources", "list", "--json").json
        self.assertIn("echo", [one["id"] for one in listed])
        passing.await_more("echoed", 2)
        self.assertEqual(staying.lines("over"), [])
        passing.end()
        gateway.await_metric("proxy", "svc_active_sessions", 3)
        self.await_rows(3)
        self.assertEqual(gateway.metric("proxy", REGISTRATIONS, outcome="registered"), tunnels)
        self.check_accounts(staying, passing)
        self.check_shown(passing)

    @proves("G-TUN-13")
    def test_the_connector_is_silent(self) -> None:
        """A Connector that stands still is given up, and comes back by itself when it goes on."""
        staying = self.staying()
        silent = self.ended("keepalive_failed")
        connector = self.gateway.child("connector")
        connector.signal(signal.SIGSTOP)
        self.addCleanup(connector.signal, signal.SIGCONT)
        until("the tunnel is given up", lambda: self.ended("keepalive_failed") == silent + 1)
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
        """SIGTERM ends it with 0, without a wait for those that follow it; sessions stay.

        They are its own again when it is back.
        """
        staying = self.staying(2)
        self.assertEqual(self.gateway.child("authority").stop(), 0)
        self.gateway.start("authority")
        until("Authority knows", lambda: self.gateway.status()["open_sessions"] == 2)
        self.assertEqual(staying.lines("over"), [])
        self.check_accounts(staying)

    @proves("G-TUN-06")
    def test_the_connector_comes_while_the_authority_is_away(self) -> None:
        """Its registration is refused until Authority is back; then it serves, by itself."""
        gateway = self.gateway
        gateway.child("connector").kill()
        gateway.await_metric("proxy", TUNNELS, 0)
        gateway.child("authority").kill()
        gateway.start("connector")
        refused = gateway.metric("proxy", REGISTRATIONS, outcome="refused")
        until(
            "it is refused again and again",
            lambda: gateway.metric("proxy", REGISTRATIONS, outcome="refused") >= refused + 2,
        )
        self.assertEqual(gateway.metric("proxy", TUNNELS), 0)
        gateway.start("authority")
        self.await_quiet()

    @proves(
        "G-TUN-02",
        "G-TUN-03",
        "G-TUN-05",
        "G-TUN-14",
        "G-MET-15",
        "G-MET-16",
        "G-MET-17",
        "G-IDN-06",
    )
    def test_a_node_is_revoked(self) -> None:
        """Its tunnel is evicted, and it is refused from then on, however often it comes."""
        gateway, proxy = self.gateway, self.proxy
        registered = gateway.metric("proxy", REGISTRATIONS, outcome="registered")
        notices = gateway.metric("proxy", "svc_abandoned_session_notices_total")
        gateway.make_connector([GatewayTarget("second", echo().address)], "c2")
        self.addCleanup(self._forget, "c2")
        gateway.await_tunnels(2)
        self.assertEqual(
            gateway.metric("proxy", REGISTRATIONS, outcome="registered"), registered + 1
        )
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
        self.assertEqual(gateway.metric("proxy", TUNNELS), 1)
        self.assertEqual(gateway.metric("proxy", "svc_abandoned_session_notices_total"), notices)
        reasons = {event["reason"] for event in proxy.events("tunnel registration refused")}
        self.assertIn("revoked_node", reasons)
        self.check_reasons()

    def _forget(self, name: str) -> None:
        self.gateway.roles.pop(name).end()

    @proves("G-MET-19", "G-TUN-15")
    def test_a_node_registers_twice(self) -> None:
        """The same node's second tunnel supersedes its first: there is never more than one."""
        gateway = self.gateway
        superseded = self.ended("superseded")
        whole = gateway.files.state("connector")
        twin = gateway.files.state("twin")
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
