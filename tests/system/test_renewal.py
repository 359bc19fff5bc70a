"""Short-lived certificates: renewed under use without a drop, and no good once they end."""

from __future__ import annotations

import os
import socket

from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.client.link import list_once
from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.proto.gate.v1 import health_pb2
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.kernel import sockets_of
from tests.system.side import closed, side_of
from tests.system.world import around

RUN_BY = "make fault"

RENEWALS = 5 if os.environ.get("SVC_LONG") == "1" else 3
LEAF_SECS = 5
PERSON_SECS = 8
ROLES = (AUTHORITY, PROXY, CONNECTOR)


def renewed(gateway: Gateway, role: str, outcome: str = "ok") -> float:
    """How often a role has renewed its identity since it started, or has tried in vain."""
    name, labels = "svc_transport_identity_renewals_total", (f'"{role}"', f'"{outcome}"')
    samples = gateway.metrics(role).items()
    return sum(n for one, n in samples if one.startswith(name) and all(x in one for x in labels))


def echoed(person: GatewayPerson, said: bytes) -> None:
    """One whole session; AssertionError unless it comes back."""
    with socket.create_connection(person.endpoint("echo"), 10) as session:
        session.sendall(said)
        session.shutdown(socket.SHUT_WR)
        heard = b"".join(iter(lambda: session.recv(4096), b""))
    assert heard == said, f"{heard!r} came back for {said!r}"


def enrolled(gateway: Gateway) -> int:
    """How often a node joined, or was refused to."""
    return sum(
        len(gateway.operator("audit", "show", "--json", "--event", event, "--last", "1000").json)
        for event in ("node.enroll", "enroll.refused")
    )


class RenewalTests(SynchronousTestCase):
    """A gateway of its own, every node of it fresh."""

    @proves("G-IDN-02", "G-MET-32", "G-IDN-03", "G-OPEN-09")
    def test_renews_under_sessions(self) -> None:
        """Leaves of 5 s: every role renews again and again, no session and no tunnel is lost."""
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = make_gateway([target], numbers={"identity.node_leaf_secs": LEAF_SECS})
        self.addCleanup(gateway.end)
        person = gateway.add_person("ada", "ops")
        person.up("echo")
        redials = gateway.metric(CONNECTOR, "svc_connector_reconnects_total")
        first = {role: renewed(gateway, role) for role in ROLES}
        count = 0
        with socket.create_connection(person.endpoint("echo"), 10) as lasting:

            def all_renewed() -> bool:
                nonlocal count
                count += 1
                lasting.sendall(b"still")
                self.assertEqual(lasting.recv(5, socket.MSG_WAITALL), b"still")
                echoed(person, b"%d" % count)
                return all(renewed(gateway, role) - first[role] >= RENEWALS for role in ROLES)

            until("renewals of every role", all_renewed, 60, gateway.everyone)
        self.assertGreater(count, RENEWALS)
        self.assertEqual(gateway.metric(CONNECTOR, "svc_connector_reconnects_total"), redials)
        self.assertEqual(gateway.metric(PROXY, "svc_active_connector_tunnels"), 1)
        self.assertEqual(person.status()["refused"], [])
        self.check_in_vain(gateway)

    def check_in_vain(self, gateway: Gateway) -> None:
        """With Authority away, renewals that fail leave no connection to the Proxy behind."""
        gateway.child(AUTHORITY).kill()
        child, most = gateway.child(CONNECTOR), 0

        def many_failed() -> bool:
            nonlocal most
            held = [one for one in sockets_of(child) if one.remote == gateway.public]
            most = max(most, len(held))
            return renewed(gateway, CONNECTOR, "failed") >= 12

        until("renewals in vain", many_failed, 60, [child])
        # The tunnel, the one that takes its place, the lane of now and the one that closes.
        self.assertLessEqual(most, 4)
        self.check_token_unused(gateway)

    def check_token_unused(self, gateway: Gateway) -> None:
        """An ended certificate is not replaced by the token that the configuration still names."""
        child = gateway.child(CONNECTOR)
        gateway.start(AUTHORITY)
        joined = enrolled(gateway)
        token = gateway.operator("nodes", "add", "spare", "--role", CONNECTOR).stdout
        gateway.files.token(CONNECTOR).write_text(token, "utf-8")
        self.assertIn(
            str(gateway.files.token(CONNECTOR)), gateway.files.config(CONNECTOR).read_text()
        )
        failed = renewed(gateway, CONNECTOR, "failed")
        until(
            "more renewals in vain",
            lambda: renewed(gateway, CONNECTOR, "failed") >= failed + 3,
            alive=[child],
        )
        self.assertEqual(enrolled(gateway), joined)


class ExpiryTests(TestCase):
    """What a certificate opened does not outlive it."""

    timeout = 60

    async def test_old_connection(self) -> None:
        """A person's certificate of 8 s is refused on its own old connection once it has ended."""
        # A gateway of its own: where snapshots go stale soon, that would refuse it first.
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = make_gateway([target], numbers={"identity.person_leaf_secs": PERSON_SECS})
        self.addCleanup(gateway.end)
        person = gateway.add_person("brief", "ops")
        side = side_of(person)
        channel = await side.connect()
        self.addCleanup(closed, channel)

        async def refusal() -> SvcError | None:
            try:
                await list_once(channel, side.runtime.reactor)
            except SvcError as error:
                return error
            return None

        self.assertIsNone(await refusal())
        self.assertGreater(side.identity.seconds_left(), 0)
        left = side.identity.seconds_left()
        while (refused := await refusal()) is None:
            self.assertGreater(left, -1)
            await deferLater(side.runtime.reactor, 0.1)
            left = side.identity.seconds_left()
        self.assertLess(side.identity.seconds_left(), 0.1, repr(refused))
        self.assertEqual(refused.fault, Fault.UNAUTHENTICATED)
        # Anonymous calls still pass on it: the connection itself was not cut.
        await self.health(channel)

    async def health(self, channel: IRpcChannel) -> None:
        """Ask for the health of the Proxy."""
        answer = await channel.unary(
            "/gate.v1.Health/Check",
            health_pb2.HealthCheckRequest(),
            health_pb2.HealthCheckResponse,
            timeout=10,
        )
        self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)
