"""Renewed certificates at a Proxy: Connectors hand over, and the way to Authority moves."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from svc.errors import SvcError
from svc.messages.tunnel import Goodbye, Nonce, OpenNotice
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason, TunnelEnded, TunnelRegistered
from svc.rpc.max_age import Freshness
from tests.pki.renewing import renew
from tests.proxy.pieces import Node, ProxyTests, Talk, data
from tests.support.proof import proves


class HandoverTests(ProxyTests):
    def moved(self) -> tuple[Node, Node, Talk, Talk]:
        """A session over a tunnel that has then handed over to another connection."""
        old, client, carry = self.carried()
        new = self.site.node(generation=2)
        return old, new, client, carry

    @proves("G-TUN-15", "G-IDN-02")
    def test_session_goes_on(self) -> None:
        """A process that registers again over a fresh connection keeps its sessions."""
        old, new, client, carry = self.moved()
        [ended] = self.events(TunnelEnded)
        self.assertEqual((ended.reason, ended.session_uids), (EndReason.SUPERSEDED, ()))
        self.assertEqual((old.reason, new.reason), ("superseded", ""))
        self.assertEqual(self.site.gauges[("tunnels",)], 1)
        self.assertEqual(self.site.gauges[("sessions",)], 1)
        carry.say(data(b"down"))
        client.say(data(b"up"))
        self.site.turn()
        self.assertEqual((client.data, carry.data), (b"down", b"up"))
        self.assertEqual(self.authority.departures, [])

    @proves("G-TUN-15")
    def test_authority_holds_the_new_one(self) -> None:
        """At Authority the old registration ends and the new one stands."""
        self.moved()
        self.assertEqual(len(self.authority.registrations), 2)
        self.assertEqual(len(self.authority.calls), 1)
        self.assertEqual(self.site.gauges[("streams",)], 1)

    def test_next_session_takes_the_new_one(self) -> None:
        """What is opened from now on is told over the new connection only."""
        old, new, _, _ = self.moved()
        before = len([one for one in old.said if isinstance(one, OpenNotice)])
        self.site.open()
        self.assertEqual(len([one for one in old.said if isinstance(one, OpenNotice)]), before)
        self.assertEqual(len([one for one in new.said if isinstance(one, OpenNotice)]), 1)

    def test_order_under_way(self) -> None:
        """A notice sent over the old connection is still answered there by a carry stream."""
        old = self.site.node()
        client = self.site.open()
        self.site.node(generation=2)
        self.assertEqual(old.reason, "")
        carry = old.carry(old.last(OpenNotice))
        carry.say(data(b"here"))
        self.site.turn()
        self.assertEqual((client.data, old.reason), (b"here", "superseded"))

    def test_authority_back_meanwhile(self) -> None:
        """Only the newer connection registers again when Authority is back."""
        old = self.site.node()
        self.site.open()
        new = self.site.node(generation=2)
        self.assertEqual(old.reason, "")
        self.site.lose_authority()
        self.authority.is_up = True
        self.site.pass_time(6)
        asked = [sum(isinstance(one, Nonce) for one in node.said) for node in (old, new)]
        self.assertEqual(asked, [1, 2])

    def test_old_connection_breaks(self) -> None:
        """A session whose old connection breaks after all ends with a report, not a notice."""
        old, _, client, _ = self.moved()
        old.wire.cut()
        self.site.turn()
        self.assertTrue(client.is_over)
        self.assertEqual(len(self.authority.ended), 1)
        self.assertEqual(self.authority.departures, [])
        self.assertEqual(len(self.events(TunnelEnded)), 1)

    @proves("G-TUN-14")
    def test_revoked(self) -> None:
        """A node that is revoked loses its older connections' sessions too, each told once."""
        _, new, client, _ = self.moved()
        Deferred.fromCoroutine(self.authority.evict("revoked_node"))
        self.site.turn()
        self.assertEqual(new.reason, "evicted")
        self.assertTrue(client.is_over)
        [notice] = self.authority.departures
        self.assertEqual((notice.reason, len(notice.session_uids)), ("evicted", 1))
        self.assertEqual(self.authority.ended, [])

    @proves("G-TUN-15")
    def test_another_process(self) -> None:
        """Another process of the node ends what the older connections carry, with a notice."""
        _, _, client, _ = self.moved()
        self.site.node(instance_id="second")
        self.assertTrue(client.is_over)
        [notice] = self.authority.departures
        self.assertEqual(notice.reason, "superseded")

    def test_many_times(self) -> None:
        """Ten handovers under one session: one tunnel, one session, nothing left behind."""
        _, client, carry = self.carried()
        for generation in range(2, 12):
            node = self.site.node(generation=generation)
        self.assertEqual(len(self.site.routes), 1)
        self.assertEqual(len(self.events(TunnelRegistered)), 11)
        carry.say(data(b"x"))
        self.site.turn()
        self.assertEqual(client.data, b"x")
        node.tell(Goodbye())
        self.assertEqual(self.site.gauges[("tunnels",)], 0)
        self.assertFalse(client.is_over)


