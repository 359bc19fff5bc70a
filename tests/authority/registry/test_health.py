"""What nodes report of their health: whose word is taken, and how it is kept."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.messages.health import encode_health
from svc.model.cluster.health import STALE_SECS, CheckFound, HealthReport, NodeHealth
from svc.model.doctor import CheckSeverity
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed, sign
from tests.authority.house import Holder, House
from tests.authority.registry.support import reported_health
from tests.pki.support import CLUSTER
from tests.support.logged import logged
from tests.support.proof import proves


class HealthTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = House()
        self.health = reported_health(self.house)

    def report(self, holder: Holder, **fields: Any) -> HealthReport:
        """What a sick node says of itself now."""
        report = HealthReport(
            cluster=CLUSTER,
            node_id=holder.id,
            made_at_ms=int(self.house.now() * 1000),
            version="0.11.0",
            worst=CheckSeverity.FAIL,
            failed=1,
            warnings=0,
            found=(CheckFound("store.reachable", CheckSeverity.FAIL),),
        )
        return evolve(report, **fields)

    def signed(
        self, holder: Holder, purpose: Purpose = Purpose.HEALTH_REPORT, **fields: Any
    ) -> Signed:
        """The same, as it travels."""
        data = encode_health(self.report(holder, **fields))
        return Signed(data, sign(holder.key, purpose, data), holder.chain)

    def take(self, *reports: Signed) -> list[tuple[int, str]]:
        """Which are refused, and why."""
        receipt = self.health.take(reports, self.house.proxy.id)
        return [(one.index, one.reason) for one in receipt.refused]

    def written(self) -> dict[str, NodeHealth]:
        """What is stored once everything that came is written."""
        self.successResultOf(Deferred.fromCoroutine(self.health.write()))
        return dict(self.house.run(lambda tx: tx.health.all()))

    @proves("G-OPEN-78", "G-CLI-05")
    def test_written_together(self) -> None:
        """Reports of many nodes are one transaction; of a node the last report stays."""
        house = self.house
        nodes = [house.node(Role.CONNECTOR, f"node{number}") for number in range(100)]
        house.refresh()
        before = house.store.written
        for holder in nodes:
            self.assertEqual(self.take(self.signed(holder)), [])
        self.assertEqual(len(self.written()), 100)
        self.assertEqual(house.store.written, before + 1)
        self.written()
        self.assertEqual(house.store.written, before + 1)
        house.clock.advance(60)
        well: dict[str, Any] = {"worst": CheckSeverity.OK, "failed": 0, "found": ()}
        self.take(self.signed(nodes[0], **well))
        stored = self.written()[nodes[0].id]
        self.assertEqual(
            (stored.at, stored.worst, stored.failed, stored.found),
            (house.now(), CheckSeverity.OK, 0, ()),
        )

    @proves("G-ROLE-09")
    def test_revoked(self) -> None:
        """Of a node that is revoked the last report stays, and no other one is taken."""
        house, node = self.house, self.house.connector
        self.take(self.signed(node))
        first = self.written()
        house.run(lambda tx: tx.nodes.revoke(node.id, 5.0))
        house.refresh()
        house.clock.advance(60)
        self.assertEqual(self.take(self.signed(node, failed=0)), [(0, "revoked_node")])
        self.assertEqual(self.written(), first)

    def test_a_node_speaks_for_itself_alone(self) -> None:
        """What another node signed, or signed for another purpose, harms no report beside it."""
        house, node = self.house, self.house.connector
        good = self.signed(node)
        forged = Signed(good.payload, self.signed(house.proxy).signature, node.chain)
        stranger = house.holder(Role.CONNECTOR)
        refused = self.take(
            forged,
            self.signed(node, Purpose.REGISTRATION),
            self.signed(house.proxy, node_id=node.id),
            self.signed(node, cluster="c2.test"),
            self.signed(stranger),
            self.signed(house.ada),
            good,
        )
        words = [reason for _, reason in refused]
        self.assertEqual([index for index, _ in refused], list(range(6)))
        self.assertEqual(words[:2], ["bad_signature"] * 2)
        self.assertEqual(words[2:4], ["health_report_refused"] * 2)
        self.assertEqual(words[4], "unknown_node")
        self.assertEqual(list(self.written()), [node.id])

    def test_brought_again(self) -> None:
        """A report that is brought again later makes no node look alive."""
        house, node = self.house, self.house.connector
        first = self.signed(node)
        self.take(first)
        house.clock.advance(61)
        second = self.signed(node, failed=7)
        self.take(second)
        stored = self.written()
        house.clock.advance(61)
        self.assertEqual(self.take(first, second), [])
        self.assertEqual(self.written(), stored)
        house.clock.advance(STALE_SECS)
        events = logged(self)
        for _ in range(2):
            self.assertEqual(self.take(second), [(0, "health_report_old")])
        self.assertEqual(
            [one["reason"] for one in events if "reason" in one], ["health_report_old"]
        )
        self.assertEqual(self.written(), stored)

    def test_bounded(self) -> None:
        """What is too long, or could not be shown, is refused before anything is made of it."""
        node = self.house.connector
        found = CheckFound("store.reachable", CheckSeverity.FAIL)
        for fields in (
            {"version": "v" * 64},
            {"failed": 10_001},
            {"found": (found,) * 65},
            {"found": (CheckFound("a.b\x1b[2J", CheckSeverity.FAIL),)},
        ):
            self.assertEqual(self.take(self.signed(node, **fields)), [(0, "malformed")], fields)
        self.assertEqual(self.written(), {})

    def test_store_is_away(self) -> None:
        """What could not be written is written once the store answers, unless there is newer."""
        house, node = self.house, self.house.connector
        self.take(self.signed(node), self.signed(house.proxy))
        house.store.mood = "down"
        with capturedLogs() as events:
            for _ in range(3):
                self.successResultOf(Deferred.fromCoroutine(self.health.write()))
        self.assertEqual([one["reason"] for one in events], ["store_unavailable"])
        house.clock.advance(1)
        self.take(self.signed(node, failed=2))
        house.store.mood = "well"
        stored = self.written()
        self.assertEqual(
            {id: one.failed for id, one in stored.items()}, {node.id: 2, house.proxy.id: 1}
        )
