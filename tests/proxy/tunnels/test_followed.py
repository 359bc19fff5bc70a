"""What ends a registration that was just accepted, and a callback that fails."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from svc.errors import Unavailable
from svc.interfaces.rpc import IRpcCall
from svc.messages.control import AGAIN, Evict, encode_connector_down
from svc.messages.tunnel import Nonce
from svc.model.principal import Role
from svc.model.session.ending import PROXY_REVOKED
from svc.model.session.tunnels import EndReason, TunnelEnded
from svc.model.signing import Purpose
from svc.proxy.tunnels.verdicts import AcknowledgedRegistration, PendingRegistration
from tests.proxy.pieces import Node, ProxyTests


class Unexpected(Exception):
    """An error of the program."""


class FollowedTests(ProxyTests):
    def other(self) -> Node:
        """A tunnel of another Connector, over the same connection to Authority."""
        return self.site.node(self.site.cluster.world.identity(Role.CONNECTOR))

    def evict(self, reason: str) -> None:
        """Authority takes back the registration that it accepted last."""
        Deferred.fromCoroutine(self.authority.evict(reason))
        self.site.turn()

    def assertOnlyEnded(self, node: Node, reason: EndReason) -> None:
        """One tunnel has ended, nothing follows it, and the others are as they were."""
        self.assertEqual([one.reason for one in self.events(TunnelEnded)], [reason])
        self.assertTrue(node.is_over)
        others = len(self.site.routes.tunnels)
        self.assertEqual(self.site.gauges[("tunnels",)], others)
        self.assertEqual(self.site.gauges[("streams",)], others)
        self.assertEqual(len(self.authority.calls), others)

    def test_who_is_told_fails(self) -> None:
        """An error in what an eviction causes ends that tunnel, not the connection of all."""
        other = self.other()
        node = self.site.node()

        def fails() -> None:
            raise Unexpected

        self.patch(self.site.tunnels, "proxy_revoked", fails)
        self.evict(PROXY_REVOKED)
        self.assertOnlyEnded(node, EndReason.TRANSPORT_ERROR)
        self.assertFalse(other.is_over)
        self.assertEqual(self.site.dials, 1)
        self.assertEqual(len(self.flushLoggedErrors(Unexpected)), 1)

    def fail_to_follow(self) -> None:
        """From now on no registration can be followed."""

        def fails(by: int) -> None:
            self.site.gauges[("streams",)] += by
            if by > 0:
                raise Unexpected

        self.patch(self.site.tunnels.streams, "active", fails)

    def test_cannot_be_followed(self) -> None:
        """A tunnel that nobody can follow does not stay."""
        other = self.other()
        self.fail_to_follow()
        node = self.site.node()
        self.assertOnlyEnded(node, EndReason.TRANSPORT_ERROR)
        self.assertFalse(other.is_over)
        self.flushLoggedErrors(Unexpected)

    def test_cannot_be_followed_again(self) -> None:
        """Nor does one that cannot be followed once it is registered again."""
        other = self.other()
        node = self.site.node()
        self.fail_to_follow()
        self.evict(AGAIN)
        node.tell(node.registration())
        self.assertEqual(len(self.authority.registrations), 3)
        self.assertOnlyEnded(node, EndReason.TRANSPORT_ERROR)
        self.assertFalse(other.is_over)
        self.flushLoggedErrors(Unexpected)

    def test_evicted_right_behind(self) -> None:
        """An eviction that comes together with the verdict is acted on."""
        self.other()

        async def evict(call: IRpcCall) -> None:
            await call.send(encode_connector_down(Evict("revoked_node")))

        self.authority.behind_verdict = evict
        node = self.site.node()
        self.assertOnlyEnded(node, EndReason.EVICTED)
        self.assertEqual(node.reason, "evicted")

    def test_broken_right_behind(self) -> None:
        """A stream that breaks together with the verdict is made again; the tunnel stays."""
        self.other()

        async def breaks(_call: IRpcCall) -> None:
            raise Unavailable("the store is away")

        self.authority.behind_verdict = breaks
        node = self.site.node()
        self.assertEqual(self.site.gauges[("streams",)], 1)
        self.authority.behind_verdict = None
        self.site.pass_time(2)
        node.tell(node.registration())
        self.assertEqual(self.events(TunnelEnded), [])
        self.assertEqual(len(self.authority.registrations), 3)
        self.assertEqual(self.site.gauges[("tunnels",)], 2)
        self.assertEqual(self.site.gauges[("streams",)], 2)


class AcknowledgedTests(ProxyTests):
    """One stream to Authority, without a tunnel around it."""

    def accepted(self) -> AcknowledgedRegistration:
        """A registration that Authority accepts, and that nobody follows yet."""
        connector = self.site.cluster.connector
        asking = PendingRegistration.begin(self.site.tunnels, connector.facts.principal.id)
        challenge = Deferred.fromCoroutine(asking.challenge())
        self.site.turn()
        self.assertIsInstance(self.successResultOf(challenge), Nonce)
        verdict = Deferred.fromCoroutine(
            asking.verdict(connector.sign(Purpose.REGISTRATION, b"signed"))
        )
        self.site.turn()
        self.assertTrue(self.successResultOf(verdict).accepted)
        return asking.acknowledged()

    def test_evicted_before(self) -> None:
        """An eviction that came before anybody followed is told at once, and only once."""
        standing, heard = self.accepted(), list[Evict | None]()
        Deferred.fromCoroutine(self.authority.evict("revoked_node"))
        self.site.turn()
        standing.follow(heard.append)
        self.assertEqual(heard, [Evict("revoked_node")])
        self.site.lose_authority()
        self.assertEqual(heard, [Evict("revoked_node")])

    def test_broken_before(self) -> None:
        """A stream that broke before anybody followed is told as an Authority that is away."""
        standing, heard = self.accepted(), list[Evict | None]()
        self.site.lose_authority()
        standing.follow(heard.append)
        self.assertEqual(heard, [None])
        standing.over()
        self.assertEqual(heard, [None])
