"""F8: two Authorities, a Proxy of theirs, and a network that parts one of them from the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.processes import until
from tests.fault.duel import NAMES, Duel, side_by_side
from tests.fault.tally import IS_LONG, Tally, counted, in_long_form
from tests.fault.tcp import DOWN, UP, FaultProxy, Mode
from tests.proof import proves

_Apart = Callable[[FaultProxy], None]
TALLY = Tally("F8")
MOVES = "svc_authority_pool_moves_total"
PARTITIONS: Mapping[str, _Apart] = {
    "reset": lambda way: way.cut(reset=True),
    "held": lambda way: way.set(Mode.HOLD),
    "cut": lambda way: way.cut(),
    "lost": lambda way: way.set(Mode.LOSE),
    "held one way": lambda way: way.set(Mode.HOLD, UP),
    "lost one way": lambda way: way.set(Mode.LOSE, UP),
    "answers held": lambda way: way.set(Mode.HOLD, DOWN),
    "answers lost": lambda way: way.set(Mode.LOSE, DOWN),
}
LANES = counted(1, 4)
APART = counted((1, 1), (76, 24))
"""How often the leader is parted, and the follower."""


class Partitions(SynchronousTestCase):
    """A Proxy, in the long form, follows whoever leads."""

    @proves("G-HA-01", "G-HA-03", "G-MET-25", "G-AUD-01")
    def test_the_leader_is_parted(self) -> None:
        """One writes at a time, the log never forks, and the Proxy moves once for each change."""
        self.check(APART[0], self.part_leader)

    @in_long_form
    def test_the_follower_is_parted(self) -> None:
        """Nothing changes: it does not take what it cannot see."""
        self.check(APART[1], self.part_follower)

    def check(self, rounds: int, part: Callable[[Duel, _Apart], None]) -> None:
        """Part one of the two from the store in each way in turn."""
        kinds = list(PARTITIONS.values())

        def play(duel: Duel, number: int) -> None:
            if IS_LONG and "proxy" not in duel.cluster.gateway.roles:
                self.add_proxy(duel)
            with TALLY.one():
                part(duel, kinds[number % len(kinds)])

        side_by_side(self, LANES, rounds, play)

    def part_leader(self, duel: Duel, apart: _Apart) -> None:
        """The other one leads; the one that led ends when it sees that."""
        way = duel.way
        apart(way)
        try:
            duel.taken_over(TALLY)
        finally:
            way.heal()
        duel.came_back()
        if "proxy" in duel.cluster.gateway.roles:
            duel.cluster.gateway.await_metric("proxy", MOVES, duel.lost)

    def part_follower(self, duel: Duel, apart: _Apart) -> None:
        """Nothing changes."""
        way = duel.cluster.ways[duel.other]
        apart(way)
        try:
            duel.appenders[duel.leader].await_acked(20)
        finally:
            way.heal()
        duel.cluster.gateway.await_ready(duel.other)
        self.assertEqual(duel.cluster.gateway.metric("proxy", MOVES), duel.lost)

    def add_proxy(self, duel: Duel) -> None:
        """A Proxy that knows both."""
        gateway = duel.cluster.gateway
        control = gateway.files.table(NAMES[1])["endpoints.control_listen"]
        known = {"endpoints.authority_failover": [control]}
        gateway.files.write("proxy", gateway.files.table("proxy") | known)
        gateway.pin = gateway.status()["ca_pin"]
        gateway.make_proxy()
        until("it knows who leads", lambda: gateway.metric("proxy", MOVES) == 0)
