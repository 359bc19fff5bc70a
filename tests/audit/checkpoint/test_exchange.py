"""Heads pass from the Authority that writes to the others, and no history passes for another."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.exchange import BATCH, HeadExchange
from svc.audit.checkpoint.head import from_line, to_line
from svc.audit.checkpoint.rewind import restoration
from svc.audit.checkpoint.signer import HeadWriter
from svc.audit.log.verify import verified_ranges, verify
from svc.errors import AuditBroken, StoreUnavailable, SvcError
from svc.model.audit.record import SignedHead, chain_hash
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import inline
from svc.store.sqlite.memory import memory_store
from tests.audit.logs import ANCHOR, MemoryHeads, MemoryLog, heads_over, short_record, verify_head
from tests.support.nothing import nothing


class ExchangeTests(SynchronousTestCase):
    """Two Authorities, one log, one store."""

    def setUp(self) -> None:
        """Nobody has signed anything."""
        self.store, self.log = memory_store(chain_hash), MemoryLog()
        self.ours, self.theirs = MemoryHeads(), MemoryHeads()
        self.clock, self.tasks = Clock(), BackgroundTasks()

    def exchange(self, keeper: MemoryHeads, cluster: str = "demo.example") -> HeadExchange:
        """One Authority's part."""
        return HeadExchange(
            store=self.store,
            keeper=keeper,
            verify_head=verify_head,
            cluster=cluster,
            log_id="log",
            in_thread=inline,
            is_given_up=lambda _: False,
            went_on=nothing,
        )

    def writer(self, keeper: MemoryHeads, share: Any = None) -> HeadWriter:
        """Whoever signs, and shares what it signs."""
        return HeadWriter(
            chain=self.log,
            keeper=keeper,
            key=ANCHOR,
            verify_head=verify_head,
            cluster="demo.example",
            log_id="log",
            leader="a" * 26,
            clock=self.clock,
            now=self.clock.seconds,
            tasks=self.tasks,
            share=share or self.exchange(keeper).share,
            lease_epoch=lambda: 1,
            on_signed=nothing,
            ours=nothing,
            on_takeover=nothing,
            on_unsigned=nothing,
        )

    def done(self, coroutine: Any) -> Any:
        """What it returns, at once."""
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def refused(self, coroutine: Any) -> SvcError:
        """Why it is refused."""
        failure = self.failureResultOf(Deferred.fromCoroutine(coroutine), AuditBroken)
        refusal = failure.value
        assert isinstance(refusal, SvcError)
        return refusal

    def sign(self, writer: HeadWriter, records: int = 1) -> None:
        """So many records more, and a head over them."""
        self.log.fill(records, short_record)
        self.done(writer.write())

    def put(self, head: SignedHead) -> None:
        """Somebody writes a head into the store by himself."""
        self.add(head.head.tree_size, to_line(head, edge=True))

    def add(self, size: int, line: bytes) -> None:
        """A line, as it is."""
        self.done(self.store.run("add", lambda tx: tx.heads.add(size, line, 100)))

    def test_taking_over(self) -> None:
        """Who takes over goes on from the other's newest head; both verify the same log."""
        first = self.writer(self.ours)
        self.successResultOf(first.startService())
        for _ in range(3):
            self.sign(first, 2)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 3)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 0)
        self.assertEqual(self.theirs.kept, self.ours.kept)
        second = self.writer(self.theirs)
        self.successResultOf(second.startService())
        self.sign(second, 5)
        self.assertEqual(self.done(self.exchange(self.ours).take()), 1)
        for keeper in (self.ours, self.theirs):
            self.assertEqual(
                verify(verified_ranges([self.log.log]), keeper.heads(), verify_head).anchored, 11
            )

    def test_many(self) -> None:
        """Who was away long takes everything there is, in several steps."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        for _ in range(2 * BATCH + 1):
            self.sign(writer)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 2 * BATCH + 1)

    def test_away_too_long(self) -> None:
        """Where heads between are forgotten, the next one stands with a hole before it."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        self.sign(writer)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 1)
        for _ in range(3):
            self.sign(writer)

        kept = [(one.head.tree_size, to_line(one, edge=True)) for one in self.ours.kept[-2:]]
        self.store = memory_store(chain_hash)
        for size, line in kept:
            self.add(size, line)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 2)
        self.assertEqual([each.pruned for each in self.theirs.kept], [0, 1, 0])
        self.assertEqual(
            verify(verified_ranges([self.log.log]), self.theirs.heads(), verify_head).anchored, 4
        )

    def test_begun_late(self) -> None:
        """Who begins without heads takes the oldest there is, with a hole before it."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        for _ in range(4):
            self.sign(writer)
        kept = [(one.head.tree_size, to_line(one, edge=True)) for one in self.ours.kept[1:]]
        self.store = memory_store(chain_hash)
        for size, line in kept:
            self.add(size, line)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 3)
        self.assertEqual(
            verify(verified_ranges([self.log.log]), self.theirs.heads(), verify_head).anchored, 4
        )
        self.store, self.theirs = memory_store(chain_hash), MemoryHeads()
        for size, line in (kept[0], kept[2]):
            self.add(size, line)
        self.refused(self.exchange(self.theirs).take())

    def test_answer_lost(self) -> None:
        """A head whose sharing may have failed is the next one's predecessor, once."""
        exchange, lost = self.exchange(self.ours), [True]

        async def share(head: SignedHead) -> None:
            await exchange.share(head)
            if lost.pop() if lost else False:
                raise StoreUnavailable("the answer was lost", reason="store_outcome_unknown")

        writer = self.writer(self.ours, share)
        self.log.fill(2, short_record)
        self.failureResultOf(writer.startService(), StoreUnavailable)
        self.assertEqual(self.ours.kept, [])
        self.log.fill(3, short_record)
        self.done(writer.write())
        self.assertEqual([each.head.tree_size for each in self.ours.kept], [2, 5])
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 2)
        self.assertEqual(
            verify(verified_ranges([self.log.log]), self.theirs.heads(), verify_head).anchored, 5
        )

    def test_crash_between(self) -> None:
        """A head that was shared and not kept, because of a crash, is found in the store."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        self.sign(writer, 2)
        shared = self.ours.kept.pop()
        self.assertEqual(self.done(self.exchange(self.ours).take()), 1)
        self.assertEqual(self.ours.kept, [shared])

    def test_not_believed(self) -> None:
        """What is not signed, of another log, out of order or no head at all is refused."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        self.sign(writer, 4)
        head = self.ours.kept[0]
        forged = evolve(head, signed=evolve(head.signed, signature=b"x" * 64))
        self.store = memory_store(chain_hash)
        self.put(forged)
        failure = self.failureResultOf(
            Deferred.fromCoroutine(self.exchange(self.theirs).take()), SvcError
        )
        self.assertEqual(failure.value.reason, "bad_signature")
        self.store = memory_store(chain_hash)
        self.put(head)
        other = self.refused(self.exchange(self.theirs, "else.example").take())
        self.assertEqual(other.reason, "audit_head_foreign")
        self.store = memory_store(chain_hash)
        self.done(self.store.run("rubbish", lambda tx: tx.heads.add(3, b"rubbish", 9)))
        self.refused(self.exchange(self.theirs).take())
        self.store = memory_store(chain_hash)
        line = to_line(head, edge=True)
        self.done(self.store.run("misplaced", lambda tx: tx.heads.add(9, line, 9)))
        self.done(self.exchange(self.theirs).take())
        self.done(self.store.run("again", lambda tx: tx.heads.add(10, line, 9)))
        self.refused(self.exchange(self.theirs).take())
        self.assertEqual(len(self.theirs.kept), 1)

    def test_two_heads(self) -> None:
        """Another head over as many records is never replaced."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        self.sign(writer, 2)
        self.clock.advance(3)
        again = self.writer(self.theirs)
        self.refused(_started(again))

    def test_gone_on_without(self) -> None:
        """Who keeps heads of a line that was given up goes on by the proof, and only by it."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        for _ in range(3):
            self.sign(writer, 2)
        self.log.fill(6, short_record)
        self.persist()
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 3)
        lost = self.ours.kept[-1]
        restored = self.log.go_on(4, lost, hours=1)
        self.rewrite()
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 0)
        self.done(self.store.run("drop", lambda tx: tx.heads.drop_after(4)))
        forged = evolve(restored, signed=evolve(restored.signed, signature=b"x" * 64))
        self.put(forged)
        self.failureResultOf(Deferred.fromCoroutine(self.exchange(self.theirs).take()), SvcError)
        self.done(self.store.run("drop", lambda tx: tx.heads.drop_after(4)))
        self.put(restored)
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 1)
        self.assertEqual([each.head.tree_size for each in self.theirs.kept], [2, 4, 5])
        self.assertEqual(self.done(self.exchange(self.theirs).take()), 0)
        self.assertEqual(
            verify(verified_ranges([self.log.log]), self.theirs.heads(), verify_head).anchored, 5
        )

    def test_shown(self) -> None:
        """Who does not write shows its greatest head in the store, and whoever does finds it."""
        writer = self.writer(self.theirs)
        self.successResultOf(writer.startService())
        self.sign(writer, 4)
        self.store = memory_store(chain_hash)
        theirs, ours = self.exchange(self.theirs), self.exchange(self.ours)
        theirs.unfenced = self.store
        self.assertEqual(self.done(ours.greater()), ())
        for _ in range(2):
            self.done(theirs.warn())
        self.assertEqual(self.done(ours.greater()), (to_line(self.theirs.kept[-1]),))
        self.assertEqual(self.done(theirs.greater()), ())
        self.done(ours.warn())

    def test_shown_too_late(self) -> None:
        """A lost head that somebody shows once more is in nobody's way."""
        writer = self.writer(self.ours)
        self.successResultOf(writer.startService())
        self.sign(writer, 7)
        lost = self.ours.kept[-1]
        proof = self.log.go_on(4, lost, hours=1)
        self.log.fill(2, short_record)
        (later,) = heads_over(self.log.log, 7, begin=2)
        follower, leader = self.exchange(self.theirs), self.exchange(self.ours)
        said = restoration(proof)
        assert said is not None
        follower.is_given_up = leader.is_given_up = said.gives_up
        follower.went_on = leader.went_on = self.fail
        self.put(proof)
        self.assertEqual(self.done(follower.take()), 1)
        self.done(leader.share(later))
        lines = self.done(self.store.read("heads", lambda tx: tx.heads.after(0, 9)))
        self.assertEqual([from_line(line, {}).head.tree_size for line in lines], [5, 7])
        self.assertEqual(from_line(lines[1], {}).hash, later.hash)

    def persist(self) -> None:
        """Put the log's rows into the store."""

        def append(tx: Any) -> None:
            for row in self.log.log:
                tx.audit.append(row.canonical)

        self.done(self.store.run("rows", append))

    def rewrite(self) -> None:
        """The store's rows are those of the log now; its heads stay."""
        heads = self.done(self.store.read("heads", lambda tx: tx.heads.after(0, 99)))
        self.store = memory_store(chain_hash)
        self.persist()
        for line in heads:
            self.add(from_line(line, {}).head.tree_size, line)


async def _started(writer: HeadWriter) -> None:
    """Its start."""
    await writer.startService()
