"""The service that signs heads: when, over what, and what keeps it from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from svc.audit.checkpoint.signer import (
    HEAD_EVERY,
    HEAD_SECONDS,
    KEY_RETRY_SECONDS,
    HeadsUnsigned,
    HeadWriter,
)
from svc.audit.checkpoint.writer_position import WriterPosition
from svc.audit.log.verify import verified_ranges, verify
from svc.errors import AuditBroken, LeaseLost, StoreUnavailable, SvcError
from svc.interfaces.audit import IChain
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.audit.record import SignedHead
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import inline
from tests.audit.logs import ANCHOR, MemoryHeads, MemoryLog, short_record, verify_head
from tests.support.nothing import nothing, nothing_later
from tests.support.proof import proves

ALONE: dict[str, Any] = {
    "lease_epoch": lambda: 1,
    "share": nothing_later,
    "ours": nothing,
    "on_takeover": nothing,
    "on_unsigned": nothing,
}
"""Of a writer beside which there is no other, ever."""


Spoil = Callable[[HeadWriter], Callable[[], object]]
"""Spoils something, and returns what mends it."""


@implementer(IChain)
@frozen
class Unreadable:
    """A log whose end is known, and none of whose rows can be read."""

    log: MemoryLog
    error: Exception

    async def head(self) -> ChainHead:
        return await self.log.head()

    async def rows(self, from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        raise self.error


class HeadWriterTests(SynchronousTestCase):
    """The service that signs."""

    def setUp(self) -> None:
        self.clock, self.log, self.keeper = Clock(), MemoryLog(), MemoryHeads()
        verifyObject(IChain, self.log)
        self.tasks, self.told = BackgroundTasks(), list[SignedHead]()

    def writer(self, cluster: str = "demo.example", **numbers: Any) -> HeadWriter:
        """A writer over the log, not started."""
        return HeadWriter(
            chain=self.log,
            keeper=self.keeper,
            key=ANCHOR,
            verify_head=verify_head,
            cluster=cluster,
            log_id="log",
            leader="a" * 26,
            clock=self.clock,
            now=self.clock.seconds,
            tasks=self.tasks,
            **{**ALONE, "on_signed": self.told.append, **numbers},
        )

    def started(self, **numbers: Any) -> HeadWriter:
        """A writer that runs."""
        writer = self.writer(**numbers)
        self.successResultOf(writer.startService())
        return writer

    def sizes(self) -> list[int]:
        """What each head kept covers."""
        return [head.head.tree_size for head in self.keeper.kept]

    def test_only_what_is_ours(self) -> None:
        """A head covers what was taken over and what was written here, and nothing past it."""
        own = WriterPosition()
        self.log.fill(3, short_record)
        writer = self.started(ours=lambda: own.to_sign, on_takeover=own.take_over)
        self.assertEqual(self.sizes(), [3])
        self.log.fill(2, short_record)
        own.committed(self.end())
        self.log.fill(4, short_record)  # by SQL, before the head is due
        writer.appended(2)
        self.clock.advance(HEAD_SECONDS)
        self.assertEqual(self.sizes(), [3, 5])
        self.successResultOf(writer.stopService())
        self.assertEqual(self.sizes(), [3, 5])

    def test_not_what_was_written(self) -> None:
        """Where another record stands in the place of ours nothing is signed."""
        own = WriterPosition()
        writer = self.started(ours=lambda: own.to_sign, on_takeover=own.take_over)
        self.log.fill(1, short_record)
        own.committed(ChainHead(1, b"x" * 32))
        refused = self.failureResultOf(Deferred.fromCoroutine(writer.write()), AuditBroken).value
        self.assertEqual(refused.reason, "audit_rolled_back")
        self.assertEqual(self.sizes(), [])

    def end(self) -> ChainHead:
        """Of the log."""
        return self.successResultOf(Deferred.fromCoroutine(self.log.head()))

    def test_the_lead_is_lost(self) -> None:
        """Who does not lead any more signs nothing and ends in order; who leads again does."""
        leads = True

        def epoch() -> int:
            if not leads:
                raise LeaseLost("another")
            return 7

        writer = self.started(lease_epoch=epoch)
        leads = False
        self.log.fill(1, short_record)
        writer.appended()
        self.clock.advance(HEAD_SECONDS)
        self.assertEqual(self.sizes(), [])
        self.clock.pump([HEAD_SECONDS] * 60)
        writer.require_signing()  # they are another's to sign over
        leads = True
        self.clock.advance(HEAD_SECONDS)
        self.assertEqual(self.sizes(), [1])
        leads = False
        self.log.fill(1, short_record)
        self.successResultOf(writer.stopService())
        self.assertEqual((self.sizes(), self.clock.getDelayedCalls()), ([1], []))

    @proves("G-OPEN-12")
    def test_when(self) -> None:
        """A head follows a second after a record, at once after 256, and on stop."""
        writer = self.started()
        self.assertEqual(self.sizes(), [])
        self.log.fill(1, short_record)
        writer.appended()
        self.clock.advance(0.9)
        self.assertEqual(self.sizes(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.sizes(), [1])
        self.log.fill(HEAD_EVERY, short_record)
        writer.appended(HEAD_EVERY)
        self.assertEqual(self.sizes(), [1, 257])
        self.log.fill(3, short_record)
        self.successResultOf(writer.stopService())
        self.assertEqual(self.sizes(), [1, 257, 260])
        self.assertEqual(self.told, self.keeper.kept)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(
            verify(verified_ranges([self.log.log]), self.keeper.heads(), verify_head).anchored, 260
        )

    def test_other_numbers(self) -> None:
        """An operator may have heads after fewer records, or later."""
        self.log.fill(1, short_record)
        writer = self.started(every=3, after=60.0)
        for _ in range(7):
            self.log.fill(1, short_record)
            writer.appended()
        self.assertEqual(self.sizes(), [1, 4, 7])
        self.clock.advance(59.9)
        self.assertEqual(self.sizes(), [1, 4, 7])
        self.clock.advance(0.2)
        self.assertEqual(self.sizes(), [1, 4, 7, 8])
        self.successResultOf(writer.stopService())

    def test_anchor_lost_with_other_numbers(self) -> None:
        """A first life may end before its first head; a longer log without one has lost it."""
        for every in (1, HEAD_EVERY, 1_000_000):
            self.log, self.keeper = MemoryLog(), MemoryHeads()
            self.log.fill(HEAD_EVERY, short_record)
            writer = self.started(every=every)
            self.assertEqual(self.sizes(), [HEAD_EVERY])
            self.successResultOf(writer.stopService())
            self.log, self.keeper = MemoryLog(), MemoryHeads()
            self.log.fill(HEAD_EVERY + 1, short_record)
            self.assertEqual(self.refusal(every=every), "audit_anchor_missing")

    def test_first_head(self) -> None:
        """The first head comes soon whatever the numbers are; the second one waits for them."""
        for by_count in (True, False):
            self.log, self.keeper = MemoryLog(), MemoryHeads()
            writer = self.started(every=1_000_000, after=86_400.0)
            self.log.fill(HEAD_EVERY, short_record)
            writer.appended(HEAD_EVERY if by_count else 1)
            if not by_count:
                self.clock.advance(HEAD_SECONDS)
            self.assertEqual(self.sizes(), [HEAD_EVERY])
            self.log.fill(HEAD_EVERY, short_record)
            writer.appended(HEAD_EVERY)
            self.clock.advance(HEAD_SECONDS)
            self.assertEqual(self.sizes(), [HEAD_EVERY])
            self.clock.advance(86_400.0)
            self.assertEqual(self.sizes(), [HEAD_EVERY, 2 * HEAD_EVERY])
            self.successResultOf(writer.stopService())

    def test_goes_on(self) -> None:
        """A restarted writer goes on from the last head, with the edge or without."""
        for edge in (True, False):
            writer = self.started()
            self.log.fill(5, short_record)
            self.successResultOf(writer.stopService())
            if not edge:
                self.keeper.kept[-1] = evolve(self.keeper.kept[-1], edge=())
        self.started()
        self.assertEqual(
            verify(verified_ranges([self.log.log]), self.keeper.heads(), verify_head).anchored, 10
        )

    def refusal(self, **changed: Any) -> str:
        """The reason with which a start is refused."""
        failure = self.failureResultOf(self.writer(**changed).startService(), SvcError)
        reason = failure.value.reason
        assert isinstance(reason, str)
        return reason

    def test_rolled_back(self) -> None:
        """A store behind the newest head, or with other records, stops the start."""
        writer = self.started()
        self.log.fill(9, short_record)
        self.successResultOf(writer.stopService())
        whole = self.log.log
        self.log.log = whole[:8]
        self.assertEqual(self.refusal(), "audit_rolled_back")
        self.log.fill(4, short_record)
        self.assertEqual(self.refusal(), "audit_rolled_back")
        self.log.log = [*whole[:8], evolve(whole[8], hash=bytes(32))]
        self.assertEqual(self.refusal(), "audit_rolled_back")
        self.log.log = whole
        self.assertEqual(self.refusal(cluster="else.example"), "audit_head_foreign")
        self.keeper.kept[-1] = evolve(
            self.keeper.kept[-1], signed=evolve(self.keeper.kept[-1].signed, signature=b"x" * 64)
        )
        self.assertEqual(self.refusal(), "bad_signature")

    def test_anchor_lost(self) -> None:
        """A grown log without any head is not signed as if nothing had happened."""
        self.log.fill(HEAD_EVERY + 1, short_record)
        self.assertEqual(self.refusal(), "audit_anchor_missing")

    def test_key_not_good(self) -> None:
        """What an ended key, or one not begun, keeps from being signed is said once, and waits."""
        for bad, reason in (
            (evolve(ANCHOR, ends_at=0.0), "audit_key_expired"),
            (evolve(ANCHOR, begins_at=1e9), "audit_key_not_begun"),
        ):
            self.setUp()
            own = WriterPosition()
            writer = self.started(ours=lambda own=own: own.to_sign, on_takeover=own.take_over)
            writer.key = bad
            self.log.fill(1, short_record)
            own.committed(self.end())
            writer.appended()
            with capturedLogs() as said:
                self.clock.advance(HEAD_SECONDS)
                waits = [one.getTime() - self.clock.seconds() for one in self.clock.calls]
                self.assertEqual(waits, [KEY_RETRY_SECONDS])
                self.clock.pump([1.0] * 60)
            self.assertEqual([one["log_level"].name for one in said], ["error"])
            self.assertIn("certificate that signs audit heads", said[0]["reason"])
            refused = self.failureResultOf(Deferred.fromCoroutine(writer.write()), AuditBroken)
            self.assertEqual(refused.value.reason, reason)
            writer.key = ANCHOR
            self.clock.pump([1.0] * 11)
            self.assertEqual(self.sizes(), [1])
            writer.key = bad
            self.log.fill(1, short_record)
            own.committed(self.end())
            writer.appended()
            with capturedLogs() as said:
                self.clock.advance(HEAD_SECONDS)
                self.successResultOf(writer.stopService())
            self.assertEqual([one["log_level"].name for one in said], ["error", "error"])
            self.assertNotIn("log_failure", said[-1])
            self.assertEqual((self.sizes(), self.clock.getDelayedCalls()), ([1], []))

    def test_edited_while_running(self) -> None:
        """A record edited before a head covers it is never signed."""
        self.log.fill(2, short_record)
        self.log.log[1] = evolve(self.log.log[1], canonical=b"{}")
        self.assertEqual(self.refusal(), "audit_broken")
        self.assertEqual(self.sizes(), [])

    def test_told(self) -> None:
        """That no head can be signed is told, and when one can; nothing is granted meanwhile."""
        told = list[Any]()
        writer = self.started(on_unsigned=told.append)

        def spoil_key() -> None:
            writer.key = evolve(ANCHOR, ends_at=0.0)

        def mend_key() -> None:
            writer.key = ANCHOR

        def spoil_record() -> None:
            good.append(self.log.log[-1])
            self.alter(len(self.log.log) - 1)

        def mend_record() -> None:
            self.log.log[-1] = good.pop()

        good = list[ChainRow]()
        for spoil, mend in ((spoil_key, mend_key), (spoil_record, mend_record)):
            writer.require_signing()
            self.log.fill(1, short_record)
            spoil()
            writer.appended()
            self.clock.pump([0.5] * 4)
            self.assertIsInstance(told[-1], AuditBroken)
            refused = self.assertRaises(HeadsUnsigned, writer.require_signing)
            self.assertEqual(refused.reason, "audit_head_unsigned")
            mend()
            self.clock.pump([1.0] * 12)
            self.assertIsNone(told[-1])
        writer.require_signing()
        self.assertEqual(self.sizes(), [1, 2])

    def test_overdue(self) -> None:
        """Whatever keeps a head away, nothing is granted soon after it was due; it heals."""
        for name in ("raw", "away", "hangs", "full_and_hangs"):
            with self.subTest(name=name):
                self.setUp()
                self.check_overdue(getattr(self, name), {"full_and_hangs": 2}.get(name, 1000))

    def check_overdue(self, spoil: Spoil, every: int) -> None:
        """See :meth:`test_overdue`; *spoil* returns what mends it."""
        told = list[Any]()
        after = 60.0 if every == 2 else 1.0
        writer = self.started(on_unsigned=told.append, every=every, after=after)
        self.log.fill(1, short_record)
        writer.appended()
        self.clock.advance(HEAD_SECONDS)
        self.assertEqual((self.sizes(), told), ([1], []))
        mend = spoil(writer)
        self.log.fill(2, short_record)
        writer.appended(2)
        self.clock.pump([0.5] * 16)
        self.log.fill(1, short_record)
        writer.appended()
        self.assertRaises(HeadsUnsigned, writer.require_signing)
        self.assertIsNotNone(told[-1])
        self.clock.pump([10.0] * 9)
        self.assertRaises(HeadsUnsigned, writer.require_signing)
        self.assertEqual(self.sizes(), [1])
        mend()
        self.clock.pump([1.0] * 62)
        writer.require_signing()
        self.assertIsNone(told[-1])
        self.assertEqual(self.sizes()[-1], 4)
        self.successResultOf(writer.stopService())
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.flushLoggedErrors(sqlite3.OperationalError)

    def raw(self, writer: HeadWriter) -> Callable[[], object]:
        """What reads the rows raises what it should not."""
        return self.failing(writer, sqlite3.OperationalError("Could not decode to UTF-8 column"))

    def away(self, writer: HeadWriter) -> Callable[[], object]:
        """The store does not give its rows, and nobody else asks for them."""
        return self.failing(writer, StoreUnavailable("database disk image is malformed"))

    def failing(self, writer: HeadWriter, error: Exception) -> Callable[[], object]:
        """Each reading of rows ends with *error*."""
        good, writer.chain = writer.chain, Unreadable(self.log, error)
        return lambda: setattr(writer, "chain", good)

    def hangs(self, writer: HeadWriter) -> Callable[[], object]:
        """The disk under the heads does not answer; later it does."""
        waiting = list[Callable[[], Any]]()
        hung = Deferred[None]()

        def run(call: Callable[[], Any]) -> Deferred[Any]:
            waiting.append(call)
            return hung.addCallback(lambda _: waiting.pop(0)())

        def mend() -> None:
            self.assertEqual(len(waiting), 1)
            writer.in_thread = inline
            hung.callback(None)

        writer.in_thread = run
        return mend

    full_and_hangs = hangs

    def alter(self, at: int) -> None:
        """Somebody changes a record in the store."""
        self.log.log[at] = evolve(self.log.log[at], canonical=b"{}")

    def test_between_heads(self) -> None:
        """A record altered long before the next head is due is found by the next look."""
        own = WriterPosition()
        numbers = {"every": 1000, "after": 3600.0}
        writer = self.started(ours=lambda: own.to_sign, on_takeover=own.take_over, **numbers)
        for count in (1, 3):
            self.log.fill(count, short_record)
            own.committed(self.end())
            writer.appended(count)
            self.successResultOf(Deferred.fromCoroutine(writer.verify()))
            self.clock.advance(1.0)
        self.log.fill(1, short_record)
        own.committed(self.end())
        good = self.log.log[4]
        self.alter(4)
        refused = self.failureResultOf(Deferred.fromCoroutine(writer.verify()), AuditBroken)
        self.assertIn("record 5 ", refused.value.text)
        self.log.log[4] = good
        self.successResultOf(Deferred.fromCoroutine(writer.verify()))
        self.successResultOf(writer.stopService())
        self.assertEqual(self.sizes()[-1], 5)

    def test_disk_full(self) -> None:
        """A head that could not be kept is signed again a second later, however rare heads are."""
        for records, wait, numbers in ((1, 1.0, {}), (2, 0.0, {"every": 2, "after": 3600.0})):
            with self.subTest(numbers=numbers):
                self.setUp()
                self.check_disk_full(self.started(**numbers), records, wait)

    def check_disk_full(self, writer: HeadWriter, records: int, wait: float) -> None:
        """See :meth:`test_disk_full`; the first head is due after a *wait*."""
        keep = MemoryHeads.keep
        full = [OSError(28, "No space left on device")]

        class Full(MemoryHeads):
            def keep(self, head: SignedHead) -> None:
                if full:
                    raise full.pop()
                keep(self, head)

        writer.keeper = self.keeper = Full()
        for _ in range(records):
            self.log.fill(1, short_record)
            writer.appended()
        self.clock.advance(wait)
        self.assertEqual((self.sizes(), full), ([], []))
        self.clock.advance(1)
        self.assertEqual(self.sizes(), [records])
