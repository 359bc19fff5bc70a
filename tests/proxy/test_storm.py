"""Many Connectors at once, one Connector too often, and streams that nobody asked for."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from svc.errors import Fault
from svc.messages.tunnel import (
    CARRY_METHOD,
    REGISTER_METHOD,
    SECRET_BYTES,
    Hello,
    Nonce,
    OpenNotice,
    encode_carry_open,
    encode_up,
)
from svc.model.principal import Role
from svc.model.session.tunnels import EndReason, TunnelEnded, TunnelRefused, TunnelRegistered
from svc.proxy.tunnels.queue import SHARE, RegistrationQueue
from svc.rpc.frames import open_frame
from svc.tunnel.transport import MAX_UNASSIGNED_STREAMS
from tests.proxy.pieces import Node, ProxyTests, Talk, data

AT_ONCE = 8


class StormTests(ProxyTests):
    """What is put to Authority, and when."""

    def setUp(self) -> None:
        super().setUp()
        self.site.tunnels.queue = RegistrationQueue(AT_ONCE)

    def come(self, count: int) -> list[Node]:
        """So many different Connectors, which all have said hello."""
        identities = [self.site.cluster.world.identity(Role.CONNECTOR) for _ in range(count)]
        nodes = [Node(self.site, one) for one in identities]
        self.site.turn(4)
        for node in nodes:
            node.say(encode_up(Hello("first", "0.11.0")))
        self.site.turn(10)
        return nodes

    def sign(self, nodes: list[Node]) -> None:
        for node in nodes:
            asked = [one for one in node.said if isinstance(one, Nonce)]
            if len(asked) > node.generation:
                node.say(encode_up(node.registration()))
        self.site.turn(10)

    def let_through(self, nodes: list[Node]) -> int:
        """Authority answers, until nobody waits; the most it ever had before it."""
        most = 0
        for _ in range(len(nodes) // AT_ONCE + 2):
            before = len(self.authority.tunnels) - len(self.events(TunnelRegistered))
            most = max(most, before)
            self.sign(nodes)
            holding, self.authority.holding = self.authority.holding, Deferred()
            assert holding is not None
            holding.callback(None)
            self.site.turn(10)
        return most

    def test_all_come_at_once(self) -> None:
        """Of many Connectors Authority has a few before it at once, and each gets its turn."""
        self.authority.holding = Deferred()
        count = AT_ONCE * 4 + 3
        nodes = self.come(count)
        self.assertEqual(len(self.authority.tunnels), AT_ONCE)
        self.assertEqual(self.let_through(nodes), AT_ONCE)
        self.assertEqual(len(self.events(TunnelRegistered)), count)
        self.assertEqual(self.site.gauges[("tunnels",)], count)
        self.assertEqual(self.events(TunnelRefused), [])

    def test_authority_returns(self) -> None:
        """When Authority is back its tunnels ask again a few at a time, and none is lost."""
        self.authority.holding = Deferred()
        nodes = self.come(AT_ONCE + 9)
        self.let_through(nodes)
        self.authority.tunnels.clear()
        self.site.lose_authority()
        self.authority.is_up = True
        self.site.pass_time(3)
        self.assertEqual(len(self.authority.tunnels), AT_ONCE)
        for _ in range(3):
            self.sign(nodes)
            holding, self.authority.holding = self.authority.holding, Deferred()
            assert holding is not None
            holding.callback(None)
            self.site.turn(10)
        self.assertEqual(len(self.authority.tunnels), len(nodes))
        self.assertEqual(self.events(TunnelEnded), [])
        self.assertEqual(self.site.gauges[("tunnels",)], len(nodes))

    def test_silent_ones_hold_no_turn(self) -> None:
        """A Connector that does not sign loses its turn after ten seconds."""
        silent = self.come(AT_ONCE)
        self.assertEqual(len(self.authority.tunnels), AT_ONCE)
        [honest] = self.come(1)
        self.assertEqual(len(self.authority.tunnels), AT_ONCE)
        self.site.pass_time(10.5)
        self.assertEqual({node.reason for node in silent}, {"malformed_registration"})
        self.sign([honest])
        self.assertEqual(len(self.events(TunnelRegistered)), 1)

    def test_one_who_leaves(self) -> None:
        """Who leaves while it waits is out of the queue, and nothing is left of it."""
        self.authority.holding = Deferred()
        self.come(AT_ONCE)
        waiting = self.come(5)
        for node in waiting:
            node.wire.cut()
        self.site.turn()
        self.let_through([])
        self.assertEqual(len(self.authority.tunnels), AT_ONCE)
        queue = self.site.tunnels.queue
        self.assertEqual(len(queue._turns.waiting), 0)
        self.assertEqual(len(queue._of), AT_ONCE)

    def test_share_of_a_node(self) -> None:
        """One node has a few registrations under way; the next is told when to come again."""
        self.authority.holding = Deferred()
        wires = [self.site.connect(self.site.cluster.connector) for _ in range(SHARE + 3)]
        talks = [Talk(wire.channel.stream(REGISTER_METHOD)) for wire in wires]
        for talk in talks:
            talk.say(encode_up(Hello("first", "0.11.0")))
        self.site.turn()
        self.assertEqual(len(self.authority.tunnels), SHARE)
        refused = [talk.error for talk in talks if talk.error is not None]
        self.assertEqual([one.reason for one in refused], ["too_many_registrations"] * 3)
        self.assertEqual({(one.fault, one.retry_after) for one in refused}, {(Fault.EXHAUSTED, 5)})
        for wire in wires:
            wire.cut()
        self.site.turn()
        self.assertEqual(len(self.site.tunnels.queue._of), 0)


class FlapTests(ProxyTests):
    """Connectors that come and go."""

    def test_same_identity_again_and_again(self) -> None:
        """Many processes of one identity: one tunnel stands, each older one is superseded once."""
        nodes = [self.site.node(instance_id=f"process-{number}") for number in range(15)]
        self.assertEqual(self.site.gauges[("tunnels",)], 1)
        ends = [one.reason for one in self.events(TunnelEnded)]
        self.assertEqual(ends, [EndReason.SUPERSEDED] * 14)
        self.assertEqual([node.is_over for node in nodes], [True] * 14 + [False])
        self.site.open()
        self.assertEqual(len([one for one in nodes[-1].said if isinstance(one, OpenNotice)]), 1)

    def test_connect_and_drop(self) -> None:
        """A Connector that registers and drops again and again leaves nothing behind."""
        for _ in range(50):
            self.site.node().wire.cut()
            self.site.turn(6)
        self.assertEqual(self.site.gauges[("tunnels",)], 0)
        self.assertEqual(self.site.gauges[("streams",)], 0)
        self.assertEqual(len(self.site.routes), 0)
        self.assertEqual(self.site.links[-1].channel.open_streams, 1)
        self.assertEqual(len(self.site.tunnels.queue._of), 0)


class CarryTests(ProxyTests):
    """Carry streams for which there is no session."""

    def carry(self, node: Node, count: int) -> list[Talk]:
        """So many that say nothing."""
        talks = [Talk(node.wire.channel.stream(CARRY_METHOD)) for _ in range(count)]
        self.site.turn()
        return talks

    def test_without_tunnel(self) -> None:
        """A connection that has no tunnel is refused at once, whatever it would say."""
        node = Node(self.site)
        self.site.turn()
        [talk] = self.carry(node, 1)
        self.assertEqual(talk.reason, "carry_refused")

    def test_silent_flood(self) -> None:
        """Hundreds of silent streams on a tunnel hold a few places; its sessions go on."""
        node, client, carry = self.carried()
        flood = self.carry(node, 500)
        refused = [talk.reason for talk in flood if talk.is_over]
        self.assertEqual(refused, ["too_many_carries"] * (500 - MAX_UNASSIGNED_STREAMS))
        client.say(data(b"question"))
        self.site.turn()
        self.assertEqual(carry.data, b"question")
        self.site.pass_time(10.5)
        self.assertEqual({talk.reason for talk in flood}, {"too_many_carries", "deadline"})
        self.site.open()
        node.carry(node.last(OpenNotice))
        self.assertEqual(self.site.gauges[("sessions",)], 2)

    def test_strays(self) -> None:
        """Streams with made-up sessions and secrets are refused one by one, and nothing else is."""
        node, client, carry = self.carried()
        for number in range(200):
            talk = Talk(node.wire.channel.stream(CARRY_METHOD))
            talk.say(open_frame(encode_carry_open(f"{number:032x}", bytes(SECRET_BYTES))))
            self.site.turn(4)
            self.assertEqual(talk.reason, "carry_refused")
        carry.say(data(b"answer"))
        self.site.turn()
        self.assertEqual((client.data, node.is_over), (b"answer", False))
