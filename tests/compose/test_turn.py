"""What an Authority does until it is its turn to write, and how ready it says it is."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.leading import TERM_SECS, Leadership
from svc.compose.authority_life import LEADER, LISTENERS, POLICY, STORE
from svc.compose.authority_parts import Serving
from svc.compose.authority_turn import CHECK_SECS, Standing, Turn
from svc.compose.listeners import LateFactory, RpcListener
from svc.errors import LeaseLost, SvcError
from svc.model.audit import chain_hash
from svc.model.lease import Lease
from svc.service import Readiness
from svc.store.memory import memory_store
from tests.authority.test_leading import Cut
from tests.proof import proves

FOLLOW_SECS = 10.0


class TurnTests(SynchronousTestCase):
    """One Authority beside another one that is only a lease."""

    def setUp(self) -> None:
        """Somebody else leads."""
        self.clock: Any = Clock()
        self.store = memory_store(chain_hash)
        self.way = Cut(self.store)
        self.change(lambda tx: tx.lease.take("them", "t1", Lease()))
        self.leadership = Leadership(self.way, "us", "u1", self.clock)
        self.ready = Readiness(STORE, LEADER, POLICY, LISTENERS)
        late = LateFactory(self.clock)
        nothing: Any = None
        self.listener = RpcListener(nothing, late, 1.0)
        self.ended: list[SvcError] = []
        self.turn = Turn(
            self.leadership, None, self.ready, {"control": self.listener}, self.ended.append,
            self.follow, FOLLOW_SECS,
        )  # fmt: skip
        self.passes = 0
        self.standing = Standing(self.way, self.leadership, self.ready, self.clock)
        self.successResultOf(self.leadership.startService())
        self.successResultOf(self.standing.startService())

    async def follow(self) -> None:
        """Count the passes of who stands by."""
        self.passes += 1

    def change(self, fn: Any) -> Any:
        """A transaction of somebody else."""
        return self.successResultOf(Deferred.fromCoroutine(self.store.run("change", fn)))

    def beats(self, seconds: float) -> None:
        """The other one beats for so long."""
        for _ in range(round(seconds)):
            self.change(lambda tx: tx.lease.beat(tx.lease.held()))
            self.clock.advance(1)

    @proves("G-RDY-07", "X-65")
    def test_standing_by(self) -> None:
        """Who stands by is ready, and leads once the leader is silent."""
        starting = self.turn.startService()
        self.assertEqual(self.ready.missing, ())
        self.assertTrue(self.listener.late.is_open)
        self.beats(4 * TERM_SECS)
        self.assertNoResult(starting)
        self.assertEqual(self.ready.missing, ())
        self.assertEqual(self.passes, 1 + 4 * TERM_SECS // FOLLOW_SECS)
        self.clock.pump([1] * round(TERM_SECS + 1))
        self.successResultOf(starting)
        passes = self.passes
        self.clock.pump([1] * round(2 * FOLLOW_SECS))
        self.assertEqual(self.passes, passes, "who leads follows nobody")
        self.assertEqual(self.ready.missing, (POLICY, LISTENERS), "what it must now do itself")

    @proves("G-RDY-05", "G-RDY-06", "G-OPEN-39")
    def test_the_store_goes_and_comes(self) -> None:
        """Without the store, or without a leader, nobody is ready; with both again everybody is."""
        self.turn.startService()
        self.way.is_cut = True
        self.beats(CHECK_SECS + 1)
        self.assertIn(STORE, self.ready.missing)
        self.way.is_cut = False
        self.beats(CHECK_SECS + 1)
        self.assertEqual(self.ready.missing, ())
        self.way.held = []
        self.beats(CHECK_SECS + 3)
        self.assertIn(STORE, self.ready.missing, "it does not answer in time")

    def test_stopped(self) -> None:
        """A stop while standing by waits for nothing."""
        starting = self.turn.startService()
        starting.cancel()
        self.failureResultOf(starting, CancelledError)

    def test_superseded(self) -> None:
        """Who is superseded ends its process, and says who leads."""
        self.change(lambda tx: tx.lease.leave(tx.lease.held()))
        self.clock.advance(TERM_SECS)
        self.successResultOf(self.turn.startService())
        self.change(lambda tx: tx.lease.take("them", "t2", tx.lease.held()))
        self.assertEqual(self.ended, [])
        self.clock.advance(TERM_SECS)
        self.assertEqual([each.details["leader"] for each in self.ended], ["them"])

    @proves("G-HA-01")
    def test_callers_are_told_who_leads(self) -> None:
        """Until it is our turn a call is refused with the leader's id; then it is admitted."""
        serving, admitted = Serving(self.leadership), list[str]()
        admit = serving.guarded(lambda method, peer: admitted.append(method))
        nobody: Any = None
        refusal = self.assertRaises(LeaseLost, admit, "/a/B", nobody)
        self.assertEqual((refusal.leader, admitted), ("them", []))
        serving.is_on = True
        admit("/a/B", nobody)
        self.assertEqual(admitted, ["/a/B"])

    def test_no_store_at_first(self) -> None:
        """A check that fails is no failure of the start."""
        self.way.is_cut = True
        ready = Readiness(STORE, LEADER)
        standing = Standing(self.way, self.leadership, ready, self.clock)
        self.successResultOf(standing.startService())
        self.assertEqual(ready.missing, (STORE,))
