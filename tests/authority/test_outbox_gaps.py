"""What the leader says is missing from the spools of Proxies."""

from __future__ import annotations

from typing import Any

from svc.authority.ingest.apply import MAX_UNKNOWN
from svc.authority.ingest.drain import _LOOKS
from svc.model.audit.events import REFUSALS_SUMMARY
from svc.model.audit.record import Actor
from svc.model.audit.replay import GAP_SECS
from tests.authority.house import ADA
from tests.authority.spools import Origin, Reading
from tests.authority.test_outbox import FORGED, REPLAYED, Queue


class GapTests(Queue):
    """What is told of rows that are missing."""

    def test_a_hole_is_told(self) -> None:
        """Row 50 of 100 is dropped: named with its range after ten minutes, once; it may come."""
        rows = self.rows(100)
        self.leader.inject(*rows[:49], *rows[50:])
        self.leader.drain()
        self.house.clock.advance(GAP_SECS - 1)
        self.leader.drain()
        self.assertEqual(self.events("audit.gap"), [])
        self.house.clock.advance(1)
        for _ in range(3):
            self.leader.drain()
        gap = {"spool_id": self.origin.spool_id, "first_n": 50, "last_n": 50, "count": 1}
        self.assertEqual(self.events("audit.gap"), [gap | {"reason": "missing"}])
        self.leader.inject(rows[49])
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1] * 100)
        self.assertEqual(self.events("audit.filled"), [gap | {"reason": None}])
        (record,) = self.house.records("audit.gap")
        self.assertEqual(record["node_id"], self.origin.id)

    def test_rows_that_keep_coming(self) -> None:
        """A gap that is due is told while rows come without an end, not only once none comes."""
        rows = self.rows(2 * _LOOKS + 4)
        self.leader.inject(rows[0], rows[2])
        self.leader.drain()
        self.house.clock.advance(GAP_SECS)
        coming = iter(rows[3:])
        read = self.leader.drains.store.read

        async def busy(desc: str, fn: Any) -> Any:
            if desc == "look at the audit queue" and (row := next(coming, None)) is not None:
                self.leader.inject(row)
            return await read(desc, fn)

        self.leader.drains.store = Reading(self.house.store, busy)
        self.leader.drain()
        events = [one["event"] for one in self.house.records()]
        behind = events[events.index("audit.gap") :].count("tcp.odd")
        self.assertGreater(behind, _LOOKS // 2)
        self.assertEqual(self.leader.logged(rows[3:]), [1] * (len(rows) - 3))

    def test_rows_in_any_order(self) -> None:
        """Reordered rows are all taken, and nothing is told of what was soon there."""
        rows = self.rows(20)
        for row in reversed(rows):
            self.leader.inject(row)
            self.leader.drain()
        self.house.clock.advance(GAP_SECS)
        self.leader.drain()
        self.assertEqual(self.leader.logged(rows), [1] * 20)
        self.assertEqual((self.events("audit.gap"), self.leader.held), ([], []))

    def test_a_spool_that_is_lost(self) -> None:
        """A former spool that neither ended nor is kept any more is a gap with no end."""
        rows = self.rows(5)
        lost = self.origin.spool_id
        self.leader.inject(*rows)
        self.leader.drain()
        for _ in range(2):
            self.leader.inject(self.origin.begin(), self.origin.noted(), self.origin.close())
            self.leader.drain()
        gap = {"spool_id": lost, "first_n": 6, "reason": "spool_lost"}
        self.assertEqual(self.events("audit.gap"), [gap])
        self.leader.inject(rows[4])
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [REPLAYED])

    def test_former_spools_that_are_made_up(self) -> None:
        """Numbers that no record can hold are forged; of many unknown spools few are awaited."""
        for former in (f"{'a' * 32}:{2**53}", f"{'a' * 32}:9999999999999999", "a:1", "a" * 32):
            self.leader.inject(self.origin.begin(former))
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [FORGED] * 4)
        self.leader.inject(self.origin.begin(*(f"{n:032x}:3" for n in range(200))))
        self.leader.drain()
        self.house.clock.advance(GAP_SECS)
        for _ in range(3):
            self.leader.drain()
        self.assertEqual(len(self.events("audit.gap")), MAX_UNKNOWN)

    def test_a_summary_is_its_origins_own(self) -> None:
        """A Proxy says what it refused itself, never what another node did."""
        other = Origin(self.house, "edge8")
        for actor, about in (
            (Actor("node", other.id), None),
            (Actor("person", ADA), None),
            (Actor("node", self.origin.id), other.id),
        ):
            record = self.origin.record(
                REFUSALS_SUMMARY, actor, node_id=about, reason="opens", details={"count": 3}
            )
            self.leader.inject(self.origin.add(record))
        self.leader.drain()
        self.assertEqual(self.leader.holds(), [FORGED] * 3)

    def test_a_spool_that_is_kept(self) -> None:
        """A former spool that is announced is awaited up to its last row."""
        rows = self.rows(5)
        former = self.origin.spool_id
        self.leader.inject(*rows[:3])
        self.leader.drain()
        self.leader.inject(self.origin.begin(f"{former}:5"))
        self.leader.drain()
        self.assertEqual(self.events("audit.gap"), [])
        self.leader.inject(rows[3])
        self.leader.drain()
        self.house.clock.advance(GAP_SECS)
        self.leader.drain()
        gap = {"spool_id": former, "first_n": 5, "last_n": 5, "count": 1, "reason": "missing"}
        self.assertEqual(self.events("audit.gap"), [gap])
        self.leader.inject(self.origin.close(), self.origin.begin())
        self.leader.drain()
        self.assertEqual(self.events("audit.gap"), [gap], "it was named once, with its end")

    def test_an_end_in_order(self) -> None:
        """A spool that was closed is missed by nobody, and nothing follows its end."""
        rows = [*self.rows(2), self.origin.close()]
        after = self.origin.noted()
        self.leader.inject(*rows, after)
        self.leader.drain()
        self.leader.inject(self.origin.begin())
        self.leader.drain()
        self.house.clock.advance(GAP_SECS)
        self.leader.drain()
        self.assertEqual((self.events("audit.gap"), self.leader.holds()), ([], [FORGED]))

    def test_an_older_spool_comes_later(self) -> None:
        """A spool that comes after a newer one says nothing about that one."""
        older = [self.origin.first, self.origin.noted()]
        older_id = self.origin.spool_id
        newer = [self.origin.begin(f"{older_id}:2"), self.origin.noted()]
        self.leader.inject(*newer)
        self.leader.drain()
        self.leader.inject(*older)
        self.leader.drain()
        self.assertEqual(self.events("audit.gap"), [])
        self.assertEqual(self.leader.logged([*older, *newer]), [1] * 4)
