"""F8: two Authorities, a Proxy of theirs, and a network that parts one of them.

From the store, from the other one, or from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from time import monotonic

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from tests.fault.duel import TAKING, Duel, side_by_side
from tests.fault.tally import IS_LONG, Tally, counted, in_long_form, lanes
from tests.fault.tcp import DOWN, UP, FaultProxy, Mode
from tests.support.proof import proves

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
BACK: Mapping[str, str] = {
    "held one way": "answers held",
    "lost one way": "answers lost",
    "answers held": "held one way",
    "answers lost": "lost one way",
}
"""How a connection fares that is made in the opposite direction, where only one is parted."""

LANES = lanes(4)
LEADER, FOLLOWER, BETWEEN = counted(1, 64), counted(0, 16), counted(1, 20)
"""How often the leader is parted from the store, the follower, and the two from one another."""


@contextmanager
def parted(kind: str, *ways: FaultProxy, back: tuple[FaultProxy, ...] = ()) -> Iterator[None]:
    """Let these fail in one manner, and heal at the end.

    Args:
        back: For connections that are made in the opposite direction.
    """
    with ExitStack() as healed:
        for way in (*ways, *back):
            healed.callback(way.heal)
            PARTITIONS[BACK.get(kind, kind) if way in back else kind](way)
        yield


class Partitions(SynchronousTestCase):
    """A Proxy, in the long form, follows whoever leads."""

    @proves("G-AUD-01")
    def test_the_leader_is_parted(self) -> None:
        """One writes at a time, the log never forks, and the Proxy moves once for each change."""
        self.check(LEADER, self.part_leader)

    @in_long_form
    def test_the_follower_is_parted(self) -> None:
        """Nothing changes: it does not take what it cannot see."""
        self.check(FOLLOWER, self.part_follower)

    @proves("G-HA-01")
    def test_they_are_parted_from_one_another(self) -> None:
        """Nobody else leads, both reach the store; who stands by says what it does not reach."""
        self.check(BETWEEN, self.part_both)

    def check(self, rounds: int, part: Callable[[Duel, str, int], None]) -> None:
        """Part something in each manner in turn."""
        kinds = list(PARTITIONS)

        def play(duel: Duel, number: int) -> None:
            if IS_LONG and "proxy" not in duel.cluster.gateway.roles:
                self.add_proxy(duel)
            with TALLY.one():
                part(duel, kinds[number % len(kinds)], number)

        side_by_side(self, LANES, rounds, play)

    def part_leader(self, duel: Duel, kind: str, number: int) -> None:
        """The other one leads, and the Proxy follows, before the one that led knows of it.

        Every second time of each manner it is parted from the other one as well.
        """
        ways: list[FaultProxy] = [duel.way]
        back: tuple[FaultProxy, ...] = ()
        if (number + number // len(PARTITIONS)) % 2:
            there, away = duel.private
            ways, back = [duel.way, away], (there,)
        with parted(kind, *ways, back=back):
            duel.taken_over(TALLY)
            self.check_proxy(duel)
        duel.came_back()
        self.check_proxy(duel)

    def part_follower(self, duel: Duel, kind: str, _number: int) -> None:
        """Nothing changes."""
        with parted(kind, duel.cluster.ways[duel.other]):
            duel.appenders[duel.leader].await_acked(20)
        self.check_unchanged(duel)

    def part_both(self, duel: Duel, kind: str, _number: int) -> None:
        """The leader goes on; the other one is ready again when the two are not parted any more."""
        there, back = duel.private
        duel.cluster.gateway.await_ready(duel.other)
        with parted(kind, there, back=(back,)):
            until("it misses the leader", lambda: self.misses_leader(duel), TAKING)
            duel.appenders[duel.leader].await_acked(20)
            asked = duel.appenders[duel.other]
            asked.await_refused()
            self.assertEqual(list(asked.refusals.values())[-1], "not_leader")
        with TALLY.timed():
            self.check_unchanged(duel)

    def misses_leader(self, duel: Duel) -> bool:
        """Whether who stands by is not ready, for that reason alone."""
        status, said = duel.cluster.gateway.get(duel.other, "/readyz")
        return status == 503 and "leader route" in said and "store" not in said

    def check_unchanged(self, duel: Duel) -> None:
        """Who stood by is ready and stands by, and the Proxy is where it was."""
        gateway = duel.cluster.gateway
        gateway.await_ready(duel.other)
        self.assertEqual(duel.seen_epoch(), duel.epoch)
        if "proxy" in gateway.roles:
            self.assertEqual(gateway.metric("proxy", MOVES), duel.lost)

    def check_proxy(self, duel: Duel) -> None:
        """It has moved once for each change of who leads."""
        if "proxy" in duel.cluster.gateway.roles:
            began = monotonic()
            duel.cluster.gateway.await_metric("proxy", MOVES, duel.lost)
            TALLY.tell_longest("the Proxy's move after that", monotonic() - began)

    def add_proxy(self, duel: Duel) -> None:
        """A Proxy that knows both."""
        gateway = duel.cluster.gateway
        gateway.pin = gateway.status()["ca_pin"]
        gateway.make_proxy()
        until("it knows who leads", lambda: gateway.metric("proxy", MOVES) == 0)
