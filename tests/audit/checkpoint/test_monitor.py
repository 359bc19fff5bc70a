"""A store behind what is known is found by each pass and each write, and by whoever knows more."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from attrs import define, evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.audit.checkpoint.monitor import LOOK_SECS, LogWatch
from svc.audit.checkpoint.rewind import restoration
from svc.errors import AuditBroken, RecordLost, StoreUnavailable, SvcError
from svc.interfaces.audit import IHeadSource
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import SignedHead
from tests.audit.logs import MemoryHeads, MemoryLog, heads_over, short_record, verify_head
from tests.support.nothing import none_later, nothing, nothing_later

ALONE: dict[str, Any] = {
    "restorations": tuple,
    "others": none_later,
    "led_end": nothing_later,
    "appended": nothing,
    "verify": nothing_later,
    "keeps": nothing_later,
}
"""Of a watch over a log that nobody else has, and nobody writes here."""


@implementer(IHeadSource)
@define
class Source:
    """A witness that can be read."""

    head: SignedHead | None = None
    error: OSError | None = None
    name: str = "memory"

    async def newest(self) -> SignedHead | None:
        if self.error is not None:
            raise self.error
        return self.head


class WatchCase(SynchronousTestCase):
    """A log of twelve records under an Authority."""

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.log, self.keeper = MemoryLog(), MemoryHeads()
        self.log.fill(12, short_record)
        self.heads = heads_over(self.log.log, 3, 8, 12, hours=1)
        self.path = Path(self.mktemp())
        self.judged = 0
        self.told: list[AuditBroken | None] = []
        self.watch = self.made()
        self.start(self.watch)

    def made(self, **more: Any) -> LogWatch:
        latest_checkpoint = LatestCheckpoint(
            path=self.path, verify_head=self.verify_head, cluster="demo.example", log_id="log"
        )
        return LogWatch(
            chain=self.log,
            keeper=self.keeper,
            latest_checkpoint=latest_checkpoint,
            verify_head=self.verify_head,
            clock=self.clock,
            **{**ALONE, "on_fault": self.told.append, **more},
        )

    def start(self, watch: LogWatch) -> None:
        self.successResultOf(watch.startService())
        self.addCleanup(watch.stopService)

    def verify_head(self, signed: Any, at: float) -> None:
        self.judged += 1
        verify_head(signed, at)

    def done(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.successResultOf(Deferred.fromCoroutine(coroutine))

    def refused(self, coroutine: Coroutine[Any, Any, Any]) -> SvcError:
        found = self.failureResultOf(Deferred.fromCoroutine(coroutine), SvcError).value
        assert isinstance(found, SvcError)
        return found


class WatchTests(WatchCase):
    """Looks, writes, and what others show."""

    def end(self) -> ChainHead:
        return self.successResultOf(Deferred.fromCoroutine(self.log.head()))

    def passes(self) -> str:
        """One pass; what is amiss."""
        self.clock.advance(LOOK_SECS)
        return "" if self.watch.fault is None else self.watch.fault.text

    def test_put_back(self) -> None:
        """The first missing record is named within a pass; a store that is right again heals it."""
        self.watch.own.committed(self.end())
        self.assertEqual(self.passes(), "")
        whole = self.log.log
        self.log.put_back(7)
        self.assertIn("record 8 is the first that is missing", self.passes())
        self.assertEqual([each and each.reason for each in self.told], ["audit_rolled_back"])
        self.assertEqual(self.refused(self.watch.confirm()).reason, "audit_rolled_back")
        self.log.log = whole
        self.assertEqual(self.passes(), "")
        self.assertIsNone(self.told[-1])
        self.done(self.watch.confirm())

    def test_store_away(self) -> None:
        """While the store does not answer nothing is found and nothing forgotten."""

        class Away(MemoryLog):
            async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
                raise StoreUnavailable("down for a test")

        self.watch.own.committed(self.end())
        here, self.watch.chain = self.watch.chain, Away()
        self.assertEqual(self.passes(), "")
        self.watch.chain = here
        self.log.put_back(7)
        self.assertIn("record 8", self.passes())
        self.watch.chain = Away()
        self.assertIn("record 8", self.passes())

    def test_no_healing(self) -> None:
        """What was found of a file is not forgotten: writes would go to the one we hold open."""
        watch = self.made(heals=False)
        self.start(watch)
        watch.own.committed(self.end())
        whole = self.log.log
        self.log.put_back(7)
        self.clock.advance(LOOK_SECS)
        self.log.log = whole
        self.clock.advance(LOOK_SECS)
        self.assertIsNotNone(watch.fault)

    def test_signed_head(self) -> None:
        """A head in the anchor directory is a mark too, also of records that others wrote."""
        self.keeper.kept = list(self.heads)
        self.log.put_back(11)
        self.assertIn("record 12 is the first that is missing", self.passes())

    def test_other_history(self) -> None:
        """A store that holds other records is found, though it has more of them."""
        self.watch.own.committed(self.end())
        self.log.put_back(11)
        self.log.drawn = 99
        self.log.fill(5, short_record)
        self.assertIn("record 12 differs from the one", self.passes())

    def test_writes(self) -> None:
        """A write goes on only from the end that is known, or a later one."""
        end = self.end()
        self.watch.require(ChainHead())
        self.watch.own.committed(end)
        self.watch.own.committed(ChainHead(3, b"older"))
        self.watch.require(end)
        self.watch.require(ChainHead(13, b"x" * 32))
        for behind in (ChainHead(11, b"x" * 32), ChainHead(12, b"x" * 32), ChainHead()):
            error = self.assertRaises(AuditBroken, self.watch.require, behind)
            self.assertEqual(error.reason, "audit_rolled_back")
        self.watch.found(error)
        self.assertRaises(AuditBroken, self.watch.require, end)

    def test_foreign(self) -> None:
        """A record past what was written here is named within a pass, while we lead."""
        leads = True

        async def led_end() -> ChainHead | None:
            return await self.log.head() if leads else None

        watch = self.watch
        watch.led_end = led_end
        self.assertEqual(self.passes(), "")
        watch.own.take_over(self.end())
        before = self.end()
        self.log.fill(1, short_record)
        watch.own.left(before, self.end())
        late: list[int] = []
        watch.appended = late.append
        self.assertEqual(self.passes(), "", "its answer is on the way, or lost")
        self.assertEqual((late, watch.own.known), ([1], self.end()), "a head is to cover it")
        watch.own.committed(self.end())
        self.assertEqual(self.passes(), "")
        whole = list(self.log.log)
        self.log.fill(2, short_record)
        self.assertIn("record 14 was not written by this Authority", self.passes())
        self.assertEqual([each and each.reason for each in self.told], ["audit_foreign_record"])
        error = self.assertRaises(AuditBroken, watch.require, self.end())
        self.assertEqual(error.reason, "audit_foreign_record")
        self.log.log = whole
        self.assertEqual(self.passes(), "")
        leads = False
        self.log.fill(2, short_record)
        self.assertEqual(self.passes(), "", "whoever leads now wrote them")

    def test_what_others_know(self) -> None:
        """Whoever shows a greater head stops us, over a restart too; what we hold is cheap."""
        for head in self.heads:
            self.done(self.watch.receive_head(to_line(head)))
        self.assertEqual(self.judged, 0)
        whole = self.log.log
        self.log.put_back(7)
        error = self.refused(self.watch.receive_head(to_line(self.heads[2])))
        self.assertEqual(error.reason, "audit_rolled_back")
        self.assertIn("record 8 is the first that is missing", error.text)
        self.assertRaises(AuditBroken, self.watch.require, self.end())
        again = self.watch = self.made()
        self.start(again)
        self.assertIn("record 8 is the first", self.passes())
        self.log.log = whole
        self.assertEqual(self.passes(), "")

    def test_not_believed(self) -> None:
        """A forged head, another log's and rubbish change nothing."""
        self.log.put_back(7)
        forged = evolve(self.heads[2], signed=evolve(self.heads[2].signed, signature=b"x" * 64))
        (foreign,) = heads_over(self.log.log, 7, log_id="else")
        for line, reason in (
            (to_line(forged), "bad_signature"),
            (to_line(foreign), "audit_head_foreign"),
            (b"rubbish", "malformed"),
        ):
            self.assertEqual(self.refused(self.watch.receive_head(line)).reason, reason)
        self.assertEqual(self.passes(), "")

    def test_one_bad_head_among_others(self) -> None:
        """What somebody put into the store that is no head keeps the next one from nobody."""
        forged = evolve(self.heads[2], signed=evolve(self.heads[2].signed, signature=b"x" * 64))

        async def others() -> tuple[bytes, ...]:
            return (b"rubbish", to_line(forged), to_line(self.heads[2]))

        self.log.put_back(7)
        self.watch.others = others
        self.assertIn("record 8 is the first that is missing", self.passes())
        self.flushLoggedErrors()

    def test_given_up(self) -> None:
        """Heads of a line that was given up on purpose are passed over, before and after."""
        self.log.put_back(7)
        self.refused(self.watch.receive_head(to_line(self.heads[2])))
        restored = self.log.go_on(7, self.heads[2], hours=100)
        said = restoration(restored)
        assert said is not None
        self.watch.go_on_without(said)
        self.assertEqual(self.passes(), "")
        self.done(self.watch.receive_head(to_line(self.heads[1])))
        self.watch.restorations = lambda: [said]
        self.done(self.watch.receive_head(to_line(self.heads[2])))
        (greater,) = heads_over(self.rows_of_more(), 14, hours=1)
        self.assertEqual(
            self.refused(self.watch.receive_head(to_line(greater))).reason, "audit_rolled_back"
        )

    def test_given_up_during_a_look(self) -> None:
        """A look that began before the line was given up does not stop what goes on."""
        held: list[Deferred[None]] = []

        class Slow(MemoryLog):
            async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
                held.append(Deferred())
                await held[-1]
                return await super().rows(from_seq, limit)

        self.log.put_back(7)
        self.refused(self.watch.receive_head(to_line(self.heads[2])))
        self.watch.heals = False
        self.watch.chain = Slow(self.log.log)
        self.clock.advance(LOOK_SECS)
        said = restoration(self.log.go_on(7, self.heads[2], hours=100))
        assert said is not None
        self.watch.go_on_without(said)
        confirmed = Deferred.fromCoroutine(self.watch.confirm())
        while held:
            held.pop(0).callback(None)
        self.successResultOf(confirmed)
        self.assertIsNone(self.watch.fault)

    def rows_of_more(self) -> Any:
        """The lost line, when it was longer than anybody said."""
        log = MemoryLog()
        log.fill(14, short_record)
        return log.log

    def test_other_authorities(self) -> None:
        """What another Authority puts into the store is heard at each pass."""

        async def others() -> list[bytes]:
            return [to_line(self.heads[2])]

        self.watch.others = others
        self.assertEqual(self.passes(), "")
        self.log.put_back(7)
        self.assertIn("record 8", self.passes())

    def test_witnesses(self) -> None:
        """A witness that can be read is heard before anything is written; a broken one is not."""
        self.log.put_back(7)
        self.watch.sources = (Source(), Source(error=OSError(13, "denied")))
        self.done(self.watch.ask_witnesses())
        self.done(self.watch.confirm())
        self.watch.sources = (Source(self.heads[2]),)
        self.done(self.watch.ask_witnesses())
        self.assertEqual(self.refused(self.watch.confirm()).reason, "audit_rolled_back")


