"""What the facets of the audit queue keep: one test a promise of ``svc.interfaces.outbox``.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import AlreadyExists
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.outbox import AcceptedRow, Hold, Offered, QueueCounts
from svc.model.audit.replay import Hole, SpoolMemory
from svc.model.audit.spool import SpoolRow, row_digest

ROW = SpoolRow(
    canonical=b'{"a":"\xc3\xa9"}',
    personal=(PersonalValue("p", bytes(16), '"x\\u0000\xe9"'),),
    key_id="k1",
    signature=b"\0sig",
)
BARE = SpoolRow(canonical=b"\xff no record", personal=(), key_id="", signature=b"")
OFFERED = Offered(row=ROW, origin="o1", spool_id="s1", n=1)


def offered(n: int, row: SpoolRow = ROW, origin: str = "o1", spool_id: str = "s1") -> Offered:
    """A row at that place."""
    return Offered(row=row, origin=origin, spool_id=spool_id, n=n)


class QueueContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_the_queue_keeps_rows(self: Any) -> None:
        """Rows come back byte for byte, in order, and a number is never used again."""

        def story(tx: ITransaction) -> Any:
            tx.outbox.add([offered(1), offered(2, BARE)], 5.0)
            rows = tx.outbox.rows(0, 9)
            self.assertEqual([row.row for row in rows], [ROW, BARE])
            self.assertEqual([(row.queued_at, row.hold) for row in rows], [(5.0, None)] * 2)
            numbers = [row.id for row in rows]
            self.assertEqual(tx.outbox.rows(numbers[0], 9), rows[1:])
            self.assertEqual(tx.outbox.ids(1), (numbers[0],))
            dropped = [tx.outbox.drop(each) for each in (numbers[:1], numbers, numbers, [])]
            self.assertEqual(dropped, [1, 1, 0, 0])
            tx.outbox.add([offered(1)], 6.0)
            (later,) = tx.outbox.ids(9)
            self.assertGreater(later, numbers[1])
            return tx.outbox.counts()

        counts = await self.store.run("story", story)
        self.assertEqual((counts.rows, counts.held, counts.oldest), (1, 0, 6.0))
        self.assertEqual(await self.store.read("look", lambda tx: tx.outbox.counts()), counts)

    async def test_the_queue_holds_rows(self: Any) -> None:
        """A held row stays, is held once, and waits no more; an unknown key may become known."""

        def story(tx: ITransaction) -> Any:
            tx.outbox.add([offered(n, evolve(ROW, key_id=f"k{n}")) for n in (1, 2, 3)], 5.0)
            first, second, third = tx.outbox.ids(9)
            held = [
                tx.outbox.hold(first, Hold.UNKNOWN_KEY, 6.0),
                tx.outbox.hold(first, Hold.FORGED, 7.0),
                tx.outbox.hold(first, Hold.UNKNOWN_KEY, 8.0),
                tx.outbox.hold(second, Hold.REPLAYED, 9.0),
            ]
            self.assertEqual(held, [True, False, False, True])
            row = tx.outbox.rows(0, 1)[0]
            self.assertEqual((row.hold, row.held_at), (Hold.UNKNOWN_KEY, 6.0))
            self.assertEqual(tx.outbox.unknown_keys(), ("k1",))
            waiting = [
                [row.id for row in tx.outbox.waiting(*words)]
                for words in (
                    (0, 9, 1 << 20),
                    (0, 9, 1 << 20, ["k1", "k2", "k9"]),
                    (0, 1, 1 << 20, ["k1"]),
                    (0, 9, 1, ["k1"]),
                    (first, 9, 1 << 20, ["k1"]),
                    (third, 9, 1 << 20),
                )
            ]
            wanted = [[third], [first, third], [first], [first], [third], []]
            self.assertEqual(waiting, wanted)
            return tx.outbox.counts()

        counts = await self.store.run("story", story)
        self.assertEqual((counts.rows, counts.held), (3, 2))

    async def test_the_queue_is_counted_by_origin(self: Any) -> None:
        """How much of the queue is whose."""

        def story(tx: ITransaction) -> Any:
            tx.outbox.add([offered(1), offered(2), offered(1, BARE, "o2", "s2")], 5.0)
            return [tx.outbox.counts(origin) for origin in ("o1", "o2", "o3")]

        one, two, none = await self.store.run("story", story)
        self.assertEqual((one.rows, two.rows, none), (2, 1, QueueCounts()))
        self.assertGreater(one.bytes, 2 * len(ROW.canonical))
        self.assertGreaterEqual(two.bytes, len(BARE.canonical))

    async def test_memories_of_spools(self: Any) -> None:
        """A memory comes back as it was kept; spools that ended or have a hole are found."""
        hole = Hole(first=3, last=4, before=b"b" * 32, after=None, since=7.5)
        told = evolve(hole, first=6, last=6, before=None, after=b"a" * 32, is_recorded=True)
        memories = {
            "s1": SpoolMemory(9, b"t" * 32, (hole, told), given_up=1),
            "s2": SpoolMemory(3, None, (told,)),
            "s3": SpoolMemory(2, b"t" * 32, (), closed=2),
            "s4": SpoolMemory(2, b"t" * 32, (evolve(hole, since=9.0),), lost=True),
        }

        def story(tx: ITransaction) -> Any:
            self.assertIsNone(tx.spools.memory("o1", "s1"))
            for spool_id, memory in memories.items():
                tx.spools.keep("o1", spool_id, SpoolMemory())
                tx.spools.keep("o1", spool_id, memory)
            for spool_id, memory in memories.items():
                self.assertEqual(tx.spools.memory("o1", spool_id), memory)
            self.assertIsNone(tx.spools.memory("o2", "s1"))
            unended = tx.spools.unended("o1")
            self.assertEqual(unended, {name: memories[name] for name in ("s1", "s2")})
            found = [
                [name for _, name, _ in tx.spools.holed(*words)]
                for words in ((7.0, 9), (7.5, 9), (9.0, 9), (9.0, 1))
            ]
            self.assertEqual(found, [[], ["s1"], ["s1", "s4"], ["s1"]])

        await self.store.run("story", story)

    async def test_how_far_a_spool_is_queued(self: Any) -> None:
        """The queue says up to where it has the rows that follow, whatever else it has."""

        def story(tx: ITransaction) -> Any:
            tx.outbox.add([offered(n) for n in (2, 3, 3, 4, 6)], 5.0)
            tx.outbox.add([offered(5, spool_id="s2")], 5.0)
            whole = [tx.spools.queued_through("o1", "s1", n) for n in (0, 1, 3, 4, 5, 6)]
            self.assertEqual(whole, [0, 4, 4, 4, 6, 6])
            self.assertEqual(tx.spools.queued_through("o1", "s2", 4), 5)
            self.assertEqual(tx.spools.queued_through("o2", "s1", 1), 1)
            last = tx.outbox.ids(9)[-2]
            tx.outbox.hold(last, Hold.FORGED, 6.0)
            self.assertEqual(tx.spools.queued("o1"), {"s1": 4, "s2": 5})
            self.assertEqual(tx.spools.queued("o9"), {})

        await self.store.run("story", story)

    async def test_rows_that_are_there(self: Any) -> None:
        """A row is found in the queue or the log by what it is and where, beside any others."""
        others = [offered(1, evolve(ROW, signature=b"%d" % at)) for at in range(40)]
        logged = offered(2, evolve(ROW, signature=b"logged"))

        def story(tx: ITransaction) -> None:
            tx.outbox.add([*others, OFFERED, offered(3, BARE)], 5.0)
            link = tx.audit.append(ROW.canonical, signature=logged.row.signature)
            tx.origins.accepted(
                [
                    AcceptedRow(
                        row_id=99, seq=link.seq, event_id="e1", origin="o1", spool_id="s1", n=2
                    )
                ]
            )

        await self.store.run("story", story)
        strange = [
            offered(9, logged.row),
            offered(2, logged.row, "o2"),
            offered(2, logged.row, spool_id="s2"),
            offered(1, evolve(ROW, signature=b"new")),
            offered(2, evolve(ROW, signature=b"new")),
        ]
        asked = [OFFERED, others[7], logged, offered(3, BARE), *strange]

        def look(tx: ITransaction) -> None:
            found = {row_digest(one.row) for one in asked[:4]}
            self.assertEqual(tx.spools.there(asked), found)
            self.assertEqual(tx.spools.there(strange), frozenset())
            self.assertEqual(tx.spools.there([]), frozenset())

        await self.store.read("look", look)

    async def test_rows_that_left_the_queue(self: Any) -> None:
        """What became a record is known by place, event and number; what was thrown away too."""

        def story(tx: ITransaction) -> Any:
            tx.outbox.add([offered(n) for n in range(1, 5)], 5.0)
            rows = tx.outbox.rows(0, 9)
            for n, row in enumerate(rows[:2], 1):
                signature = row.row.signature if n == 1 else b""
                link = tx.audit.append(row.row.canonical, signature=signature)
                tx.origins.accepted(
                    [
                        AcceptedRow(
                            row_id=row.id,
                            seq=link.seq,
                            event_id=f"e{n}",
                            origin="o1",
                            spool_id="s1",
                            n=n,
                        )
                    ]
                )
                tx.outbox.drop([row.id])
            tx.origins.discard(rows[2].id, "o1", "s1", 3, b"d" * 32, 6.0)
            tx.outbox.drop([rows[2].id])
            # The same place of another origin's spool is another place.
            link = tx.audit.append(b"{}", signature=b"s")
            tx.origins.accepted(
                [
                    AcceptedRow(
                        row_id=98, seq=link.seq, event_id="e8", origin="o2", spool_id="s1", n=1
                    )
                ]
            )
            return rows

        rows = await self.store.run("story", story)
        ids = [row.id for row in rows]

        def look(tx: ITransaction) -> None:
            links = tx.audit.rows(1, 9)
            self.assertEqual([link.signature for link in links], [ROW.signature, b"", b"s"])
            self.assertEqual(tx.audit.tail(3), links)
            self.assertEqual(tx.origins.events(["e1", "e2", "e3"]), {"e1", "e2"})
            self.assertEqual(tx.origins.events([]), frozenset())
            after = [tx.spools.uncovered("o1", "s1", size) for size in (0, 1, 2)]
            self.assertEqual((*after, tx.spools.uncovered("o1", "s2", 0)), (1, 2, None, None))
            self.assertEqual([tx.origins.seq("o1", "s1", n) for n in (1, 2, 3)], [1, 2, None])
            self.assertEqual([tx.origins.seq("o2", "s1", n) for n in (1, 2)], [3, None])
            self.assertEqual(tx.origins.reached([*ids, 99]), frozenset(ids[:3]))
            gone = tx.origins.discarded("o1", "s1", [b"d" * 32, b"e" * 32])
            self.assertEqual(gone, {b"d" * 32})
            for spool in (("o1", "s2"), ("o2", "s1")):
                self.assertEqual(tx.origins.discarded(*spool, [b"d" * 32]), frozenset())

        await self.store.read("look", look)
        for place, event_id in ((1, "e9"), (9, "e1")):
            with self.assertRaises(AlreadyExists):
                await self.store.run(
                    "again",
                    lambda tx, n=place, e=event_id: tx.origins.accepted(
                        [
                            AcceptedRow(
                                row_id=rows[3].id,
                                seq=tx.audit.append(b"{}").seq,
                                event_id=e,
                                origin="o1",
                                spool_id="s1",
                                n=n,
                            )
                        ]
                    ),
                )
