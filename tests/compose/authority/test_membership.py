"""How an Authority that lacks the address of another member says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.ha.lease import TERM_SECS
from svc.compose.authority.peers import _membership
from svc.model.audit.record import chain_hash
from svc.model.cluster.lease import Member
from svc.runtime.services import Readiness
from svc.store.sqlite.memory import memory_store
from tests.support.proof import proves


class ReadinessTests(SynchronousTestCase):
    """One Authority, and another that is only a row of the store."""

    @proves("G-RDY-05", "G-RDY-06")
    def test_membership(self) -> None:
        """It is ready while every member has an address here, and not while one has none."""
        clock, store = Clock(), memory_store(chain_hash)
        leadership = SimpleNamespace(owner="a1", instance="a1-1")
        settings = SimpleNamespace(
            authority=SimpleNamespace(peers={"a1": "", "a2": ""}),
            endpoints=SimpleNamespace(private_listen=""),
            store_lease_secs=TERM_SECS,
        )
        parts: Any = SimpleNamespace(
            settings=settings,
            leadership=leadership,
            identity=SimpleNamespace(principal=SimpleNamespace(id="n" * 26)),
            opened=SimpleNamespace(store=store),
            runtime=SimpleNamespace(reactor=clock),
        )
        ready, ended = Readiness("membership"), list[Any]()
        membership = _membership(parts, ready, ended.append)
        self.successResultOf(membership.startService())
        self.assertEqual(ready.missing, ())

        def appear(name: str) -> None:
            come = store.run("come", lambda tx: tx.lease.appear(Member(name, "m" * 26, "i"), None))
            self.assertTrue(self.successResultOf(Deferred.fromCoroutine(come)))
            clock.pump([1] * round(TERM_SECS / 2))

        appear("a2")
        self.assertEqual(ready.missing, ())
        appear("a3")
        self.assertEqual(ready.missing, ("membership",))
        clock.pump([1] * round(4 * TERM_SECS))
        self.assertEqual((ready.missing, ended), ((), []))
