"""The route table: which tunnel serves what, and a gauge that is always true."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.model.cluster.registration import Inventory
from svc.model.cluster.resource import Assigned
from svc.model.session.tunnels import (
    EndReason,
    Miss,
    TunnelChanged,
    TunnelEnded,
    TunnelEvent,
    TunnelRefused,
    TunnelRegistered,
)
from svc.tunnel.routes import RouteTable
from svc.tunnel.transport import RegisteredTunnel
from tests.support.examples import examples
from tests.support.nothing import nothing
from tests.support.proof import proves
from tests.tunnel.pieces import Line

NODES = ("n1", "n2", "n3")
RESOURCES = ("db1", "web1", "ssh1")


class RouteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[TunnelEvent] = []
        self.reassigned: list[str] = []
        self.routes = RouteTable(self.told.append, on_reassigned=self.reassigned.append)

    def add(
        self, node: str, *resources: str, instance: str = "first", generation: int = 1
    ) -> RegisteredTunnel:
        line = Line(self.clock)
        tunnel = line.tunnel(node, *resources, instance_id=instance, generation=generation)
        self.routes.register(tunnel)
        return tunnel

    @proves("G-MET-16", "G-MET-17", "G-TUN-02", "G-TUN-03")
    def test_registered_and_refused(self) -> None:
        """An accepted tunnel is told with its resources; a refused one changes nothing here."""
        self.add("n1", "db1", "web1")
        self.routes.refuse("n2", "revoked_node")
        self.assertEqual(
            self.told,
            [TunnelRegistered("n1", ("db1", "web1")), TunnelRefused("n2", "revoked_node")],
        )
        self.assertEqual(len(self.routes), 1)

    @proves("G-MET-24", "G-SES-07", "G-ERR-12", "G-OPEN-33")
    def test_misses(self) -> None:
        """What nobody ever served is unknown; what somebody served once is departed."""
        tunnel = self.add("n1", "db1")
        self.assertIs(self.routes.find("db1"), tunnel)
        self.assertIs(self.routes.find("web1"), Miss.UNKNOWN)
        tunnel.close(EndReason.CLOSED)
        self.assertIs(self.routes.find("db1"), Miss.DEPARTED)
        again = self.add("n1", "db1", instance="second")
        self.assertIs(self.routes.find("db1"), again)

    @proves("G-TUN-15")
    def test_superseded(self) -> None:
        """A second process of a node takes over: the old tunnel ends, one stays registered."""
        old = self.add("n1", "db1", "web1")
        new = self.add("n1", "db1", instance="second")
        [_, ended, _] = self.told
        assert isinstance(ended, TunnelEnded)
        self.assertIs(ended.reason, EndReason.SUPERSEDED)
        self.assertEqual((len(self.routes), self.routes.find("db1")), (1, new))
        self.assertIs(self.routes.find("web1"), Miss.DEPARTED)
        self.assertFalse(old.open_for_sessions)

    @proves("X-88", "G-OPEN-47")
    def test_stale_registration(self) -> None:
        """The same process supersedes itself by a higher generation only; else it is refused."""
        first = self.add("n1", "db1", generation=2)
        for generation in (1, 2):
            error = self.assertRaises(SvcError, self.add, "n1", "db1", generation=generation)
            self.assertEqual(error.reason, "stale_registration")
        self.assertIs(self.routes.find("db1"), first)
        self.assertIsInstance(self.told[-1], TunnelRefused)
        newer = self.add("n1", "db1", generation=3)
        self.assertIs(self.routes.find("db1"), newer)

    @proves("G-TUN-14", "G-OPEN-47")
    def test_evicted(self) -> None:
        """An evicted node's tunnel ends with that reason; a node without one is no error."""
        self.add("n1", "db1")
        self.assertTrue(self.routes.evict("n1"))
        self.assertFalse(self.routes.evict("n1"))
        self.assertEqual(
            self.told[-1],
            TunnelEnded(node_id="n1", reason=EndReason.EVICTED, seconds=0.0, session_uids=()),
        )

    @proves("G-TUN-17", "X-10")
    def test_ends_are_told_with_their_time(self) -> None:
        """The end of an idle tunnel tells reason and duration, and no sessions."""
        tunnel = self.add("n1", "db1")
        self.clock.advance(5)
        tunnel.close(EndReason.TRANSPORT_ERROR)
        self.assertEqual(
            self.told[-1],
            TunnelEnded(
                node_id="n1", reason=EndReason.TRANSPORT_ERROR, seconds=5.0, session_uids=()
            ),
        )

    def test_answered_anew(self) -> None:
        """A registration answered again changes what is served and counts nothing."""
        tunnel = self.add("n1", "db1")
        self.routes.change(tunnel, 2, frozenset({"web1"}))
        self.assertIs(self.routes.find("web1"), tunnel)
        self.assertIs(self.routes.find("db1"), Miss.DEPARTED)
        self.assertEqual([type(event) for event in self.told], [TunnelRegistered, TunnelChanged])
        tunnel.close(EndReason.CLOSED)
        self.routes.change(tunnel, 3, frozenset({"db1"}))
        self.assertIs(self.routes.find("db1"), Miss.DEPARTED)

    def test_assigned_otherwise(self) -> None:
        """Who asked hears when a Connector that stays is to serve otherwise, and only then."""
        mine, other = Assigned("db1", "i", 1), Assigned("db1", "i", 2)
        self.assertTrue(self.routes.still_assigned("n1", other))  # nobody said anything
        tunnel = self.add("n1", "db1")
        for inventory, calls, holds in (
            (Inventory(1, frozenset({mine})), 1, (True, False)),
            (Inventory(1, frozenset({mine})), 1, (True, False)),
            (Inventory(3, frozenset({other})), 2, (False, True)),
            (Inventory(), 3, (True, True)),  # an Authority that keeps none
        ):
            self.routes.change(tunnel, 2, frozenset({"db1"}), inventory)
            self.assertEqual(self.reassigned, ["n1"] * calls)
            told = tuple(self.routes.still_assigned("n1", one) for one in (mine, other))
            self.assertEqual(told, holds)

    def test_streams_belong_to_their_connection(self) -> None:
        """A connection's streams find the tunnel registered on it and no other."""
        tunnel = self.add("n1", "db1")
        self.assertIs(self.routes.tunnel_on(tunnel.connection), tunnel)
        self.assertIsNone(self.routes.tunnel_on(object()))
        tunnel.close(EndReason.CLOSED)
        self.assertIsNone(self.routes.tunnel_on(tunnel.connection))

    def test_stop(self) -> None:
        """A Proxy that stops drains its tunnels first and closes them in order."""
        tunnel = self.add("n1", "db1")
        self.routes.drain()
        self.assertIs(self.routes.find("db1"), Miss.DEPARTED)
        self.assertTrue(self.routes.tunnels == (tunnel,))
        self.routes.close()
        self.assertEqual((len(self.routes), self.clock.getDelayedCalls()), (0, []))

    @proves("G-TUN-18", "X-13")
    def test_any_order_of_events(self) -> None:
        """Whatever happens in whatever order, the gauge is true and each end has one reason."""
        run_state_machine_as_test(
            RouteMachine, settings=settings(deadline=None, max_examples=examples(80))
        )


