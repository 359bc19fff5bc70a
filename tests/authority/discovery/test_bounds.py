"""What one Connector may use up: of the catalog, of snapshots, of the store, of others' turns."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from svc.authority.discovery import settling
from svc.authority.state.recorder import node
from svc.errors import TooMany
from svc.messages.discovery import PublishAsk, publication_digest
from tests.authority.discovery.test_service import ServiceCase, row
from tests.authority.house import refusal_of, value_of

LONG = {"tier": "x" * 256}


class BoundsTests(ServiceCase):
    """Whatever a Connector publishes, as often as it likes."""

    def test_so_many(self) -> None:
        """No more resources of one Connector than there may be, over all transactions of a call."""
        self.patch(settling, "MAX_OF_NODE", 150)
        refused = self.publish(*(row(f"r{n}") for n in range(250)))
        self.assertEqual(set(refused.values()), {"catalog_full"})
        self.assertEqual((len(refused), self.counts["live"]), (100, 150))

    def test_so_many_bytes(self) -> None:
        """Long labels take more room: Proxies are sent all of them in one message."""
        self.patch(settling, "MAX_BYTES_OF_NODE", 1_000)
        rows = [row(f"r{n}", labels=LONG) for n in range(3)]
        self.assertEqual(self.publish(*rows), {"r2": "catalog_full"})
        self.assertEqual(self.publish(*rows), {"r2": "catalog_full"})
        longer = row("r1", labels={"tier": "\N{SNOWMAN}" * 256})
        self.assertEqual(
            self.publish(rows[0], longer), {"r1": "catalog_full"}, "labels that grow count too"
        )
        self.assertEqual(self.events("r1")[-1], "resource.depart:catalog_full")
        self.assertEqual(self.publish(rows[0]), {})

    def test_so_many_bytes_of_all(self) -> None:
        """Likewise of all Connectors together."""
        self.patch(settling, "MAX_BYTES_OF_ALL", 1_000)
        self.assertEqual(
            self.publish(*(row(f"r{n}", labels=LONG) for n in range(3))), {"r2": "catalog_full"}
        )

    def test_so_many_bytes_beside_the_operators(self) -> None:
        """What operators declared counts as well: a Connector gets what is left of a bundle."""
        rows = [row(f"r{n}", labels=LONG) for n in range(3)]
        self.discovery.ids.left = lambda least: 1_000
        self.assertEqual(self.publish(*rows), {"r2": "catalog_full"})
        self.discovery.ids.left = lambda least: -1
        self.assertEqual(self.publish(*rows), {"r2": "catalog_full"})
        self.assertEqual(self.known("r1").assigned_to, self.node.id)

    def test_renewed_all_the_time(self) -> None:
        """A renewal costs the Connector's budget, and the store a write only now and then."""
        self.publish(row("r1"))
        ask = PublishAsk("rack", unchanged=publication_digest((row("r1"),)))
        before = self.house.store.written
        for _ in range(10):
            value_of(self.discovery.publish(ask, self.node))
        self.assertEqual(self.house.store.written, before)
        self.house.clock.advance(20)
        for _ in range(10):
            value_of(self.discovery.publish(ask, self.node))
        self.assertEqual(self.house.store.written, before + 1)
        self.discovery.changes.spend(node(self.node.id), 10_000 - self.spent())
        self.assertIsInstance(refusal_of(self.discovery.publish(ask, self.node)), TooMany)

    def test_one_change_of_many(self) -> None:
        """A publication costs also what it repeats: all of it is read and written."""
        rows = [row(f"r{n}") for n in range(200)]
        self.publish(*rows)
        before = self.spent()
        self.publish(*rows[:-1], row("r199", labels={"tier": "other"}))
        self.assertEqual(self.spent() - before, 11)

    def test_one_at_a_time(self) -> None:
        """Of one Connector one publication waits for its turn, however many it sends."""
        self.house.store.mood = "silent"
        first = Deferred.fromCoroutine(
            self.discovery.publish(PublishAsk("rack", (row("r1"),)), self.node)
        )
        refused = refusal_of(self.discovery.publish(PublishAsk("hall", (row("r2"),)), self.node))
        self.assertEqual((refused.reason, refused.retry_after), ("publication_under_way", 1.0))
        first.addErrback(lambda _: None)
        first.cancel()
        self.house.store.mood = "well"
        self.assertEqual(self.publish(row("r1")), {})

    def spent(self) -> float:
        """Of the Connector's budget, since nothing comes back while the clock stands."""
        budget = self.discovery.changes
        wait = budget.buckets.wait(self.node.id, self.house.clock.seconds(), 10_000)
        return round(wait * budget.buckets.rate.per_minute / 60)