class FreshLinkTests(ProxyTests):
    """The control connection while this Proxy's own certificate is renewed."""

    def setUp(self) -> None:
        super().setUp()
        cluster = self.site.cluster
        self.successResultOf(self.stopped())
        self.site.link.fresh = Freshness(
            clock=self.site.clock,
            now=cluster.world.now,
            identity=cluster.proxy,
            verifier=cluster.world.verifier,
            roles=frozenset({Role.AUTHORITY}),
        )
        self.site.start()

    def stopped(self) -> Deferred[Any]:
        stopping = self.site.link.stopService()
        self.site.turn()
        return stopping

    def renew(self) -> None:
        renew(self.site.cluster.world, self.site.cluster.proxy)
        self.site.turn()

    def is_closed(self, which: int) -> bool:
        return self.site.links[which].client.end_reason is not None

    @proves("G-IDN-02")
    def test_moves(self) -> None:
        """After a renewal the Proxy is greeted over another connection; the old one closes."""
        before = self.site.link.channel()
        self.renew()
        self.site.pass_time(2)
        self.assertIsNot(self.site.link.channel(), before)
        self.assertEqual((self.is_closed(-2), self.is_closed(-1)), (True, False))
        self.assertEqual(len(self.authority.follows), 1)
        self.site.pass_time(120)
        self.assertEqual(self.site.holder.engine().version, 3)
        self.assertEqual(self.site.dials, 3)

    def test_claims(self) -> None:
        """The second greeting claims the sessions that are open."""
        self.carried()
        self.renew()
        self.assertEqual(len(self.authority.claims[-1]), 1)

    @proves("G-IDN-02")
    def test_registrations_stay(self) -> None:
        """A Connector's registration stays on the old connection, which stays for it."""
        node = self.site.node()
        self.renew()
        self.site.pass_time(30)
        self.assertEqual((self.is_closed(-2), self.is_closed(-1)), (False, False))
        self.assertEqual(len(self.authority.registrations), 1)
        self.assertEqual(self.events(TunnelEnded), [])
        node.tell(Goodbye())
        self.site.pass_time(2)
        self.assertEqual((self.is_closed(-2), self.is_closed(-1)), (True, False))

    @proves("G-IDN-02")
    def test_no_gap(self) -> None:
        """At each moment of a move an open finds a channel, and is answered."""
        node = self.site.node()
        seen: list[bool] = []
        renew(self.site.cluster.world, self.site.cluster.proxy)
        for _ in range(60):
            self.site.turn(1)
            seen.append(self.site.link.is_connected)
        self.assertEqual(set(seen), {True})
        client = self.site.open()
        self.assertEqual(client.reason, "")
        node.carry(node.last(OpenNotice))
        self.assertFalse(client.is_over)

    def test_call_under_way(self) -> None:
        """A decision that Authority still owes comes over the old connection."""
        self.site.node()
        self.authority.holding = Deferred()
        client = self.site.open()
        self.renew()
        self.site.pass_time(3)
        self.authority.holding.callback(None)
        self.site.turn()
        self.assertEqual((client.is_over, client.reason), (False, ""))

    def test_policy_of_both(self) -> None:
        """A policy published while the connection moves is taken, and nothing breaks."""
        self.authority.bundle = self.authority._bundle(("db1", "db7"), 8)
        self.renew()
        self.authority.publish(self.authority.frame())
        self.site.turn()
        self.assertTrue(self.site.link.is_connected)
        self.assertEqual(self.site.holder.engine().revision, 8)
        self.assertEqual(self.site.dials, 3)

    def test_frame_that_is_late(self) -> None:
        """A frame that waited on the old connection while another took over is let go."""
        link, late = self.site.link, self.authority.frame()
        taking: list[Deferred[None]] = []
        take = link.take

        async def slowly(frame: Any) -> None:
            taking.append(Deferred())
            await taking[-1]
            await take(frame)

        link.take = slowly
        self.renew()
        self.assertEqual((len(taking), len(self.authority.follows)), (1, 2))
        self.authority.follows[0].put(late)
        self.site.turn()
        link.take = take
        taking[0].callback(None)
        self.site.turn()
        self.assertTrue(link.is_connected)
        self.assertEqual((len(taking), len(self.authority.follows)), (1, 1))

    @proves("G-IDN-02")
    def test_dial_fails(self) -> None:
        """While no second connection comes about the first one serves on."""
        self.authority.is_up = False
        self.renew()
        self.assertTrue(self.site.link.is_connected)
        self.authority.is_up = True
        before = self.site.links[-1]
        self.site.pass_time(330)
        self.assertTrue(self.site.link.is_connected)
        self.assertIsNot(self.site.links[-1], before)
        self.assertEqual(self.site.dials, 4)

    def test_stop_while_moving(self) -> None:
        """A stop in the middle of a move leaves neither connection."""
        renew(self.site.cluster.world, self.site.cluster.proxy)
        self.site.turn(3)
        self.successResultOf(self.stopped())
        self.assertEqual((self.is_closed(-2), self.is_closed(-1)), (True, True))
        self.assertRaises(SvcError, self.site.link.channel)
