"""A tunnel hands over to a newer connection of the same process: its sessions go on."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.model.session.tunnels import (
    EndReason,
    SessionsLeft,
    TunnelEnded,
    TunnelEvent,
    TunnelRegistered,
)
from svc.tunnel.routes import RouteTable
from svc.tunnel.transport import RegisteredTunnel
from tests.support.nothing import nothing
from tests.support.proof import proves
from tests.tunnel.pieces import OTHER_UID, UID, Line, order


class HandoverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[TunnelEvent] = []
        self.reassigned: list[str] = []
        self.routes = RouteTable(self.told.append, on_reassigned=self.reassigned.append)
        self.lines: list[Line] = []
        self.old = self.add("first", 1)

    def add(self, instance: str, generation: int) -> RegisteredTunnel:
        self.lines.append(Line(self.clock))
        tunnel = self.lines[-1].tunnel("n1", "db1", instance_id=instance, generation=generation)
        self.routes.register(tunnel)
        return tunnel

    def hand_over(self) -> RegisteredTunnel:
        self.clock.advance(5)
        return self.add("first", 2)

    def order(self, tunnel: RegisteredTunnel, uid: str = UID) -> Deferred[IProtocol]:
        opened = tunnel.endpoint(order(uid)).connect(Factory.forProtocol(Protocol))
        opened.addErrback(lambda failure: failure.value)
        return opened

    def carry(self, tunnel: RegisteredTunnel, line: Line, uid: str = UID) -> None:
        [notice] = [one for one in line.notices() if one.session_uid == uid]
        carrying = Deferred.fromCoroutine(tunnel.carry(uid, notice.secret, line.attach))
        carrying.addErrback(lambda failure: failure.trap(SvcError))

    def carried(self, tunnel: RegisteredTunnel, line: Line, uid: str = UID) -> Protocol:
        opened = self.order(tunnel, uid)
        self.carry(tunnel, line, uid)
        protocol = self.successResultOf(opened)
        assert isinstance(protocol, Protocol)
        return protocol

    def is_broken(self, protocol: Protocol) -> bool:
        return bool(getattr(protocol.transport, "disconnecting"))  # noqa: B009 - of StringTransport

    @proves("G-TUN-15", "G-TUN-18")
    def test_counted_once(self) -> None:
        """The old tunnel ends as superseded, with its time and no sessions; one stays active."""
        self.carried(self.old, self.lines[0])
        new = self.hand_over()
        self.assertEqual(
            self.told[1:],
            [
                TunnelEnded(
                    node_id="n1", reason=EndReason.SUPERSEDED, seconds=5.0, session_uids=()
                ),
                TunnelRegistered("n1", ("db1",)),
            ],
        )
        self.assertEqual((self.routes.tunnels, self.routes.find("db1")), ((new,), new))

    def test_compared_when_it_comes_back(self) -> None:
        """What is still carried is compared with each new word, also after a tunnel that broke."""
        self.carried(self.old, self.lines[0])
        self.hand_over().close(EndReason.TRANSPORT_ERROR)
        before = len(self.reassigned)
        self.add("first", 3)
        self.assertEqual(self.reassigned[before:], ["n1"])

    def test_sessions_go_on(self) -> None:
        """What the old connection carries is not broken, whatever becomes of its call."""
        protocol = self.carried(self.old, self.lines[0])
        self.hand_over()
        self.assertEqual(self.lines[0].hung_up, [EndReason.SUPERSEDED])
        self.old.close(EndReason.TRANSPORT_ERROR)
        self.clock.advance(1000)
        self.assertFalse(self.is_broken(protocol))
        self.assertEqual(self.old.sessions, frozenset({UID}))

    def test_never_without_a_route(self) -> None:
        """Whoever looks while one takes over finds a tunnel that takes sessions."""
        found: list[object] = []
        self.told.clear()
        routes = RouteTable(lambda event: found.append(routes.find("db1")), on_reassigned=nothing)
        for generation in (1, 2):
            line = Line(self.clock)
            routes.register(line.tunnel("n1", "db1", generation=generation))
        self.assertEqual([type(one) for one in found], [RegisteredTunnel] * 3)

    def test_order_under_way(self) -> None:
        """An order that was sent before may still be answered over the old connection."""
        opened = self.order(self.old)
        self.hand_over()
        self.assertEqual(self.lines[0].hung_up, [])
        self.assertIs(self.routes.tunnel_on(self.lines[0].connection), self.old)
        self.carry(self.old, self.lines[0])
        self.assertIsInstance(self.successResultOf(opened), Protocol)
        self.clock.advance(0)
        self.assertEqual(self.lines[0].hung_up, [EndReason.SUPERSEDED])

    def test_order_refused_after_all(self) -> None:
        """A refusal of such an order comes through, and one never answered runs out."""
        first, second = self.order(self.old), self.order(self.old, OTHER_UID)
        self.hand_over()
        self.old.refused(UID, "target_refused")
        self.assertEqual(self.lines[0].hung_up, [])
        self.clock.advance(15)
        self.clock.advance(0)
        reasons = [getattr(self.successResultOf(one), "reason", "") for one in (first, second)]
        self.assertEqual(reasons[1], "open_deadline")
        self.assertNotEqual(reasons[0], "open_deadline")
        self.assertEqual(self.lines[0].hung_up, [EndReason.SUPERSEDED])

    def test_takes_no_more(self) -> None:
        """Nothing new is opened over the connection that handed over."""
        self.hand_over()
        refusal = self.successResultOf(self.order(self.old))
        self.assertEqual(getattr(refusal, "reason", ""), "tunnel_ended")
        self.assertEqual(self.lines[0].notices(), [])

    def test_forgotten(self) -> None:
        """Once its last session is over nothing is kept of the old connection."""
        self.carried(self.old, self.lines[0])
        self.hand_over()
        self.assertIs(self.routes.tunnel_on(self.lines[0].connection), self.old)
        self.lines[0].streams[0].callback(None)
        self.clock.advance(0)
        self.assertIsNone(self.routes.tunnel_on(self.lines[0].connection))
        self.assertEqual(self.routes._handed_over, {})

    @proves("G-TUN-14")
    def test_evicted(self) -> None:
        """An eviction ends what the older connections carry as well, with one notice of it."""
        older = self.carried(self.old, self.lines[0])
        newer = self.carried(self.hand_over(), self.lines[1], OTHER_UID)
        self.routes.evict("n1")
        self.assertTrue(self.is_broken(older) and self.is_broken(newer))
        self.assertEqual(
            self.told[-2:],
            [
                TunnelEnded(
                    node_id="n1", reason=EndReason.EVICTED, seconds=0.0, session_uids=(OTHER_UID,)
                ),
                SessionsLeft("n1", EndReason.EVICTED, (UID,)),
            ],
        )

    @proves("G-TUN-15")
    def test_another_process(self) -> None:
        """Another process of the node ends every session of the one before, old ones included."""
        older = self.carried(self.old, self.lines[0])
        newer = self.carried(self.hand_over(), self.lines[1], OTHER_UID)
        self.add("second", 1)
        self.assertTrue(self.is_broken(older) and self.is_broken(newer))
        self.assertIn(SessionsLeft("n1", EndReason.SUPERSEDED, (UID,)), self.told)
        self.assertIn(
            TunnelEnded(
                node_id="n1", reason=EndReason.SUPERSEDED, seconds=0.0, session_uids=(OTHER_UID,)
            ),
            self.told,
        )

    def test_new_connection_lost(self) -> None:
        """A loss of the newer connection says nothing of the older one's sessions."""
        older = self.carried(self.old, self.lines[0])
        self.hand_over().close(EndReason.TRANSPORT_ERROR)
        self.assertFalse(self.is_broken(older))
        self.assertEqual(
            self.told[-1],
            TunnelEnded(
                node_id="n1", reason=EndReason.TRANSPORT_ERROR, seconds=0.0, session_uids=()
            ),
        )
        self.routes.evict("n1")
        self.assertTrue(self.is_broken(older))

    def test_stop(self) -> None:
        """A Proxy that stops ends them all and leaves no timer."""
        older = self.carried(self.old, self.lines[0])
        self.hand_over()
        self.routes.close()
        self.assertTrue(self.is_broken(older))
        self.assertEqual(self.clock.getDelayedCalls(), [])
