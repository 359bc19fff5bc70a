"""The watch over the audit queue: what waits, and what vanished from it."""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.record import Actor
from svc.proto.gate.v1 import admin_pb2 as pb
from tests.authority.house import House, refusal_of, value_of
from tests.authority.spools import Leader, Origin, watcher
from tests.support.proof import proves

OPERATOR = Actor("operator", "local:0")


class WatchTests(SynchronousTestCase):
    """A leader, and an instance that watches."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.origin = Origin(self.house, "edge7")
        self.told: dict[str, float] = {"missing": 0.0}
        self.watcher = watcher(self.house, self.told)

    def watch(self) -> dict[str, float]:
        """One pass, and what it told."""
        value_of(self.watcher.watch())
        return dict(self.told)

    def test_gauges(self) -> None:
        """Depth counts held rows too, the age grows by a second a second, and all fall to 0."""
        none = {"depth": 0.0, "held": 0.0, "age": 0.0, "missing": 0.0}
        self.assertEqual(self.watch(), none)
        rows = [self.origin.first, self.origin.noted()]
        self.leader.inject(evolve(rows[0], signature=b""), *rows)
        self.assertEqual(self.watch(), none | {"depth": 3.0})
        self.leader.drain()
        self.house.clock.advance(7.0)
        self.assertEqual(self.watch(), none | {"depth": 1.0, "held": 1.0, "age": 7.0})
        self.house.clock.advance(1.0)
        self.assertEqual(self.watch()["age"], 8.0)
        self.discard()
        self.assertEqual(self.watch(), none)

    def discard(self) -> None:
        """An operator throws the first row away."""
        request = pb.DiscardRowRequest(id=self.leader.queue()[0].id, note="why")
        value_of(self.leader.admin.discard(request, OPERATOR))

    @proves("X-16", "G-AUD-10")
    def test_missing(self) -> None:
        """A row deleted by SQL is missing, once; one drained, discarded or never seen is not."""
        rows = [self.origin.first, *(self.origin.noted() for _ in range(5))]
        self.leader.inject(evolve(rows[0], signature=b""), *rows)
        self.watch()
        self.leader.drain()
        self.assertEqual(self.watch()["missing"], 0)
        self.discard()
        self.assertEqual(self.watch()["missing"], 0)
        self.leader.inject(*(self.origin.noted() for _ in range(4)))
        self.house.by_sql("DELETE FROM outbox WHERE n = 7")
        self.assertEqual(self.watch()["missing"], 0, "it was never seen")
        self.house.by_sql("DELETE FROM outbox WHERE n IN (8, 9)")
        self.leader.drain()
        for _ in range(3):
            self.assertEqual(self.watch()["missing"], 2)

    def test_a_pass_that_fails(self) -> None:
        """What vanished while the store was away is counted once it is back."""
        self.leader.inject(self.origin.first)
        self.watch()
        self.house.by_sql("DELETE FROM outbox")
        self.house.store.mood = "down"
        refusal_of(self.watcher.watch())
        self.house.store.mood = "well"
        self.assertEqual([self.watch()["missing"] for _ in range(2)], [1, 1])

    def test_more_than_are_watched(self) -> None:
        """Past its limit it watches the oldest rows, and takes none of the others for missing."""
        self.watcher.most = 3
        rows = [self.origin.first, *(self.origin.noted() for _ in range(5))]
        self.leader.inject(*rows)
        self.watch()
        self.house.by_sql("DELETE FROM outbox WHERE n = 2")
        self.assertEqual(self.watch()["missing"], 1)
        self.leader.drain()
        self.assertEqual((self.watch()["missing"], self.watch()["depth"]), (1, 0))