class RouteMachine(RuleBasedStateMachine):
    """Registers, ends, evicts and lets leases run out, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.told: list[TunnelEvent] = []
        self.routes = RouteTable(self.told.append, on_reassigned=nothing)
        self.made: list[RegisteredTunnel] = []
        self.lines: list[Line] = []
        self.ever: set[str] = set()

    @rule(
        node=st.sampled_from(NODES),
        resources=st.frozensets(st.sampled_from(RESOURCES)),
        instance=st.sampled_from(("a", "b")),
        generation=st.integers(1, 4),
    )
    def register(
        self, node: str, resources: frozenset[str], instance: str, generation: int
    ) -> None:
        line = Line(self.clock)
        tunnel = line.tunnel(node, *resources, instance_id=instance, generation=generation)
        try:
            self.routes.register(tunnel)
        except SvcError:
            return
        self.made.append(tunnel)
        self.lines.append(line)
        self.ever |= resources

    @rule(which=st.integers(0, 50), reason=st.sampled_from(EndReason))
    def end(self, which: int, reason: EndReason) -> None:
        if self.made:
            self.made[which % len(self.made)].close(reason)

    @rule(which=st.integers(0, 50), resources=st.frozensets(st.sampled_from(RESOURCES)))
    def change(self, which: int, resources: frozenset[str]) -> None:
        if self.made:
            tunnel = self.made[which % len(self.made)]
            if tunnel in self.routes.tunnels:
                self.ever |= resources
            self.routes.change(tunnel, tunnel.generation + 1, resources)

    @rule(node=st.sampled_from(NODES))
    def evict(self, node: str) -> None:
        self.routes.evict(node)

    @rule(seconds=st.sampled_from((1.0, 30.0, 91.0)), which=st.integers(0, 50))
    def pass_time(self, seconds: float, which: int) -> None:
        if self.made:
            self.made[which % len(self.made)].renew()
        self.clock.advance(seconds)

    @invariant()
    def gauge_is_true(self) -> None:
        counts = Counter(type(event) for event in self.told)
        active = counts[TunnelRegistered] - counts[TunnelEnded]
        assert active == len(self.routes) == len(self.routes.tunnels)

    @invariant()
    def one_reason_each(self) -> None:
        ended = sum(isinstance(event, TunnelEnded) for event in self.told)
        assert ended == sum(len(line.hung_up) for line in self.lines)
        assert all(len(line.hung_up) <= 1 for line in self.lines)

    @invariant()
    def routes_lead_to_living_tunnels(self) -> None:
        alive = set(self.routes.tunnels)
        assert len({tunnel.node_id for tunnel in alive}) == len(alive)
        for resource in RESOURCES:
            found = self.routes.find(resource)
            serving = [t for t in alive if resource in t.resources]
            if isinstance(found, Miss):
                assert not serving
                assert (found is Miss.DEPARTED) == (resource in self.ever)
            else:
                assert found in serving

    @invariant()
    def timers_belong_to_the_living(self) -> None:
        assert len(self.clock.getDelayedCalls()) == len(self.routes)
