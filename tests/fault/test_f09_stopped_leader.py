"""F9: the leader is stopped beyond its lease in the middle of an append, and then goes on."""

from __future__ import annotations

import signal
from threading import Event

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import TIMEOUT_SECS
from tests.fault import wire
from tests.fault.duel import Duel, side_by_side
from tests.fault.tally import Tally, counted, in_long_form, lanes
from tests.support.proof import proves

TALLY = Tally("F9")
LANES = lanes(5)
ROUNDS = counted(1, 40)
"""At each point."""


class StoppedLeader(SynchronousTestCase):
    """What it was about to write arrives when another one leads; no lease but the store's counts.

    In a transaction it holds up everybody else, until the server ends it after its 10 s.
    """

    @proves("G-HA-01", "G-AUD-01")
    def test_before_it_begins(self) -> None:
        """Its transaction is begun under an epoch that is over, and refused."""
        self.check(wire.BEGIN, refusal="not_leader")

    @in_long_form
    @proves("G-AUD-01")
    def test_before_it_reads_the_head(self) -> None:
        """It has been let in, and is undone before another one is."""
        self.check(wire.HEAD_READ)

    @in_long_form
    @proves("G-AUD-01")
    def test_before_it_writes_the_row(self) -> None:
        """What it would write would have a good link; it is undone all the same."""
        self.check(wire.ROW_INSERT)

    @in_long_form
    @proves("G-AUD-01")
    def test_before_it_commits(self) -> None:
        """What it has written is undone."""
        self.check(wire.COMMIT)

    @in_long_form
    @proves("G-AUD-01")
    def test_before_it_knows(self) -> None:
        """What it has committed stands, and is before all that another one writes."""
        self.check(wire.COMMIT, is_after=True)

    def check(self, mark: bytes, is_after: bool = False, refusal: str = "") -> None:
        """Stop the leader here again and again."""

        def act(duel: Duel, _number: int) -> None:
            self.stop(duel, mark, is_after, refusal)

        side_by_side(self, LANES, ROUNDS, act)

    def stop(self, duel: Duel, mark: bytes, is_after: bool, refusal: str) -> None:
        """Stop the leader once; what it was about to write is refused so, if it is said how."""
        leader, way = duel.cluster.child(duel.leader), duel.way
        appender = duel.appenders[duel.leader]
        appender.look()
        before = len(appender.refusals)
        stopped, go = Event(), Event()

        def stop() -> bool:
            leader.signal(signal.SIGSTOP)
            stopped.set()
            go.wait()
            return True

        way.watcher = wire.Trap(mark, is_after, stop)
        with TALLY.one():
            try:
                self.assertTrue(stopped.wait(TIMEOUT_SECS))
                duel.taken_over(TALLY)
            finally:
                # What was held arrives first: at a server where another epoch has begun.
                go.set()
                leader.signal(signal.SIGCONT)
                way.watcher = None
            duel.came_back()
            appender.look()
            self.assertIn(refusal, ("", list(appender.refusals.values())[before]))
