"""A session that enters one Proxy and leaves through another, with real processes."""

from __future__ import annotations

import socket
from functools import cache

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.settings import CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

SECOND = "proxy2"
ACTIVE = "svc_active_sessions"
OPENS = "svc_proxy_peer_opens_total"
LISTEN = "endpoints.peer_listen"


@cache
def gateway() -> Gateway:
    """The person's Proxy has no tunnel: the only Connector is at the second one."""
    made = make_gateway(
        [GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")],
        numbers={LISTEN: "127.0.0.1:0"},
    )
    second = made.add_proxy(SECOND)
    made.configure(CONNECTOR, {"endpoints.proxy": [second]})
    made.restart(CONNECTOR)
    made.await_metric(SECOND, "svc_active_connector_tunnels", 1)
    made.await_metric(PROXY, "svc_active_connector_tunnels", 0)
    made.add_person("ada", "ops").up("echo")
    return made


class Peering(SynchronousTestCase):
    """Sessions of a person at the first Proxy, over the only tunnel, which is at the second."""

    def setUp(self) -> None:
        self.gateway = gateway()
        self.person: GatewayPerson = self.gateway.people[0]

    def held(self) -> socket.socket:
        """A session that has carried bytes and is still open."""
        end = socket.create_connection(self.person.endpoint("echo"), 20)
        self.addCleanup(end.close)
        end.sendall(b"hello")
        self.assertEqual(end.recv(5, socket.MSG_WAITALL), b"hello")
        return end

    def await_active(self, count: int) -> None:
        """Wait until both Proxies count so many open sessions."""
        for proxy in (PROXY, SECOND):
            self.gateway.await_metric(proxy, ACTIVE, count)

    @proves("G-SES-12", "G-MET-13", "G-MET-46", "G-ROLE-13", "X-84")
    def test_relayed(self) -> None:
        """Its bytes pass both Proxies, both count it, and its record names both."""
        before = [self.gateway.metric(one, OPENS) for one in (PROXY, SECOND)]
        end = self.held()
        self.await_active(1)
        sides = ((PROXY, "ingress"), (SECOND, "egress"))
        for (proxy, side), count in zip(sides, before, strict=True):
            counted = self.gateway.metric(proxy, OPENS, side=side, outcome="accepted")
            self.assertEqual(counted, count + 1)
        end.shutdown(socket.SHUT_WR)
        self.assertEqual(end.recv(1), b"")
        self.await_active(0)