class RecordFaultTests(WatchCase):
    """Records that were altered, and a store that alters them."""

    def test_altered(self) -> None:
        """What does not verify is named, nothing is written, and a record put right heals it."""
        amiss: list[AuditBroken] = []

        async def verify() -> None:
            for one in amiss:
                raise one

        watch = self.made(verify=verify, heals=False)
        self.start(watch)
        amiss.append(AuditBroken("audit log: record 12 does not verify"))
        self.clock.advance(LOOK_SECS)
        self.assertEqual([each and each.reason for each in self.told], ["audit_broken"])
        refused = self.assertRaises(
            AuditBroken, watch.require, ChainHead(12, self.log.log[-1].hash)
        )
        self.assertEqual(refused.reason, "audit_broken")
        amiss.clear()
        self.clock.advance(LOOK_SECS)
        self.assertIsNone(self.told[-1])
        watch.require(ChainHead(12, self.log.log[-1].hash))

    def test_not_kept(self) -> None:
        """A store that keeps no record is tried again by each look, until it does."""
        tried: list[int] = []

        async def keeps() -> None:
            tried.append(len(tried))
            if len(tried) < 3:
                raise RecordLost.at(13)

        watch = self.made(keeps=keeps, heals=False)
        self.start(watch)
        self.clock.advance(LOOK_SECS)
        self.assertEqual(tried, [])
        watch.found(RecordLost.at(13))
        for _ in range(2):
            self.clock.advance(LOOK_SECS)
            self.assertIsNotNone(watch.fault)
        self.clock.advance(LOOK_SECS)
        self.assertEqual((watch.fault, self.told[-1], len(tried)), (None, None, 3))
